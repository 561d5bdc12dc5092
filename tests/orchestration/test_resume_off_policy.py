"""Killed learners from replay end exactly where an uninterrupted one does, replay and priorities included."""

import random
import shutil
import signal
import time

import pytest
from test_resume import assert_identical, final_state, finish, metrics_of, start, the_run, wait_for_training

from paddock.core.trees import load_tree

SMALL = [
    "checkpoint.every_steps=120",
    "checkpoint.every_seconds=null",
    "logging.every_steps=40",
    "logging.tensorboard=false",
    "evaluation.episodes=2",
    "buffers.replay.segment_steps=64",
    "buffers.replay.capacity=300",
    "buffers.replay.batch_size=32",
    "training.phases.seed.duration_steps=64",
    "training.total_steps=480",
]
NETWORKS = ["components.policy.network.hidden=[16]", "components.critics.hidden=[16]"]
NORMALIZED = ["components.observation_normalizer.enabled=true"]
REDQ_HOOKS = "[{collect: {steps: 1}}, {update_critics: {ratio: 1}}, {update_policy: {ratio: 0.5}}]"
CASES = {
    "sac_pendulum": [*NETWORKS, *NORMALIZED, "environment.num_envs=2", "buffers.replay.n_step=2"],
    "redq_pendulum": [*NETWORKS, f"training.phases.joint.workflow_hooks={REDQ_HOOKS}"],
    "dqn_cartpole": ["components.action_values.network.hidden=[16]", "workflow.epsilon.steps=1_000"],
}


def final_buffer(folder):
    """Everything that the last checkpoint holds of the replay buffer."""
    latest = the_run(folder).checkpoints / "latest" / "buffers" / "replay"
    return {file.stem: load_tree(latest, file.stem) for file in sorted(latest.glob("*.json"))}


def test_a_run_resumed_after_its_last_step_exports_the_same_policy(tmp_path):
    """A kill between the last checkpoint and the end: what a controller holds itself (epsilon) is in the checkpoint."""
    arguments = ["dqn_cartpole", *SMALL, *CASES["dqn_cartpole"], "training.total_steps=240"]
    finish(tmp_path, *arguments)
    file = the_run(tmp_path).policy / "latest" / "policy.safetensors"
    before = file.read_bytes()
    shutil.rmtree(file.parent)
    finish(tmp_path, "--resume", the_run(tmp_path).name)
    assert file.read_bytes() == before


@pytest.mark.parametrize("experiment", CASES)
def test_killed_and_resumed_ends_bit_identical(tmp_path, experiment):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    arguments = [experiment, *SMALL, *CASES[experiment]]
    finish(whole, *arguments)

    process = start(broken, *arguments)
    assert wait_for_training(broken, process, lines=4), "the run was too short to be killed"
    time.sleep(random.Random(experiment).random() * 0.2)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    logged = len(the_run(broken).read_metrics())
    finish(broken, "--resume", the_run(broken).name)

    assert logged < len(the_run(whole).read_metrics())
    assert_identical(final_state(whole), final_state(broken))
    buffers = final_buffer(whole), final_buffer(broken)
    assert len(buffers[0]) > 3, "several segments"
    assert ("priority" in buffers[0]["state"]) == (experiment == "dqn_cartpole")
    assert_identical(*buffers)
    assert metrics_of(whole) == metrics_of(broken)
