"""Every shipped racing experiment that learns from replay trains, pictures included."""

import pytest

SMALL = [
    "environment.num_envs=8",
    "environment.max_episode_steps=20",
    "buffers.replay.capacity=1_000",
    "buffers.replay.batch_size=16",
    "training.phases.seed.duration_steps=160",
    "training.total_steps=480",
    "evaluation.evaluator=null",
    "evaluation.episodes=1",
    "logging.every_steps=160",
]


@pytest.mark.parametrize("name", ["sac_racing", "redq_racing", "dqn_racing", "iqn_racing", "sac_vit_racing_camera"])
def test_every_replaying_racing_experiment_trains(prepared, name):
    orchestrator = prepared(name, *SMALL)
    before = {
        key: value.clone() for key, value in orchestrator.workflow.actor().state_dict().items() if "epsilon" not in key
    }
    outcome = orchestrator.run()
    assert outcome.counters.agent_steps == 480
    assert outcome.counters.updates >= 5
    after = orchestrator.workflow.actor().state_dict()
    assert any((after[key] != value).any() for key, value in before.items() if "normalizer" not in key)
    assert any("collect/distance" in row for row in orchestrator.run_folder.read_metrics())
