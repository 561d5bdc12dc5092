"""Phases that reweigh the reward: a curriculum written in YAML."""

import pytest
from rich.console import Console

from paddock.core.errors import InputError
from paddock.experiments.run import RunFolder
from paddock.orchestration.launch import Request, new_run, resolve, resumed_run

SMALL = [
    "environment.num_envs=8",
    "environment.track=oval",
    "workflow.rollout_steps=64",
    "workflow.minibatch_size=64",
    "workflow.epochs=1",
    "evaluation.episodes=2",
    "logging.terminal=false",
    "logging.tensorboard=false",
]
LOOP = "workflow_hooks: [{collect: {steps: 64}}, update]"


def request(tmp_path, *overrides):
    return Request("racing", name="curriculum", overrides=[*SMALL, f"runs_dir={tmp_path}", *overrides])


def test_each_phase_sets_the_weights_it_names(tmp_path):
    phases = (
        f"training.phases=[{{name: first, buffer: rollout, duration_steps: 128, {LOOP}}}, "
        f"{{name: second, buffer: rollout, reward: {{speed_for_curvature: 0.5}}, {LOOP}}}]"
    )
    config, _ = resolve(request(tmp_path, phases, "training.total_steps=128"))
    with new_run(config, Console(quiet=True)) as orchestrator:
        orchestrator.run()
        environment = orchestrator.context.experience.env
        assert environment.reward_weights["speed_for_curvature"] == 10.0, "the second phase has not begun"
    run = RunFolder.find(tmp_path, "curriculum")
    with resumed_run(run, ["training.total_steps=256"], Console(quiet=True)) as orchestrator:
        orchestrator.run()
        environment = orchestrator.context.experience.env
        assert environment.reward_weights["speed_for_curvature"] == 0.5
    with resumed_run(run, ["training.total_steps=320"], Console(quiet=True)) as orchestrator:
        orchestrator.context.experience.set_reward_weight("speed_for_curvature", 3.0)  # somebody turns it by hand
        orchestrator.run()
    with resumed_run(run, ["training.total_steps=384"], Console(quiet=True)) as orchestrator:
        orchestrator.run()
        assert orchestrator.context.experience.reward_weights["speed_for_curvature"] == 3.0


def test_a_term_that_is_not_there_is_named(tmp_path):
    phases = f"training.phases=[{{name: only, buffer: rollout, reward: {{speed_for_curvatur: 1.0}}, {LOOP}}}]"
    with pytest.raises(InputError, match=r"reward term 'speed_for_curvatur'.*Did you mean 'speed_for_curvature'"):
        resolve(request(tmp_path, phases))


def test_racing_raises_the_price_on_the_edge_once_cars_lap(tmp_path):
    """However many steps that takes; nothing else ends the first phase."""
    hooks = "training.phases.train.workflow_hooks"
    often = [f"{hooks}.collect.steps=64", f"{hooks}.evaluate.every_steps=128"]
    config, _ = resolve(request(tmp_path, *often, "training.total_steps=256"))
    first, clean = config.training.phases.values()
    assert (first.until, clean.reward) == ("eval/finish_rate >= 0.9", {"wheels_off": 20.0})
    with new_run(config, Console(quiet=True)) as orchestrator:
        orchestrator.run()
        assert orchestrator.context.experience.reward_weights["wheels_off"] == 2.0, "no car has lapped"
    run = RunFolder.find(tmp_path, "curriculum")
    with resumed_run(run, ["training.total_steps=320"], Console(quiet=True)) as orchestrator:
        orchestrator.metrics.latest["eval/finish_rate"] = 0.95
        orchestrator.run()
        assert orchestrator.context.experience.reward_weights["wheels_off"] == 20.0
