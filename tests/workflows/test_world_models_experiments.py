"""Shipped experiments and presets of World Models, made small, from their first phase to their last."""

import pytest

from paddock.core.errors import InputError
from quiet_runs import quiet_run
from world_model_cases import PICTURES

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
