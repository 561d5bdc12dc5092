"""A phase's `freeze` holds for every workflow and each of its components: what is frozen stays, all else may learn."""

import pytest
import test_dreamer
import test_latent_actor
import test_planet
import torch
from torch import nn

import tiny_tasks  # noqa: F401 - registers the tasks
from paddock.components.learning import TargetNetwork, is_frozen, set_frozen
from paddock.components.normalizers import NormalizerConfig, ObservationNormalizer
from paddock.core.specs import ArraySpec, Spec

NORMALIZED = "components.observation_normalizer.enabled=true"
SMALL = ["environment.num_envs=4", "buffers.replay.batch_size=16", NORMALIZED]
CONTINUOUS = [
    *SMALL,
    "environment.id=Reach-v0",
    "components.policy.network.hidden=[8]",
    "components.critics.hidden=[8]",
]
CHOICES = [*SMALL, "environment.id=ReachByChoice-v0", "workflow.target_update_interval=1"]
COLLECT = "{collect: {steps: 400}}"

# workflow: experiment, overrides, hooks of a cycle, and its components
CASES = {
    "ppo": (
        "ppo_cartpole",
        ["environment.num_envs=4", "environment.id=Reach-v0", "workflow.rollout_steps=400",
         "workflow.minibatch_size=200", NORMALIZED, "components.reward_normalizer.enabled=true"],
        "update",
        ["policy", "value", "observation_normalizer", "reward_normalizer"],
    ),
    "sac": (
        "sac_pendulum", CONTINUOUS, "update",
        ["policy", "critics", "target_critics", "temperature", "observation_normalizer"],
    ),
    "redq": (
        "redq_pendulum", [*CONTINUOUS, "components.critics.ensemble_size=3"], "update_critics, update_policy",
        ["policy", "critics", "target_critics", "temperature", "observation_normalizer"],
    ),
    "dqn": (
        "dqn_cartpole", [*CHOICES, "components.action_values.network.hidden=[8]"], "update",
        ["action_values", "target_action_values", "observation_normalizer"],
    ),
    "iqn": (
        "dqn_cartpole", ["workflow=iqn", *CHOICES, "components.action_values.network.hidden=[8]"], "update",
        ["action_values", "target_action_values", "observation_normalizer"],
    ),
    "dreamer": (
        "dreamer_cartpole", test_dreamer.TINY, "update",
        ["world_model", "policy", "value", "slow_value", "return_scale"],
    ),
    "planet": (None, test_planet.TINY, "update", ["world_model"]),
    "latent_actor": (None, test_latent_actor.WITH_VALUE, "update", ["world_model", "policy", "value", "slow_value"]),
}  # fmt: skip
FROZEN = [(workflow, component) for workflow, (*_, components) in CASES.items() for component in [*components, "all"]]


def learned(orchestrator):
    parts = orchestrator.context.components
    return {name: {key: torch.as_tensor(value).clone() for key, value in part.state_dict().items()}
            for name, part in parts.items()}  # fmt: skip


def changed(before, after):
    return {
        name for name in before if any(not torch.equal(before[name][key], after[name][key]) for key in before[name])
    }


@pytest.mark.parametrize(("workflow", "component"), FROZEN, ids=lambda value: value)
def test_freeze_holds_what_it_names_and_nothing_else(prepared, workflow, component):
    experiment, overrides, hooks, components = CASES[workflow]
    frozen = components if component == "all" else [component]
    buffer = "rollout" if workflow == "ppo" else "replay"
    phase = f"{{name: only, buffer: {buffer}, controller: random, freeze: [{', '.join(frozen)}], duration_cycles: 2"
    orchestrator = prepared(
        experiment,
        *overrides,
        f"training.phases=[{phase}, workflow_hooks: [{COLLECT}, {hooks}]}}]",
        "training.total_steps=10_000",
    )
    assert set(orchestrator.context.components) == set(components)
    before = learned(orchestrator)
    outcome = orchestrator.run()
    assert outcome.counters.updates > 0
    moved = changed(before, learned(orchestrator))
    assert not moved & set(frozen)
    for one in {"policy", "critics", "action_values", "world_model", "value"} & set(components) - set(frozen):
        assert one in moved, f"{one} is free to learn"


def test_what_has_no_parameters_can_be_frozen_and_thawed():
    spec = Spec(
        observation={"x": ArraySpec(shape=(1,), dtype="float32")}, action=ArraySpec(shape=(), dtype="int64", choices=2)
    )
    normalizer = ObservationNormalizer(NormalizerConfig(_target_="it"), spec)
    set_frozen(normalizer, True)
    normalizer.update({"x": torch.ones(4, 1)})
    assert is_frozen(normalizer)
    assert normalizer.statistics["x"].count == 0
    set_frozen(normalizer, False)
    normalizer.update({"x": torch.ones(4, 1)})
    assert normalizer.statistics["x"].count == 4


def test_a_frozen_target_does_not_follow():
    target, source = nn.Linear(1, 1), nn.Linear(1, 1)
    network = TargetNetwork(target, source, 1.0)
    nn.init.constant_(source.weight, 5.0)
    set_frozen(target, True)
    network.update()
    assert target.weight.item() != 5.0
    set_frozen(target, False)
    network.update()
    assert target.weight.item() == 5.0
