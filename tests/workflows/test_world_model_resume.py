"""A world-model run that was stopped anywhere and resumed ends exactly as the uninterrupted one."""

import pytest
import test_latent_actor
import test_planet
import torch
from rich.console import Console

from interruption import stop_after
from paddock.core.trees import map_tree
from paddock.orchestration.launch import resumed_run

HOOKS = "[{collect: {steps: 4}}, {update: {ratio: 0.25}}, {evaluate: {every_steps: 40}}]"
PHASES = (
    "training.phases=[{name: seed, buffer: replay, controller: random, duration_steps: 48, "
    "workflow_hooks: [{collect: {steps: 4}}]}, {name: pretrain, type: offline, buffer: replay, duration_updates: 3, "
    f"workflow_hooks: [update_world_model]}}, {{name: joint, buffer: replay, workflow_hooks: {HOOKS}}}]"
)
SMALL = [
    PHASES,
    "training.total_steps=120",
    "buffers.replay.batch_size=4",
    "buffers.replay.capacity=80",
    "buffers.replay.segment_steps=16",
    "evaluation.episodes=2",
    "evaluation.probes.world_model.episodes=2",
    "evaluation.probes.world_model.steps=20",
    "logging.every_steps=16",
]
DRAWN = ["workflow.imagination_starts=7", "workflow.imagination_noise=0.1"]
LATENT_ACTOR = [*test_latent_actor.WITH_VALUE, *DRAWN, "workflow.anneal_learning_rate=true"]
CLOCKS = ("seconds", "metrics", "metrics_position")


def state_of(orchestrator):
    """Everything that a checkpoint would hold, but for the clock, with numbers as lists."""
    state = {name: part for name, part in orchestrator.checkpoints.load().state.items() if name not in CLOCKS}
    return map_tree(lambda leaf: leaf.tolist() if hasattr(leaf, "tolist") else leaf, state)


@pytest.mark.parametrize(("tiny", "stop"), [(LATENT_ACTOR, 25), (test_planet.TINY, 31)])
def test_a_resumed_run_is_bit_identical(prepared, tiny, stop):
    whole = prepared(None, *tiny, *SMALL, run="whole")
    assert whole.run().status == "finished"
    torch.manual_seed(99)  # Nothing of the outside may matter.
    broken = prepared(None, *tiny, *SMALL, run="broken")
    stop_after(broken, stop)
    assert broken.counters.agent_steps < whole.counters.agent_steps
    assert broken.counters.updates > 3
    with resumed_run(broken.run_folder, [], Console(quiet=True)) as resumed:
        assert resumed.run().status == "finished"
    assert state_of(whole) == state_of(resumed)

    def rows(orchestrator):
        clocks = ("seconds", "steps_per_second", "system/")
        metrics = orchestrator.run_folder.read_metrics()
        return [{name: value for name, value in row.items() if not any(c in name for c in clocks)} for row in metrics]

    assert rows(whole) == rows(resumed)
    assert any("eval/model_reward_error" in row for row in rows(whole))
