import pytest
import torch

from paddock.components.controllers.policy import PolicyConfig, StochasticPolicy
from paddock.components.networks.cnn import CNN, CNNConfig
from paddock.components.networks.images import image_shape, unit_image
from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec

ACTION = ArraySpec(shape=(2,), dtype="float32", low=-1.0, high=1.0)
NETWORK = {"_target_": "paddock.components.networks.cnn.CNN", "channels": [4, 8], "hidden": [16]}


def spec(**parts):
    return Spec(
        observation={name: ArraySpec(shape=shape, dtype=kind) for name, (shape, kind) in parts.items()}, action=ACTION
    )


@pytest.mark.parametrize("shape", [(64, 64, 3), (4, 64, 64)])
def test_pictures_in_both_layouts_and_numbers_beside_them(shape):
    cnn = CNN(CNNConfig(**NETWORK), spec(images=(shape, "uint8"), speed=((1,), "float32")))
    picture = torch.randint(256, (5, *shape), dtype=torch.uint8)
    features = cnn({"images": picture, "speed": torch.zeros(5, 1)})
    assert features.shape == (5, 16)
    faster = cnn({"images": picture, "speed": torch.ones(5, 1)})
    assert not torch.equal(features, faster)
    assert not torch.equal(features, cnn({"images": 255 - picture, "speed": torch.zeros(5, 1)}))


def test_a_policy_hands_the_parts_to_a_network_that_reads_them():
    policy = StochasticPolicy(PolicyConfig(_target_="it", network=NETWORK), spec(observation=((64, 64, 3), "uint8")))
    actions = policy({"observation": torch.zeros(3, 64, 64, 3, dtype=torch.uint8)}).mode()
    assert actions.shape == (3, 2)


def test_without_a_picture_there_is_nothing_to_convolve():
    with pytest.raises(InputError, match="needs a picture"):
        CNN(CNNConfig(**NETWORK), spec(observation=((6,), "float32")))


@pytest.mark.parametrize("shape", [(3, 6, 8), (6, 8, 3)], ids=["channels first", "channels last"])
def test_unit_image_has_channels_first_and_numbers_from_0_to_1(shape):
    part = ArraySpec(shape=shape, dtype="uint8")
    images = torch.arange(256, dtype=torch.uint8).repeat(2)[: 2 * 144].view(2, *shape)
    found = unit_image(images, part)
    channels_first = images if shape[0] == 3 else images.movedim(-1, 1)
    assert image_shape(part) == found.shape[1:] == (3, 6, 8)
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(found, channels_first.float() / 255.0)
