"""The linear controller: many candidates by one batched product are the same as each by itself."""

import pytest
import torch

from paddock.components.controllers.linear import LinearController, LinearControllerConfig
from paddock.core.specs import ArraySpec, Spec

IDENTITY = {"_target_": "paddock.components.representation_learners.identity.IdentityRepresentation"}
MEMORY = {"_target_": "paddock.components.dynamics.mdn_rnn.MDNRNN", "representation": IDENTITY, "size": 256}
NUMBERS = ArraySpec(shape=(3,), dtype="float32", low=-1.0, high=1.0)
CHOICES = ArraySpec(shape=(), dtype="int64", choices=4)


def controller(latent=32, action=NUMBERS, **options):
    spec = Spec(observation={"observation": ArraySpec(shape=(latent,), dtype="float32")}, action=action)
    parts = {"representation": IDENTITY, "memory": MEMORY}
    return LinearController(LinearControllerConfig.model_validate({"_target_": "x", **parts, **options}), spec)


def test_linear_controller_has_the_published_size_and_begins_at_zero():
    made = controller()
    assert made.parameter_count == 867
    assert (made(torch.randn(5, 288)) == 0).all()


@pytest.mark.parametrize("hidden", [0, 40])
@pytest.mark.parametrize("action", [NUMBERS, CHOICES], ids=["numbers", "choices"])
def test_candidates_act_as_each_would_by_itself(hidden, action):
    made = controller(4, action, hidden=hidden, reads="earlier_latent")
    torch.manual_seed(6)
    candidates, features = torch.randn(5, made.parameter_count), torch.randn(5, 3, 8)
    together = made.act_as(candidates, features)
    for vector, seen, acted in zip(candidates, features, together, strict=True):
        made.set_vector(vector)
        assert torch.allclose(made(seen), acted, atol=1e-6)
        assert torch.equal(made.get_vector(), vector)
    if action is CHOICES:
        assert (together.sum(-1) == 1).all()


def test_controller_with_a_hidden_layer_has_the_size_of_the_papers_variant():
    assert controller(hidden=40, reads="nothing").parameter_count == 1_443
