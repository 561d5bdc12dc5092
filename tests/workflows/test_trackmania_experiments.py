"""Every TrackMania experiment runs against the twin, from reset to updates, in virtual time."""

import numpy as np
import pytest

from paddock.orchestration.launch import Request, resolve
from trackmania_cases import small_road

SMALL = ("environment.game=twin", "environment.clock=virtual", "environment.twin.countdown=0.2",
         "environment.sleep_at_reset=0.2", "environment.reward.min_steps=10", "checkpoint.every_steps=null",
         "logging.every_steps=60", "buffers.replay.capacity=1000", "buffers.replay.batch_size=8")  # fmt: skip


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("trackmania_lidar_sac", ["training.phases.seed.duration_steps=20"]),
        ("trackmania_lidar_redq", ["training.phases.seed.duration_steps=20", "environment.interface=lidar_progress"]),
        ("trackmania_full_ppo", ["workflow.rollout_steps=64", "workflow.minibatch_size=32", "workflow.epochs=1"]),
    ],
)
def test_trackmania_experiment_runs_against_the_twin(prepared, tmp_path, name, options):
    shared = [option for option in SMALL if "ppo" not in name or "replay" not in option]
    run = prepared(
        name, *shared, f"environment.twin.track={small_road(tmp_path)}", "training.total_steps=120", *options
    )
    run.run()
    lines = run.run_folder.read_metrics()
    assert lines[-1]["agent_steps"] >= 120
    assert lines[-1]["updates"] > 0
    ended = [line for line in lines if "collect/finish" in line]
    assert ended
    assert all(np.isfinite(line["collect/progress"]) for line in ended)


def test_images_variant_runs_end_to_end_for_a_minute_of_the_games_time(prepared, tmp_path):
    """Pictures, networks, replay, updates and restarts; the twin's minute takes some seconds in virtual time."""
    options = ["training.phases.seed.duration_steps=1000", "training.total_steps=1200", "logging.every_steps=300"]
    run = prepared("trackmania_full_sac", *SMALL, f"environment.twin.track={small_road(tmp_path)}", *options)
    run.run()
    lines = run.run_folder.read_metrics()
    assert lines[-1]["agent_steps"] == 1_200
    assert lines[-1]["updates"] >= 99
    assert all(np.isfinite(line[name]) for line in lines for name in line if name.startswith(("train/", "collect/")))
    ended = [line for line in lines if "collect/finish" in line]
    assert sum(line["collect/realtime/timed_out"] for line in ended) == 0
    assert max(line["collect/progress"] for line in ended) > 0.05, "the car gets somewhere"


@pytest.mark.parametrize("name", ["trackmania_lidar_sac", "trackmania_full_sac"])
def test_preset_tmrl_trackmania_has_the_values_of_tmrl(name):
    values, _ = resolve(Request(name, preset="tmrl_trackmania", overrides=["environment.game=twin"]))
    assert (values.workflow.gamma, values.workflow.tau) == (0.995, 0.005)
    assert values.environment.reward.rule == "trackmania_exact"
    assert [values.optimizers[part].learning_rate for part in ("policy", "critics")] == [1e-5, 5e-5]
    assert (values.components["temperature"].initial, values.components["temperature"].learned) == (0.01, False)
    assert values.training.phases["joint"].workflow_hooks
