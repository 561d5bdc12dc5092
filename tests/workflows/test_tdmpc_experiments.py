"""The shipped experiments of TD-MPC train for a moment with each of their controllers, from numbers and from images."""

import pytest

SMALL = [
    "environment.num_envs=2",
    "buffers.replay.capacity=500",
    "buffers.replay.batch_size=4",
    "training.phases.seed.duration_steps=40",
    "training.phases.pretrain.duration_updates=2",
    "training.phases.train.workflow_hooks.update.ratio=0.1",
    "training.phases.train.workflow_hooks.evaluate.every_steps=20",
    "training.total_steps=60",
    "evaluation.evaluator=null",
    "evaluation.episodes=1",
    "evaluation.probes.world_model={episodes: 1, steps: 8, context: 2, horizon: 3}",
    "controllers.available.mppi.proposals=2",
    "controllers.available.mppi.planner.candidates=8",
    "controllers.available.mppi.planner.elites=4",
    "controllers.available.mppi.planner.iterations=2",
]
RACING = ["environment.max_episode_steps=12"]
DMC = ["environment.time_limit=0.5"]
EXPERIMENTS = {
    "tdmpc2_pendulum": [],
    "tdmpc2_racing": RACING,
    "tdmpc2_racing_lidar": RACING,
    "tdmpc_dmc_cartpole_swingup": DMC,
    "tdmpc2_dmc_cartpole_swingup": DMC,
    "tdmpc2_dmc_cartpole_balance": DMC,
    "tdmpc2_dmc_finger_spin": DMC,
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_shipped_tdmpc_experiment_trains(prepared, name):
    orchestrator = prepared(name, *SMALL, *EXPERIMENTS[name])
    before = {key: value.clone() for key, value in orchestrator.context.components["world_model"].state_dict().items()}
    outcome = orchestrator.run()
    assert outcome.counters.agent_steps == 60
    assert outcome.counters.updates >= 4
    assert "eval/model_observation_error_3" in outcome.latest
    after = orchestrator.context.components["world_model"].state_dict()
    assert sum(bool((after[key] != value).any()) for key, value in before.items()) > len(before) / 2


@pytest.mark.parametrize("kind", ["camera", "full"])
def test_tdmpc2_reads_images_alone_and_with_numbers(prepared, kind):
    changes = [f"environment.observation={kind}", "environment.max_episode_steps=12"]
    orchestrator = prepared("tdmpc2_racing", *SMALL, *changes)
    assert orchestrator.run().counters.updates >= 4
    encoder = orchestrator.context.components["world_model"].encoder
    assert encoder.pictures
    assert bool(encoder.numbers) == (kind == "full")


@pytest.mark.parametrize("size", ["mini", "1m", "5m", "19m"])
def test_tdmpc_sizes_have_as_many_parameters_as_their_names(prepared, size):
    parts = prepared("tdmpc2_dmc_cartpole_swingup", *SMALL, *DMC, f"tdmpc_size={size}").context.components
    count = sum(p.numel() for name in ("world_model", "policy", "critics") for p in parts[name].parameters())
    wanted = {"mini": 0.5e6, "1m": 1e6, "5m": 5e6, "19m": 19e6}[size]
    assert 0.75 * wanted < count < 1.5 * wanted
