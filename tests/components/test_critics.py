import math

import pytest
import torch
from torch import nn

from paddock.components.controllers.critics import Critics, CriticsConfig
from paddock.components.learning import TargetNetwork
from paddock.components.networks.cnn import CNN
from paddock.components.networks.stacked import StackedLinear
from paddock.core.specs import ArraySpec, Spec

ACTION = ArraySpec(shape=(2,), dtype="float32", low=-1.0, high=1.0)
SPEC = Spec(observation={"observation": ArraySpec(shape=(3,), dtype="float32")}, action=ACTION)


def critics(spec=SPEC, **values):
    return Critics(CriticsConfig(**{"_target_": "it", "hidden": [8, 8], "activation": "relu", **values}), spec)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_stacked_critics_are_the_single_ones_side_by_side(layer_norm):
    torch.manual_seed(0)
    ensemble = critics(ensemble_size=4, layer_norm=layer_norm)
    observation, action = {"observation": torch.randn(5, 3)}, torch.randn(5, 2)
    values = ensemble(observation, action)
    assert values.shape == (4, 5)
    network = ensemble.network
    for copy in range(4):
        features = torch.cat([observation["observation"], action], -1)
        for index, layer in enumerate(network.hidden):
            features = features @ layer.weight[copy] + layer.bias[copy]
            if layer_norm:
                features = nn.functional.layer_norm(features, [8])
            features = features.relu()
            assert index < 2
        alone = features @ network.head.weight[copy] + network.head.bias[copy]
        assert torch.allclose(values[copy], alone.squeeze(-1), atol=1e-6)


def test_only_the_chosen_critics_answer():
    ensemble = critics(ensemble_size=5)
    observation, action = {"observation": torch.randn(7, 3)}, torch.randn(7, 2)
    chosen = torch.tensor([4, 1])
    assert torch.allclose(ensemble(observation, action, chosen), ensemble(observation, action)[chosen], atol=1e-6)


def test_initial_statistics_are_those_of_single_layers():
    torch.manual_seed(0)
    stacked = StackedLinear(10, 256, 256)
    reference = nn.Linear(256, 256)
    for weight in stacked.weight:
        assert weight.std().item() == pytest.approx(reference.weight.std().item(), rel=0.02)
        assert weight.abs().max() <= 1 / math.sqrt(256)
    orthogonal = StackedLinear(3, 64, 64, gain=2.0)
    for weight in orthogonal.weight:
        assert torch.allclose(weight @ weight.T, 4 * torch.eye(64), atol=1e-4)
    assert not torch.equal(stacked.weight[0], stacked.weight[1])


def test_pictures_go_through_an_encoder_that_all_critics_share():
    picture = ArraySpec(shape=(36, 36, 1), dtype="uint8")
    spec = Spec(observation={"camera": picture, "speed": ArraySpec(shape=(1,), dtype="float32")}, action=ACTION)
    encoder = {"_target_": "paddock.components.networks.cnn.CNN", "channels": [4], "hidden": [16]}
    ensemble = critics(spec, ensemble_size=3, encoder=encoder)
    assert isinstance(ensemble.encoder, CNN)
    observation = {"camera": torch.zeros(2, 36, 36, 1, dtype=torch.uint8), "speed": torch.ones(2, 1)}
    assert ensemble(observation, torch.zeros(2, 2)).shape == (3, 2)


def test_a_target_follows_at_its_rate():
    target, source = nn.Linear(3, 2), nn.Linear(3, 2)
    slow = TargetNetwork(target, source, 0.1)
    assert torch.equal(target.weight, source.weight)
    start = target.weight.clone()
    with torch.no_grad():
        source.weight.add_(1.0)
    slow.update()
    assert torch.allclose(target.weight, start + 0.1)
    slow.update()
    assert torch.allclose(target.weight, start + 0.19)
    TargetNetwork(target, source, 1.0).update()
    assert torch.equal(target.weight, source.weight)
