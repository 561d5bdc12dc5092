"""PPO's fused kernel against autograd on the same networks."""

import copy

import pytest
import torch

from paddock.components.controllers import actor_critic
from paddock.components.controllers.actor_critic import FusedActorCritic
from paddock.components.controllers.policy import PolicyConfig, StochasticPolicy, ValueConfig, ValueFunction
from paddock.components.networks.mlp import MLPConfig
from paddock.components.normalizers import NormalizerConfig, ObservationNormalizer
from paddock.components.optimizers.adam import Adam, AdamConfig
from paddock.components.workers import Workers
from paddock.core.specs import ArraySpec, Spec
from paddock.workflows.ppo import policy_loss, ratio_bounds, value_loss

SIZE, ACTIONS = 11, 3
BOX = ArraySpec(shape=(ACTIONS,), dtype="float32")
CHOICE = ArraySpec(shape=(), dtype="int64", choices=ACTIONS)


def networks(action=BOX, activation="tanh", hidden=(32, 24), value_hidden=(16,), **network):
    spec = Spec(observation={"vector": ArraySpec(shape=(SIZE,), dtype="float32")}, action=action)
    torch.manual_seed(3)

    def mlp(sizes):
        target = "paddock.components.networks.mlp.MLP"
        return MLPConfig.model_validate(
            {"_target_": target, "hidden": list(sizes), "activation": activation, **network}
        )

    policy = PolicyConfig.model_construct(
        network=mlp(hidden), parts=None, auxiliary_targets=None, log_std_init=-0.5, log_std_gain=0.3, mean_init=None,
        head_gain=1.0,
    )  # fmt: skip
    value = ValueConfig.model_construct(network=mlp(value_hidden), parts=None, head_gain=1.0)
    return StochasticPolicy(policy, spec), ValueFunction(value, spec)


def normalizer(enabled=True):
    config = NormalizerConfig.model_construct(enabled=enabled, clip=1.5, min_std=0.01)
    spec = Spec(observation={"vector": ArraySpec(shape=(SIZE,), dtype="float32")}, action=BOX)
    made = ObservationNormalizer(config, spec)
    made.update({"vector": torch.randn(500, SIZE) * 2 + 1})
    return made


def minibatch(policy, count):
    observation = {"vector": torch.randn(count, SIZE)}
    with torch.no_grad():
        action = policy(observation).sample()
        log_prob = policy(observation).log_prob(action) + 0.3 * torch.randn(count)
    advantage = torch.randn(count)
    low, high = ratio_bounds(advantage, 0.2)
    return {
        "observation": observation, "action": action, "log_prob": log_prob, "advantage": advantage,
        "ratio_low": low, "ratio_high": high, "return": torch.randn(count), "value": torch.randn(count),
    }  # fmt: skip


def naive(policy, value, scale, samples, parameters, *, value_coef, entropy_coef, value_clip):
    observation = scale(samples["observation"])
    distribution = policy(observation)
    loss = policy_loss(distribution.log_prob(samples["action"]), samples)
    loss = loss + value_coef * value_loss(value(observation), samples, value_clip)
    loss = loss - entropy_coef * distribution.entropy().mean()
    return loss, torch.autograd.grad(loss, parameters)


@pytest.mark.parametrize("action", [BOX, CHOICE], ids=["gaussian", "categorical"])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("value_clip", [None, 0.5])
@pytest.mark.parametrize("with_optimizer", [True, False])
def test_fused_gradients_equal_autograd(action, activation, value_clip, with_optimizer):
    scale = normalizer(enabled=with_optimizer)
    policy, value = networks(action, activation)
    if with_optimizer:  # which lays the parameters end to end
        config = AdamConfig.model_construct(components=["policy", "value"], learning_rate=1e-3, learning_rate_scales={})
        Adam(config, {"policy": policy, "value": value})
    scales = {"value_coef": 0.7, "entropy_coef": 0.05, "value_clip": value_clip}
    samples = minibatch(policy, 203)
    parameters = [*policy.parameters(), *value.parameters()]
    loss, expected = naive(policy, value, scale, samples, parameters, **scales)
    fused = FusedActorCritic(policy, value, scale, **scales, workers=Workers(1), shard_size=80)
    held, order = fused.hold(samples), torch.randperm(203)
    found_loss, found = fused.gradients({name: part[order] for name, part in held.items()}, parameters)
    assert found_loss.item() == pytest.approx(loss.item(), abs=1e-5)
    for parameter, ours, theirs in zip(parameters, found, expected, strict=True):
        assert ours.shape == parameter.shape
        assert torch.allclose(ours, theirs, atol=2e-6, rtol=1e-4)


def test_fused_gradients_do_not_depend_on_the_number_of_threads():
    policy, value = networks()
    samples = minibatch(policy, 300)
    parameters = [*policy.parameters(), *value.parameters()]
    scale = normalizer()

    def found(workers):
        scales = {"value_coef": 0.5, "entropy_coef": 0.0, "value_clip": None}
        fused = FusedActorCritic(policy, value, scale, **scales, workers=Workers(workers), shard_size=64)
        return [gradient.clone() for gradient in fused.gradients(fused.hold(samples), parameters)[1]]

    assert all(torch.equal(one, three) for one, three in zip(found(1), found(3), strict=True))


def test_packed_networks_compute_the_same_without_a_gradient_and_follow_their_parameters():
    (policy, value), scale = networks(), normalizer()
    observation = {"vector": torch.randn(130, SIZE) * 3}
    mean, values = policy(scale(observation)).mean.detach(), value(scale(observation)).detach()
    policy.pack(), value.pack()
    copied = copy.deepcopy(policy)
    with torch.no_grad():
        assert torch.allclose(policy.of_unscaled(observation, scale).mean, mean, atol=2e-6)
        assert torch.allclose(value.of_unscaled(observation, scale), values, atol=2e-6)
        policy.head.bias += 1.0
        assert torch.allclose(policy.of_unscaled(observation, scale).mean, mean + 1.0, atol=2e-6)
        assert torch.allclose(copied.of_unscaled(observation, scale).mean, mean, atol=2e-6)
        copied.head.bias -= 1.0
        assert torch.allclose(copied.of_unscaled(observation, scale).mean, mean - 1.0, atol=2e-6)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"layer_norm": True}, "layer_norm"),
        ({"activation": "silu"}, "silu"),
        ({"hidden": (512, 512)}, "8,192 weights"),
    ],
)
def test_networks_that_do_not_fit_are_named(options, reason):
    assert reason in actor_critic.obstacle(*networks(**options), normalizer(), ["vector"])
    assert actor_critic.obstacle(*networks(), normalizer(), ["vector"]) is None
    assert "'image'" in actor_critic.obstacle(*networks(), normalizer(), ["vector", "image"])
