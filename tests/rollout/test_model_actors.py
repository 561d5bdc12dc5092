"""What world models' actors try out while they collect."""

import numpy as np
import pytest
import torch
from torch import nn

from paddock.config.schema import TargetSchema
from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec
from paddock.rollout.model_actors import DeterministicActor, EZGreedy, EZGreedyConfig, PolicyOverModelConfig

NUMBERS = ArraySpec(shape=(2,), dtype="float32", low=-1.0, high=1.0)
CHOICES = ArraySpec(shape=(), dtype="int64", choices=3)


def followed(ez_greedy, n, size, steps):
    """What was held, [T, N, A], from nothing on."""
    held, kept = torch.full((n, size), torch.nan), []
    for _ in range(steps):
        held = ez_greedy.step(held)
        kept.append(held)
    return torch.stack(kept).numpy()


def test_ez_greedy_actions_begin_as_often_and_last_as_long_as_told():
    torch.manual_seed(0)
    held = followed(EZGreedy(EZGreedyConfig(epsilon=[0.0, 0.1], duration=4), NUMBERS), n=300, size=2, steps=600)
    assert np.isnan(held[..., 0]).all()
    value = held[..., 1]
    is_held = ~np.isnan(value)
    begins = is_held[1:] & ~is_held[:-1]
    assert begins.sum() / (~is_held[:-1]).sum() == pytest.approx(0.1, rel=0.05)
    assert is_held[1:].sum() / begins.sum() == pytest.approx(4.0, rel=0.05)
    goes_on = is_held[1:] & is_held[:-1]
    np.testing.assert_array_equal(value[1:][goes_on], value[:-1][goes_on])
    drawn = value[1:][begins]
    np.testing.assert_allclose(np.quantile(drawn, [0.0, 0.25, 0.5, 0.75, 1.0]), [-1, -0.5, 0, 0.5, 1], atol=0.03)


def test_of_choices_a_whole_one_is_held():
    torch.manual_seed(0)
    held = followed(EZGreedy(EZGreedyConfig(epsilon=0.2, duration=3), CHOICES), n=50, size=3, steps=100)
    is_held = ~np.isnan(held)
    assert (is_held.all(-1) == is_held.any(-1)).all()
    choices = held[is_held.all(-1)]
    np.testing.assert_array_equal(choices.sum(-1), 1.0)
    np.testing.assert_allclose(choices.mean(0), 1 / 3, atol=0.08)


class Nothing(nn.Module):
    """A model and a policy in one that see nothing and do nothing."""

    config = TargetSchema(_target_="nothing")

    def initial(self, n):
        return {"seen": torch.zeros(n, 1)}

    def observe(self, latent, action, observation, is_first):
        return latent

    def features(self, latent):
        return latent["seen"]

    def forward(self, features):
        return torch.zeros(len(features), 2)


def test_who_collects_follows_ez_greedy_and_who_is_judged_does_not():
    spec = Spec(observation={"observation": ArraySpec(shape=(1,), dtype="float32", low=0.0, high=1.0)}, action=NUMBERS)

    def actor(**options):
        config = {"_target_": "x", "world_model": "model", "policy": "policy", **options}
        parts = {"model": Nothing(), "policy": Nothing()}
        return DeterministicActor(PolicyOverModelConfig.model_validate(config), parts, spec)

    seen = {"observation": torch.zeros(40, 1)}
    assert "impulse" not in actor(exploration=0.1).initial_state(40)
    trying = actor(ez_greedy={"epsilon": [0.0, 0.5]})
    state, done = None, []
    for _ in range(10):
        action, state = trying.act(seen, state, deterministic=False)
        assert torch.equal(state["last_action"], action), "the model is told what was really done"
        done.append(action)
    tried = torch.stack(done)
    assert not tried[..., 0].any()
    assert 0.4 < (tried[..., 1] != 0).float().mean() < 0.9
    judged, _ = trying.act(seen, trying.initial_state(40), deterministic=True)
    assert not judged.any()
    assert not state["impulse"].isnan().all()
    judged, state = trying.act(seen, state, deterministic=True)
    assert not judged.any(), "what was held is let go of"
    assert state["impulse"].isnan().all()
    with pytest.raises(InputError, match=r"ez_greedy.epsilon has 3 values, and an action has 2"):
        actor(ez_greedy={"epsilon": [0.1, 0.1, 0.1]})
    with pytest.raises(ValueError, match=r"epsilon is 0 or more and below 1"):
        actor(ez_greedy={"epsilon": [0.1, 1.0]})
