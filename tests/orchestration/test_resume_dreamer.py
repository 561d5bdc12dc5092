"""A killed dreamer ends exactly where an uninterrupted one does: latents, replay and dreams included."""

import signal

from test_resume import assert_identical, final_state, finish, metrics_of, start, the_run, wait_for_training

SMALL = [
    "dreamer_cartpole",
    "environment.num_envs=2",
    "workflow.horizon=3",
    "workflow.imagination_starts=16",
    "components.world_model.rssm.deter=16",
    "buffers.replay.capacity=600",
    "buffers.replay.segment_steps=64",
    "buffers.replay.batch_size=4",
    "buffers.replay.length=6",
    "controllers.available.policy.ez_greedy.epsilon=0.1",
    "checkpoint.every_steps=120",
    "checkpoint.every_seconds=null",
    "logging.every_steps=40",
    "logging.tensorboard=false",
    "training.total_steps=480",
    "training.phases=[{name: seed, buffer: replay, controller: random, duration_steps: 64, workflow_hooks: [{collect: "
    "{steps: 2}}]}, {name: joint, buffer: replay, workflow_hooks: [{collect: {steps: 2}}, {update: {ratio: 0.25}}]}]",
]


def test_killed_and_resumed_ends_bit_identical(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    finish(whole, *SMALL)
    process = start(broken, *SMALL)
    assert wait_for_training(broken, process, lines=5), "the run was too short to be killed"
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert len(the_run(broken).read_metrics()) < len(the_run(whole).read_metrics())
    finish(broken, "--resume", the_run(broken).name)
    assert_identical(final_state(whole), final_state(broken))
    assert metrics_of(whole) == metrics_of(broken)
