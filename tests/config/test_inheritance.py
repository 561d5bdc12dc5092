"""Choosing another `_target_` for a part: what was written for the old one is left out, mistakes are still named."""

import pytest

from paddock.config.compose import compose
from paddock.config.inheritance import settle
from paddock.config.validate import validate
from paddock.core.errors import InputError
from paddock.orchestration.schema import ExperimentConfig

OWN = """
from paddock.config.schema import TargetSchema
from paddock.components.networks.mlp import MLPConfig
from paddock.components.networks.mlp import MLP
from paddock.components.optimizers.adam import Adam, AdamConfig
from paddock.workflows.ppo import PPO, PPOConfig

class WideConfig(TargetSchema):
    width: int = 256
    hidden: int = 3

class Wide:
    def __init__(self, config: WideConfig, inputs: int) -> None: ...

class DeepConfig(MLPConfig):
    depth: int = 2

class Deep(MLP):
    def __init__(self, config: DeepConfig, inputs: int) -> None: ...

class SlowConfig(AdamConfig):
    patience: int = 1

class Slow(Adam):
    def __init__(self, config: SlowConfig, components) -> None: ...

class MineConfig(PPOConfig):
    bonus: float = 0.5

class Mine(PPO):
    def __init__(self, config: MineConfig) -> None: ...

class KeepingConfig(TargetSchema):
    steps: int
    share: float = 0.5

class Keeping:
    def __init__(self, config: KeepingConfig, spec, num_envs) -> None: ...
"""
NETWORK = "components.policy.network"
CNN, VIT = "paddock.components.networks.cnn.CNN", "paddock.components.networks.vit.ViT"


@pytest.fixture(autouse=True)
def own_package(tmp_path, monkeypatch):
    (tmp_path / "own_parts.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PADDOCK_PLUGINS", "own_parts")


def settled(*overrides, experiment="ppo_cartpole", user=None):
    composed = settle(compose(experiment, overrides=overrides, user=user))
    return validate(composed.values, ExperimentConfig, composed.origins), composed


def test_a_network_of_ones_own_starts_with_its_own_options():
    config, composed = settled(f"{NETWORK}._target_=own_parts.Wide", f"{NETWORK}.width=8")
    assert config.components["policy"].network.to_dict() == {"_target_": "own_parts.Wide", "width": 8, "hidden": 3}
    assert set(composed.left_out) == {
        f"{NETWORK}.{name}" for name in ("hidden", "activation", "layer_norm", "orthogonal")
    }
    assert composed.left_out[f"{NETWORK}.activation"].startswith("workflow/ppo.yaml:")
    assert not any(key.startswith(f"{NETWORK}.activation") for key in composed.origins)
    assert config.components["value"].network.activation == "tanh"  # The value's network was not changed.


def test_options_of_a_schema_that_is_inherited_from_stay():
    config, composed = settled(f"{NETWORK}._target_=own_parts.Deep", f"{NETWORK}.hidden=[7]")
    network = config.components["policy"].network
    assert (network.depth, network.hidden, network.activation) == (2, [7], "tanh")
    assert composed.left_out == {}


def test_an_option_given_with_the_new_target_may_stand_before_it():
    config, _ = settled(f"{NETWORK}.hidden=5", f"{NETWORK}._target_=own_parts.Wide")
    assert config.components["policy"].network.hidden == 5
    config, _ = settled(f"{NETWORK}={{_target_: own_parts.Wide, hidden: 4}}")
    assert config.components["policy"].network.hidden == 4


@pytest.mark.parametrize("option", ["activation=relu", "wdth=3"])
def test_an_unknown_option_given_with_the_new_target_is_an_error(option):
    with pytest.raises(InputError, match=rf"{option.split('=')[0]}: there is no such option.*command line"):
        settled(f"{NETWORK}._target_=own_parts.Wide", f"{NETWORK}.{option}")


def test_an_unknown_option_of_an_unchanged_part_is_an_error():
    with pytest.raises(InputError, match="Did you mean 'hidden'"):
        settled(f"{NETWORK}.hiden=[3]")


@pytest.mark.parametrize("target", ["own_parts.Wde", "nowhere.Wide", "own_prts.Wide"])
def test_a_target_that_cannot_be_loaded_is_the_only_problem(target):
    with pytest.raises(InputError, match="has 1 problem"):
        settled(f"{NETWORK}._target_={target}")


def test_a_users_yaml_changes_a_target_that_an_experiment_changed_before(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        f"# @package _global_\ndefaults: [racing_camera]\ncomponents: {{policy: {{network: {{_target_: {VIT}}}}}}}\n"
    )
    config, composed = settled(experiment=None, user=file)
    network = config.components["policy"].network.to_dict()
    assert network["_target_"] == VIT
    assert network["hidden"] == [128]  # racing_camera's: all shipped networks share it
    assert set(composed.left_out) == {f"{NETWORK}.channels"}
    with pytest.raises(InputError, match="channels: there is no such option"):
        settled(f"{NETWORK}.channels=[8]", experiment=None, user=file)


@pytest.mark.parametrize("name", ["vit", "lstm", "multi_input"])
def test_a_network_of_the_group_takes_the_place_of_an_experiments_own(name):
    config, _ = settled(f"+network@{NETWORK}={name}", experiment="racing_camera")
    shipped, _ = settled(f"+network@{NETWORK}={name}")
    kinds = [one.components["policy"].network.target_ for one in (config, shipped)]
    assert kinds[0] == kinds[1] != CNN


def test_a_part_that_is_another_ones_twin_follows_it():
    values = ["components.critics._target_=own_parts.Wide", "workflow=sac"]
    config, composed = settled(*values, experiment="sac_pendulum")
    assert config.components["target_critics"] == config.components["critics"]
    assert "components.target_critics.ensemble_size" in composed.left_out


def test_an_own_optimizer_and_workflow_that_inherit_keep_what_was_chosen():
    config, _ = settled(
        "optimizers.main._target_=own_parts.Slow", "workflow._target_=own_parts.Mine", "workflow.bonus=2"
    )
    assert (
        config.optimizers["main"].to_dict() | {"patience": 1, "learning_rate": 1e-3}
        == config.optimizers["main"].to_dict()
    )
    assert (config.workflow.bonus, config.workflow.rollout_steps, config.workflow.gamma) == (2.0, 512, 0.98)


def test_an_own_buffer_has_to_be_given_what_it_needs():
    with pytest.raises(InputError, match=r"buffers\.rollout\.steps: has to be given and is not"):
        settled("buffers.rollout._target_=own_parts.Keeping")
    config, _ = settled("buffers.rollout._target_=own_parts.Keeping", "buffers.rollout.steps=9")
    assert config.buffers["rollout"].steps == 9
