"""The shipped experiments on other people's environments train, and a resumed run is the uninterrupted one."""

import pytest
import torch
from rich.console import Console

from interruption import stop_after
from paddock.orchestration.launch import resumed_run

SMALL = [
    "environment.num_envs=2",
    "workflow.rollout_steps=16",
    "workflow.minibatch_size=8",
    "workflow.epochs=1",
    "training.total_steps=48",
    "training.phases.train.workflow_hooks=[{collect: {steps: 8}}, update]",
    "logging.every_steps=16",
]
EXPERIMENTS = {
    "ppo_minigrid": ["environment.max_episode_steps=7"],
    "ppo_atari_pong": ["environment.max_frames=90"],
    "ppo_carracing": ["environment.max_episode_frames=22"],
    "ppo_dmc": ["environment.time_limit=0.05"],
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_resumed_run_is_bit_identical(prepared, name):
    changes = EXPERIMENTS[name]
    whole = prepared(name, *SMALL, *changes, run="whole")
    assert whole.run().status == "finished"
    broken = prepared(name, *SMALL, *changes, run="broken")
    stop_after(broken, 5)
    with resumed_run(broken.run_folder, [], Console(quiet=True)) as resumed:
        assert resumed.run().status == "finished"
    for part in ("policy", "value"):
        one, other = (each.context.components[part].state_dict() for each in (whole, resumed))
        assert all(torch.equal(one[key], other[key]) for key in one)
    assert whole.counters == resumed.counters
    assert whole.counters.env_frames >= whole.counters.agent_steps
