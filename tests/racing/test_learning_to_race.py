"""Racing agents, end to end: every shipped experiment trains, driving is learned, and resuming changes nothing."""

import numpy as np
import pytest
import torch
from rich.console import Console

from interruption import stop_after
from paddock.config.compose import choices
from paddock.core.errors import InputError
from paddock.orchestration.launch import Request, resolve, resumed_run
from quiet_runs import quiet_run

EXPERIMENTS = [
    "racing", "baseline", "time_optimal", "racing_line", "racing_lidar", "racing_camera", "racing_obstacles",
    "racing_multi_track", "racing_f1tenth",
]  # fmt: skip
SMALL = [
    "environment.num_envs=8",
    "workflow.rollout_steps=128",
    "workflow.minibatch_size=64",
    "workflow.epochs=1",
    "training.total_steps=256",
    "evaluation.evaluator=null",
    "evaluation.episodes=1",
    "environment.max_episode_steps=40",
    "logging.terminal=false",
    "logging.tensorboard=false",
]


@pytest.fixture
def racing(tmp_path):
    """Build a racing run in this process; gives its orchestrator."""

    def make(name, *overrides, run="run"):
        return quiet_run(tmp_path, name, *overrides, name=run)

    return make


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_racing_experiment_trains(racing, name):
    few_tracks = ["environment.procedural=2"] if name == "racing_multi_track" else []
    orchestrator = racing(name, *SMALL, *few_tracks)
    outcome = orchestrator.run()
    assert outcome.status == "finished"
    assert outcome.counters.agent_steps == 256
    rows = orchestrator.run_folder.read_metrics()
    assert any("collect/distance" in row for row in rows)
    assert any("collect/reward_terms/progress" in row for row in rows)


def test_eyes_learn_to_guess_the_road_while_the_policy_learns(racing):
    full = [f"environment.{option}" for option in ("observation=full", "images=false", "flat=false", "privileged=true")]
    eyes = ["components.policy.parts=[rays, speed]", "components.policy.auxiliary_targets=[course]"]
    longer = ["workflow.rollout_steps=512", "training.total_steps=15_360", "logging.every_steps=512"]
    errors = {}
    for scale in (0.0, 1.0):
        orchestrator = racing("racing", *SMALL, *full, *eyes, *longer, f"workflow.aux_coef={scale}", run=f"by-{scale}")
        orchestrator.run()
        rows = orchestrator.run_folder.read_metrics()
        errors[scale] = np.mean([row["train/aux_loss"] for row in rows if "train/aux_loss" in row][-5:])
    assert errors[1.0] < 0.4 * errors[0.0]


def test_all_racing_experiments_are_described():
    known = choices("experiment")
    assert set(EXPERIMENTS) <= known.keys()


def test_reward_variants_differ_in_the_reward_alone():
    def plain(name):
        values = resolve(Request(name))[0].model_dump(mode="json", by_alias=True)
        reward = values["environment"].pop("reward")
        assert values["workflow"].pop("gamma") == (reward["gamma"] or 0.98), "as the reward set asks for"
        return {key: value for key, value in values.items() if key not in ("name", "reward")}

    assert plain("baseline") == plain("time_optimal") == plain("racing_line")


def test_racing_learns_to_drive_farther(racing):
    """A few seconds: at first cars leave the road within some fifty metres, soon they drive several times as far."""
    orchestrator = racing(
        "racing",
        "environment.num_envs=256",
        "workflow.rollout_steps=8192",
        "workflow.minibatch_size=2048",
        "training.total_steps=400_000",
        "training.phases.train.workflow_hooks=[{collect: {steps: 8192}}, update]",
        "logging.every_steps=20_000",
        "logging.terminal=false",
        "logging.tensorboard=false",
    )
    orchestrator.run()
    distance = [row["collect/distance"] for row in orchestrator.run_folder.read_metrics() if "collect/distance" in row]
    early, late = np.mean(distance[1:4]), np.mean(distance[-3:])
    assert late > 2.5 * early, distance


def test_a_resumed_racing_run_is_bit_identical(racing):
    settings = [setting for setting in SMALL if "total_steps" not in setting]
    settings += ["training.total_steps=640", "evaluation.evaluator=null"]
    whole = racing("racing", *settings, run="whole")
    whole.run()

    broken = racing("racing", *settings, run="broken")
    stop_after(broken, 3)
    with resumed_run(broken.run_folder, [], Console(quiet=True)) as resumed:
        assert resumed.run().status == "finished"
    for name in ("policy", "value", "observation_normalizer", "reward_normalizer"):
        one, other = (each.context.components[name].state_dict() for each in (whole, resumed))
        assert all(torch.equal(one[key], other[key]) for key in one)
    one, other = (each.context.experience.env.world for each in (whole, resumed))
    assert (one.x == other.x).all()
    assert (one.s == other.s).all()
    assert whole.counters == resumed.counters


@pytest.mark.parametrize(
    ("name", "overrides", "suggestion"),
    [("racin", [], "Did you mean 'racing'"), ("racing", ["environment.track=medow"], "Did you mean 'meadow'")],
)
def test_bad_names_get_suggestions(racing, name, overrides, suggestion):
    with pytest.raises(InputError, match=suggestion):
        racing(name, *overrides)
