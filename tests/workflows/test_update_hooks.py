"""Every workflow has the hook `update`, and finer ones beside it."""

import pytest

from paddock.config.compose import choices, compose
from paddock.config.schema import load_target

WORKFLOWS = [name for name in choices("workflow") if name != "none"]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_workflow_has_the_hook_update(name):
    values = compose("ppo_cartpole", overrides=[f"workflow={name}"]).values
    assert callable(load_target(values["workflow"]["_target_"]).update)
    hooks = {hook for phase in values["training"]["phases"].values() for hook in phase["workflow_hooks"]}
    assert "update" in hooks or name in ("redq", "world_models")


@pytest.mark.parametrize("experiment", ["sac_pendulum", "redq_pendulum"])
def test_update_critics_and_update_policy_move_what_they_name(prepared, experiment):
    small = ["components.policy.network.hidden=[8]", "components.critics.hidden=[8]", "buffers.replay.batch_size=8"]
    orchestrator = prepared(experiment, *small)
    workflow, context = orchestrator.workflow, orchestrator.context
    phase = orchestrator.config.training.phases["joint"]
    context.controllers.select("random")
    workflow.collect_step(16, phase=phase)

    def moved(hook):
        before = {name: [part.clone() for part in one.parameters()] for name, one in context.components.items()}
        getattr(workflow, hook)(context.buffers["replay"].sample(), phase=phase)
        return {
            name
            for name, one in context.components.items()
            if any((part != old).any() for part, old in zip(one.parameters(), before[name], strict=True))
        }

    assert moved("update_critics") == {"critics", "target_critics"}
    assert moved("update_policy") == {"policy", "temperature"}
    assert moved("update") == {"critics", "target_critics", "policy", "temperature"}


HIDDEN = ["components.policy.network.hidden=[8]", "components.critics.hidden=[8]"]


@pytest.mark.parametrize(
    ("experiment", "hook", "small"),
    [
        ("sac_pendulum", "update", HIDDEN),
        ("sac_pendulum", "update_critics", HIDDEN),
        ("redq_pendulum", "update_policy", HIDDEN),
        ("redq_pendulum", "update_critics", HIDDEN),
        ("dqn_cartpole", "update", ["components.action_values.network.hidden=[8]"]),
    ],
)
@pytest.mark.parametrize("annealed", [True, False])
def test_learning_rates_go_to_zero_over_the_run(prepared, experiment, hook, small, annealed):
    changes = [f"workflow.anneal_learning_rate={annealed}", "training.total_steps=1_000", "buffers.replay.batch_size=8"]
    orchestrator = prepared(experiment, *small, *changes)
    workflow, context = orchestrator.workflow, orchestrator.context
    phase = orchestrator.config.training.phases["joint"]
    context.controllers.select("random")
    workflow.collect_step(16, phase=phase)
    context.counters.agent_steps = 750
    getattr(workflow, hook)(context.buffers["replay"].sample(), phase=phase)
    for optimizer in context.optimizers.values():
        share = 0.25 if annealed else 1.0
        assert optimizer.learning_rate == pytest.approx(share * optimizer.config.learning_rate)
