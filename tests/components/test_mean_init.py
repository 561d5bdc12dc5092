import pytest
import torch

from paddock.components.controllers.deterministic_policy import DeterministicPolicy, DeterministicPolicyConfig
from paddock.components.controllers.latent_control import LatentPolicy, LatentPolicyConfig
from paddock.components.controllers.policy import PolicyConfig, StochasticPolicy
from paddock.components.controllers.squashed_policy import SquashedPolicy, SquashedPolicyConfig
from paddock.components.dynamics.rssm import RSSMConfig
from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec

SPEC = Spec(
    observation={"observation": ArraySpec(shape=(3,), dtype="float32")},
    action=ArraySpec(shape=(2,), dtype="float32", low=-1.0, high=1.0),
)
KINDS = ["gaussian", "squashed", "deterministic", "latent bounded", "latent squashed"]
NETWORK = {"_target_": "paddock.components.networks.mlp.MLP", "hidden": [8]}


def mean_of(kind, mean):
    """The mean action, or what the policy chooses, where the head's weights are nothing."""
    if kind == "deterministic":
        config = DeterministicPolicyConfig(_target_="x", inputs=3, hidden=[8], mean_init=mean)
        policy, given = DeterministicPolicy(config, SPEC), torch.randn(5, 3)
    elif kind.startswith("latent "):
        latent = RSSMConfig(deter=8, hidden=8, groups=2, classes=4)
        kinds = {"continuous": kind.removeprefix("latent "), "std": (0.1, 0.5), "output_scale": 0.0}
        config = LatentPolicyConfig(_target_="x", latent=latent, layers=1, units=8, mean_init=mean, **kinds)
        return LatentPolicy(config, SPEC)(torch.randn(5, latent.features)).mode()
    else:
        maker, schema = {
            "gaussian": (StochasticPolicy, PolicyConfig),
            "squashed": (SquashedPolicy, SquashedPolicyConfig),
        }[kind]
        policy = maker(schema(_target_="x", network=NETWORK, mean_init=mean), SPEC)
        given = {"observation": torch.randn(5, 3)}
    torch.nn.init.zeros_(policy.head.weight)
    answer = policy(given)
    return answer if kind == "deterministic" else answer.mode()


@pytest.mark.parametrize("kind", KINDS)
def test_mean_init_is_the_first_action(kind):
    assert torch.allclose(mean_of(kind, [0.5, -0.9]), torch.tensor([0.5, -0.9]).expand(5, 2), atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_mean_init_of_another_size_is_refused(kind):
    with pytest.raises(InputError, match=r"mean_init = \[0.5\]; this policy needs 2 numbers"):
        mean_of(kind, [0.5])


@pytest.mark.parametrize("kind", KINDS[1:])
def test_mean_init_at_a_bound_that_tanh_never_reaches_is_refused(kind):
    with pytest.raises(InputError, match="between -1 and 1"):
        mean_of(kind, [0.5, 1.0])
