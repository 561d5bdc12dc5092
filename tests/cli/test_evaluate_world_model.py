"""Controllers swapped over one trained model, and what the model knows, by the command line."""

import json

import pytest

from paddock.core.errors import InputError
from paddock.orchestration.subject import find_subject

EXPERIMENT = """
# @package _global_
defaults:
  - override /environment: gym
  - override /workflow: latent_actor
environment: {id: Pendulum-v1, num_envs: 4, max_episode_steps: 20}
"""
TINY = [
    "training.total_steps=160",
    "evaluation.episodes=2",
    "logging.tensorboard=false",
    "controllers.available.cem.planner={horizon: 4, candidates: 20, iterations: 2, elites: 5}",
    "controllers.available.shooting.planner.candidates=10",
    "buffers.replay.batch_size=4",
]


def test_controllers_are_swapped_over_one_model_and_the_model_is_evaluated(paddock, tmp_path):
    hooks = "[{collect: {steps: 4}}, {update: {ratio: 0.1}}]"
    phases = f"training.phases=[{{name: joint, buffer: replay, workflow_hooks: {hooks}}}]"
    (tmp_path / "tiny.yaml").write_text(EXPERIMENT)
    result = paddock("train", "--config", "tiny.yaml", *TINY, phases)
    assert result.returncode == 0, result.stderr
    (run,) = (tmp_path / "runs").glob("tiny-*/")

    changed = ["controllers.available.cem.planner.candidates=6"]
    evaluated = paddock("evaluate", "tiny", "controller=cem", *changed, "--episodes", "2", "--json")
    assert evaluated.returncode == 0, evaluated.stderr
    returns = {"changed": json.loads(evaluated.stdout)["returns"]}
    for name in ("actor", "cem", "shooting", "random"):
        found = find_subject("tiny", tmp_path / "runs", controller=name)
        returns[name] = found.evaluator(found.actor, found.make_env, episodes=2, seed=1000, deterministic=True).returns
    assert len({tuple(values) for values in returns.values()}) == 5, "every controller has its own way"

    evaluated = paddock("evaluate", "tiny", "--world-model", "--horizon", "4", "--episodes", "2", "--video", "--json")
    assert evaluated.returncode == 0, evaluated.stderr
    values = json.loads(evaluated.stdout)
    assert values["errors"].keys() == {"trained", "untrained", "unchanged"}
    assert len(values["errors"]["trained"]["observation"]) == 4
    assert values["scores"].keys() == {"trained", "untrained"}
    assert json.loads((run / "results" / "world_model.json").read_text())["errors"] == values["errors"]
    assert (run / "videos" / "world_model-1000.mp4").stat().st_size > 1_000
    assert (run / "videos" / "world_model-1000.png").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--horizon", "3"], "it goes with --world-model"),
        (["--world-model"], "PolicyActor has no world model to look at"),
    ],
)
def test_what_cannot_be_evaluated_is_said(paddock, real_runs, arguments, message):
    result = paddock("evaluate", str(next(real_runs.glob("fast-*"))), *arguments, "--episodes", "2")
    assert result.returncode == 2
    assert message in result.stderr.replace("\n", " ")


def test_only_what_belongs_to_an_evaluation_can_be_changed(real_runs):
    run = str(next(real_runs.glob("fast-*")))
    with pytest.raises(InputError, match="unknown controller 'cem'"):
        find_subject(run, real_runs, controller="cem")
    with pytest.raises(InputError, match=r"only environment\.\* and controllers\.\* can be changed"):
        find_subject(run, real_runs, controller="random", overrides=["components.policy=1"])
    with pytest.raises(InputError, match=r"only environment\.\* can be changed"):
        find_subject(run, real_runs, overrides=["components.policy=1"])
