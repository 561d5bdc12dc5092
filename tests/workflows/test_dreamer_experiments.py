"""The shipped Dreamer experiments train for a moment, on whatever they see: numbers, rays, pictures."""

import pytest

SMALL = [
    "environment.num_envs=2",
    "workflow.horizon=2",
    "buffers.replay.capacity=200",
    "buffers.replay.batch_size=2",
    "buffers.replay.length=5",
    "training.total_steps=28",
    "training.phases=[{name: seed, buffer: replay, controller: random, duration_steps: 20, workflow_hooks: [{collect: "
    "{steps: 2}}]}, {name: joint, buffer: replay, workflow_hooks: [{collect: {steps: 2}}, {update: {ratio: 0.25}}]}]",
]
EXPERIMENTS = {
    "dreamer_dmc_walker": ["environment.time_limit=0.2"],
    "dreamer_dmc_cartpole_swingup": ["environment.time_limit=0.2"],
    "dreamer_dmc_reacher": ["environment.time_limit=0.2"],
    "dreamer_racing": ["environment.max_episode_steps=6", "workflow.imagination_starts=4"],
    "dreamer_racing_camera": ["environment.max_episode_steps=6", "workflow.imagination_starts=4"],
    "dreamer_carracing": ["environment.max_episode_frames=22"],
    "dreamer_minigrid": ["environment.max_episode_steps=7"],
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_it_trains(prepared, name):
    run = prepared(name, *SMALL, *EXPERIMENTS[name])
    outcome = run.run()
    assert outcome.status == "finished"
    assert outcome.counters.updates == 2
    assert outcome.counters.imagined_steps > 0
