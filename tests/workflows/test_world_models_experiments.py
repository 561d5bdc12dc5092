"""Shipped experiments and presets of World Models, made small, from their first phase to their last."""

import sys
from pathlib import Path

import pytest
import torch

from paddock.core.errors import InputError
from quiet_runs import quiet_run
from world_model_cases import PICTURES

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SMALL = [
    "workflow.population=4",
    "workflow.starts=2",
    "environment.num_envs=8",
    "workflow.max_episode_steps=6",
    "workflow.dream.max_steps=6",
    "workflow.validation.batch=8",
    "buffers.replay.capacity=800",
    "buffers.replay.batch_size=8",
    "buffers.latents.batch_size=4",
    "buffers.latents.length=8",
    "components.memory.size=8",
    "training.phases.converge_mdn.duration_updates=2",
    "training.phases.converge_mdn.workflow_hooks.validate_memory.every_updates=2",
    "evaluation.episodes=2",
]
SEES = [
    "training.phases.converge_vae.duration_updates=2",
    "training.phases.converge_vae.workflow_hooks.validate_vae.every_updates=2",
    "training.phases.evolve.duration_cycles=2",
]
EXPERIMENTS = {
    "world_models_mini": [*SEES, "environment.max_episode_steps=20"],
    "world_models_racing_camera": [*SEES, "environment.max_episode_steps=20"],
    "world_models_carracing": [*SEES, "environment.max_episode_frames=40", "buffers.replay.capacity=200"],
    "world_models_dodge": ["training.phases.evolve_in_dream.duration_cycles=2"],
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_shipped_world_models_experiment_runs_through_all_of_its_phases(name, tmp_path):
    try:
        run = quiet_run(tmp_path, name, *SMALL, *EXPERIMENTS[name])
    except InputError as error:
        if "pip install" not in str(error):
            raise
        pytest.skip(str(error))
    outcome = run.run()
    begun = [event["phase"] for event in run.run_folder.read_events() if event["event"] == "phase"]
    assert begun == list(run.config.training.phases)
    assert "eval/return" in outcome.latest


def only(*phases):
    """The small options without those of phases that a preset leaves out."""
    keys = tuple(f"training.phases.{name}." for name in phases)
    return [text for text in PICTURES if not text.startswith("training.phases.") or text.startswith(keys)]


def test_world_models_presets_run_one_phase_after_another_each_alone(tmp_path):
    """Runs that only see, only remember, only evolve, only dream, each with what the one before learned."""
    seen = quiet_run(tmp_path, None, *only("converge_vae"), "preset=world_models_see", name="see")
    seen.run()
    eyes = f"initial_weights.vae={seen.run_folder.path}"
    remember = [*only("converge_mdn"), "preset=world_models_remember", eyes]
    remembered = quiet_run(tmp_path, None, *remember, name="remember")
    remembered.run()
    both = f"initial_weights={{vae: {remembered.run_folder.path}, memory: {remembered.run_folder.path}}}"
    evolved = quiet_run(tmp_path, None, *only("evolve"), "preset=world_models_evolve", both, name="evolve")
    assert list(evolved.config.training.phases) == ["evolve"]
    assert evolved.run().counters.agent_steps == 4 * 24 * 8
    dreams = ["preset=world_models_dream", "training.phases.evolve_in_dream.duration_cycles=2"]
    dreamt = quiet_run(tmp_path, None, *only("converge_vae", "converge_mdn"), *dreams, name="dream")
    assert dreamt.run().counters.imagined_steps > 0


def test_world_models_iterate_collect_with_the_evolved_controller_and_go_on(tmp_path):
    again = [
        "preset=world_models_iterate",
        "training.phases.converge_mdn_again.duration_updates=3",
        "training.phases.evolve_again.duration_cycles=2",
    ]
    run = quiet_run(tmp_path, None, *PICTURES, *again)
    run.run()
    assert run.workflow.search.generation == 6
    assert run.context.buffers["latents"]._filled == 2


def small_mini(*, evolves):
    """Options of a tiny world_models_mini, without those of phases that the preset leaves out."""
    options = [*SMALL, *EXPERIMENTS["world_models_mini"]]
    skipped = "training.phases." if evolves else "training.phases.evolve."
    return [text for text in options if not text.startswith(skipped)]


@pytest.fixture(scope="module")
def trained_mini(tmp_path_factory):
    """A finished run that has an encoder and a memory."""
    run = quiet_run(
        tmp_path_factory.mktemp("mini"), "world_models_mini", *small_mini(evolves=False), "training.phases.evolve=null"
    )
    run.run()
    return run


def is_alike(one, other, name):
    mine, theirs = (run.context.components[name].state_dict() for run in (one, other))
    return mine.keys() == theirs.keys() and all(torch.equal(mine[key], theirs[key]) for key in mine)


LATENT, MEMORY, ACTION = 16, 8, 2  # numbers in the tiny run
EXPECTED_CONTROLS = {  # the run's encoder, the run's memory, numbers that the controller reads
    "trained memory": (True, True, LATENT + MEMORY),
    "untrained memory": (True, False, LATENT + MEMORY),
    "latent only": (True, True, LATENT),
    "latent and the one before": (True, True, 2 * LATENT),
    "random encoder": (False, False, LATENT + MEMORY),
}


@pytest.mark.parametrize("name", EXPECTED_CONTROLS)
def test_a_control_of_world_models_keeps_of_the_trained_run_what_it_says(name, trained_mini, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from world_models_controls import controls

    changes = controls(str(trained_mini.run_folder.path))
    assert list(changes) == list(EXPECTED_CONTROLS)
    options = small_mini(evolves=name != "random encoder")
    run = quiet_run(tmp_path, "world_models_mini", *options, *changes[name], "training.phases.evolve.duration_cycles=1")
    has_encoder, has_memory, inputs = EXPECTED_CONTROLS[name]
    untrained = {key: value.clone() for key, value in run.context.components["vae"].state_dict().items()}
    assert is_alike(run, trained_mini, "vae") is has_encoder
    assert is_alike(run, trained_mini, "memory") is has_memory
    assert run.workflow.controller.parameter_count == (inputs + 1) * ACTION
    outcome = run.run()
    assert outcome.status == "finished"
    assert run.workflow.search.generation == 1
    after = run.context.components["vae"].state_dict()
    assert all(torch.equal(after[key], untrained[key]) for key in after), "the encoder learned"


def test_the_benchmark_of_controls_prints_a_row_for_each(trained_mini, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import world_models_controls

    options = ["--experiment", "world_models_mini", "--generations", "1", "--starts", "2", "--runs-dir", str(tmp_path)]
    chosen = ["--only", "latent only", "--only", "untrained memory"]
    given = [str(trained_mini.run_folder.path), *small_mini(evolves=True), "logging.tensorboard=false"]
    monkeypatch.setattr(sys, "argv", ["controls", given[0], *options, *chosen, *given[1:]])
    world_models_controls.main()
    table = capsys.readouterr().out.split("| control |")[1]
    for name in ("random actions", "classical driver", "latent only", "untrained memory"):
        assert f"| {name} | " in table
    assert "trained memory |" not in table.replace("untrained memory |", "")
    assert len(list(tmp_path.glob("*/policy/latest"))) == 2
