"""A killed TD-MPC run ends exactly where an uninterrupted one does: the plan's warm start and priorities included."""

import signal

import pytest
from test_resume import assert_identical, final_state, finish, metrics_of, start, the_run, wait_for_training

SMALL = [
    "environment.num_envs=2",
    "components.world_model.latent=16",
    "components.world_model.encoder.hidden=[16]",
    *[f"components.world_model.{part}.hidden=[16, 16]" for part in ("dynamics", "reward", "continue")],
    "buffers.replay.capacity=600",
    "buffers.replay.segment_steps=64",
    "buffers.replay.batch_size=8",
    "controllers.available.mppi.proposals=4",
    "controllers.available.mppi.planner.candidates=12",
    "controllers.available.mppi.planner.elites=4",
    "controllers.available.mppi.planner.iterations=2",
    "checkpoint.every_steps=120",
    "checkpoint.every_seconds=null",
    "logging.every_steps=40",
    "logging.tensorboard=false",
    "training.phases.seed.duration_steps=64",
    "training.phases.pretrain.duration_updates=5",
    "training.phases.train.workflow_hooks.update.ratio=0.25",
    "training.phases.train.workflow_hooks.evaluate=null",
    "training.total_steps=480",
]
FIRST = ["workflow=tdmpc", "workflow.schedule.steps=400"]


@pytest.mark.parametrize("more", [[], FIRST], ids=["tdmpc2", "tdmpc"])
def test_killed_tdmpc_ends_bit_identical(tmp_path, more):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    options = ["tdmpc2_pendulum", *SMALL, *more]
    finish(whole, *options)
    process = start(broken, *options)
    assert wait_for_training(broken, process, lines=5), "the run was too short to be killed"
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert len(the_run(broken).read_metrics()) < len(the_run(whole).read_metrics())
    finish(broken, "--resume", the_run(broken).name)
    assert_identical(final_state(whole), final_state(broken))
    assert metrics_of(whole) == metrics_of(broken)
