"""Options of how wide a policy's actions are spread: log_std_gain and log_std_range."""

import pytest
import torch

from paddock.components.controllers.policy import PolicyConfig, StochasticPolicy
from paddock.components.controllers.squashed_policy import SquashedPolicy, SquashedPolicyConfig
from paddock.core.specs import ArraySpec, Spec

NETWORK = {"_target_": "paddock.components.networks.mlp.MLP", "hidden": [8], "activation": "tanh"}
SPEC = Spec(
    observation={"observation": ArraySpec(shape=(3,), dtype="float32")},
    action=ArraySpec(shape=(2,), dtype="float32", low=[-1.0, -1.0], high=[1.0, 1.0]),
)


def test_log_std_gain_keeps_the_first_std_and_multiplies_its_gradient():
    seen = {"observation": torch.randn(5, 3)}
    gradients = {}
    for gain in (1.0, 4.0):
        torch.manual_seed(0)
        policy = StochasticPolicy(
            PolicyConfig(_target_="it", network=NETWORK, log_std_init=-0.7, log_std_gain=gain), SPEC
        )
        distribution = policy(seen)
        assert torch.allclose(distribution.log_std, torch.full((2,), -0.7))
        distribution.log_prob(torch.full((5, 2), 0.3)).sum().backward()
        gradients[gain] = policy.log_std.grad
    assert torch.allclose(gradients[4.0], 4 * gradients[1.0], rtol=1e-5)


@pytest.mark.parametrize(("given", "kept"), [(-9.0, -3.0), (-1.0, -1.0), (9.0, 0.5)])
def test_log_std_range_bounds_what_the_network_says(given, kept):
    policy = SquashedPolicy(SquashedPolicyConfig(_target_="it", network=NETWORK, log_std_range=(-3.0, 0.5)), SPEC)
    with torch.no_grad():
        policy.head.weight.zero_()
        policy.head.bias[2:] = given
    assert policy({"observation": torch.randn(5, 3)}).log_std.tolist() == [[pytest.approx(kept)] * 2] * 5
