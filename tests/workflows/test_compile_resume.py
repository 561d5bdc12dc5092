"""Runs whose updates are compiled on the way end where an uninterrupted one does."""

import pytest
import torch
from rich.console import Console

from interruption import stop_after
from paddock.components import compiling
from paddock.orchestration.launch import resumed_run

HOOKS = "[{collect: {steps: 4}}, {update: {ratio: 0.25}}]"
SMALL = [
    "training.phases=[{name: seed, buffer: replay, controller: random, duration_steps: 32, "
    "workflow_hooks: [{collect: {steps: 4}}]}, "
    f"{{name: joint, buffer: replay, workflow_hooks: {HOOKS}}}]",
    "training.total_steps=80",
    "buffers.replay.batch_size=16",
    "components.policy.network.hidden=[16]",
    "components.critics.hidden=[16]",
    "evaluation.episodes=1",
]
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # inside torch


def parameters(run):
    return {
        f"{name}.{key}": value
        for name, part in run.context.components.items()
        for key, value in part.state_dict().items()
    }


def test_compile_auto_resumed_before_or_after_it_begins_is_bit_identical(prepared, monkeypatch):
    monkeypatch.setattr(compiling, "PLAIN_UPDATES", 6)  # of 12 updates
    whole = prepared("sac_pendulum", *SMALL, "workflow.compile=auto", run="whole")
    assert whole.run().status == "finished"
    assert whole.workflow.compiling.is_on
    for actions in (14, 26):
        torch.manual_seed(99)  # Nothing of the outside may matter.
        broken = prepared("sac_pendulum", *SMALL, "workflow.compile=auto", run=f"broken-{actions}")
        stop_after(broken, actions)
        assert 0 < broken.counters.updates < whole.counters.updates
        with resumed_run(broken.run_folder, [], Console(quiet=True)) as resumed:
            assert resumed.run().status == "finished"
        found, expected = parameters(resumed), parameters(whole)
        assert all(torch.equal(found[name], expected[name]) for name in expected)
