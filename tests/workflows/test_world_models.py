"""World Models: one generation against each candidate by itself, what each phase moves, starts that are alike, latents
in place of pictures, and phases that are run alone."""

import gymnasium
import numpy as np
import pytest
import torch

from paddock.buffers.latents import LOG_VARIANCE, MEAN
from paddock.buffers.minari_sets import write_minari
from paddock.buffers.recordings import RecordingBuffer, RecordingConfig, read_recording
from paddock.core.errors import InputError
from paddock.core.seeding import derive_seed
from paddock.core.specs import ArraySpec, Spec
from paddock.environments.common_starts import reset_alike
from paddock.orchestration.launch import Request, resolve
from paddock.rollout.exploring_actors import BrownianActor, BrownianActorConfig, HeldActor, HeldActorConfig
from quiet_runs import quiet_run
from world_model_cases import DREAMED, NUMBERS, PICTURES


def actions_until(orchestrator, phase):
    """Perform what the phases say until `phase` begins."""
    while (action := orchestrator.scheduler.next_action()) is not None and action.phase.name != phase:
        if orchestrator.scheduler.is_at_phase_start:
            orchestrator._enter_phase(action.phase)
        orchestrator._perform(action)
    orchestrator._enter_phase(action.phase)
    return action.phase


@pytest.fixture
def collected(tmp_path):
    """A run of pictures that stands before the phase it is given."""

    def make(phase, *overrides, base=PICTURES):
        run = quiet_run(tmp_path, None, *base, DREAMED, *overrides)
        return run, actions_until(run, phase)

    return make


def test_a_generation_of_world_models_is_each_candidate_by_itself(collected):
    """Fitness of the batched generation against a plain loop over candidates and starts."""
    run, _ = collected("evolve")
    workflow, told = run.workflow, []
    tell, ask = workflow.search.tell, workflow.search.ask
    asked = ask()
    workflow.search.ask = lambda: asked
    workflow.search.tell = lambda fitness: told.append(fitness) or tell(fitness)
    generation_seed = workflow.search.generation
    run._perform(run.scheduler.next_action())
    seed, actor = derive_seed(workflow.seed, "generation", generation_seed), workflow.actor()
    for candidate, fitness in zip(asked[:3], told[0][:3], strict=True):
        workflow.controller.set_vector(torch.from_numpy(candidate))
        returns = []
        for start in range(3):
            env = gymnasium.make("Bar-v0")
            observation, _ = env.reset(seed=derive_seed(seed, "start", start))
            state, total, done = actor.initial_state(1), 0.0, False
            while not done:
                seen = {"observation": torch.from_numpy(observation[None])}
                with torch.inference_mode():
                    action, state = actor.act(seen, state, deterministic=True)
                observation, reward, terminated, truncated, _ = env.step(actor.to_environment(action)[0])
                total, done = total + reward, terminated or truncated
            returns.append(total)
        assert np.mean(returns) == pytest.approx(fitness, abs=1e-4)


def test_each_phase_of_world_models_moves_its_own_component(collected):
    run, _ = collected("converge_vae")

    def state():
        return {
            name: {k: v.clone() for k, v in part.state_dict().items()} for name, part in run.context.components.items()
        }

    def moved(before):
        now = state()
        return {name for name, part in now.items() if any(not torch.equal(v, before[name][k]) for k, v in part.items())}

    for phase, expected in (("encode", {"vae"}), ("converge_mdn", set()), ("evolve", {"memory"})):
        before = state()
        actions_until(run, phase)
        assert moved(before) == expected, phase
    before, counters = state(), run.counters.agent_steps
    run._perform(run.scheduler.next_action())
    assert moved(before) == {"controller"}
    assert run.counters.agent_steps == counters + 24 * 8
    assert torch.allclose(run.workflow.controller.get_vector(), torch.from_numpy(run.workflow.search.mean).float())


def test_latents_replace_pictures_row_by_row(collected):
    run, _ = collected("converge_mdn")
    replay, latents, vae = run.context.buffers["replay"], run.context.buffers["latents"], run.workflow.vae
    assert len(latents) == len(replay)
    copies, starts = np.array([0, 5, 23]), np.array([0, 3, 7])
    pictures, encoded = replay.gather(copies, replay.oldest[copies] + starts, 9), latents.gather(copies, starts, 9)
    with torch.no_grad():
        mean, log_variance = vae.encode({"observation": pictures["observation"]["observation"].flatten(0, 1)})
    assert torch.allclose(encoded["observation"][MEAN].flatten(0, 1), mean, atol=1e-5)
    assert torch.allclose(encoded["observation"][LOG_VARIANCE].flatten(0, 1), log_variance, atol=1e-5)
    assert encoded["is_first"][0, 0]  # Where the beginning of an episode has left the ring, its rest is one.
    for name in ("action", "reward", "terminated", "truncated"):
        assert torch.equal(encoded[name], pictures[name]), name


def test_latents_that_are_encoded_again_replace_those_of_before(collected):
    run, phase = collected("encode")
    latents = run.context.buffers["latents"]
    run.workflow.encode(phase=phase)
    first = {segment.name for segment in latents.segments() if segment.is_sealed}
    before = latents.gather(np.array([2]), np.array([0]), 8)["observation"][MEAN]
    with torch.no_grad():
        run.workflow.vae.mean.bias += 1
    run.workflow.encode(phase=phase)
    assert torch.allclose(latents.gather(np.array([2]), np.array([0]), 8)["observation"][MEAN], before + 1, atol=1e-5)
    assert not first & {segment.name for segment in latents.segments() if segment.is_sealed}


def test_rows_that_world_models_hold_out_are_never_learned_from(collected):
    run, phase = collected("converge_vae")
    held_out = run.workflow._held_out(phase, 1)
    assert not run.workflow._is_training(held_out["index"]).any()
    again = run.workflow._held_out(phase, 1)
    assert torch.equal(held_out["index"], again["index"])
    batch = run.context.buffers["replay"].sample()
    wanted = run.workflow._is_training(batch["index"])
    assert run.workflow._frames(batch, wanted)["observation"].shape[0] == int(wanted.sum()) < wanted.numel()


def test_validation_counts_how_long_there_has_been_no_progress(collected):
    run, phase = collected("converge_vae")
    losses = [10.0, 9.0, 8.99, 8.95, 8.0, 8.1]
    stale = [run.workflow._judged("vae", {"loss": torch.tensor(loss)}, phase)["train/vae_stale"] for loss in losses]
    assert stale == [0, 0, 1, 2, 0, 1]


def test_evolving_in_the_dream_takes_no_step_of_the_environment(collected):
    run, _ = collected("evolve_in_dream")
    steps, imagined = run.counters.agent_steps, run.counters.imagined_steps
    run._perform(run.scheduler.next_action())
    assert run.counters.agent_steps == steps
    assert run.counters.imagined_steps > imagined
    assert run.metrics.latest["train/dream_length"] == 8


def test_world_models_learn_to_centre_a_bar_from_pictures(tmp_path):
    more = [
        "training.phases.converge_vae.duration_updates=150",
        "training.phases.converge_mdn.duration_updates=200",
        "training.phases.converge_vae.workflow_hooks.validate_vae.every_updates=50",
        "training.phases.converge_mdn.workflow_hooks.validate_memory.every_updates=50",
        "training.phases.evolve.duration_cycles=25",
        "optimizers.vae.learning_rate=3e-3",
    ]
    outcome = quiet_run(tmp_path, None, *PICTURES, *more).run()
    assert outcome.latest["eval/return"] > -2.0
    assert outcome.latest["train/vae_validation"] < 20
    assert outcome.latest["train/memory_validation_latent"] < outcome.latest["train/memory_baseline"]


def test_world_models_without_pictures_see_by_identity(tmp_path):
    outcome = quiet_run(tmp_path, None, *NUMBERS, "training.phases.evolve.duration_cycles=2").run()
    assert outcome.status == "finished"
    assert "train/vae_validation" not in outcome.latest


def test_world_models_refuse_a_population_that_does_not_fit_the_environments(tmp_path):
    with pytest.raises(InputError, match=r"Set environment.num_envs=32"):
        quiet_run(tmp_path, None, *PICTURES, "workflow.starts=4")


def test_an_evolution_phase_refuses_hooks_that_need_a_batch():
    phase = "training.phases.evolve={type: evolution, duration_cycles: 1, workflow_hooks: {update_vae: {}}}"
    with pytest.raises(InputError, match="whose hooks learn from no batch"):
        resolve(Request(None, overrides=[*PICTURES, phase]))


def test_a_component_begins_with_the_initial_weights_of_another_run(tmp_path):
    first = quiet_run(tmp_path, None, *PICTURES, "training.phases.evolve.duration_cycles=1", name="first")
    first.run()
    alone = [
        *(f"training.phases.{name}=null" for name in ("data_collection", "converge_vae", "encode", "converge_mdn")),
        f"initial_weights={{vae: {first.run_folder.path}, memory: {first.run_folder.path}}}",
    ]
    second = quiet_run(tmp_path, None, *PICTURES, *alone, name="second")
    for name in ("vae", "memory"):
        mine, theirs = (run.context.components[name].state_dict() for run in (second, first))
        assert all(torch.equal(mine[key], theirs[key]) for key in theirs), name
    assert second.run().status == "finished"
    with pytest.raises(InputError, match="neither a run with a saved policy"):
        quiet_run(tmp_path, None, *PICTURES, f"initial_weights={{vae: {tmp_path}/nothing}}")
    with pytest.raises(InputError, match="of another network"):
        quiet_run(tmp_path, None, *PICTURES, alone[-1], "components.vae.latent=5")


@pytest.fixture(params=["recording", "minari"])
def dataset(request, tmp_path, monkeypatch):
    """Where 1,200 random steps of pictures are kept, as `buffers.dataset.sources` names it."""
    recorder = quiet_run(tmp_path, None, *PICTURES, name="recorder").context
    folder = tmp_path / "recording"
    recording = RecordingBuffer(RecordingConfig(_target_="x", folder=str(folder)), recorder.spec, 24)
    recorder.experience.collect(recorder.controllers["held"], recording, 1_200)
    recording.flush()
    if request.param == "recording":
        return str(folder)
    pytest.importorskip("minari", reason="needs the extra minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    spec, files = read_recording(folder)
    write_minari("paddock/bar/held-v0", files, spec, algorithm_name="held", author="Paddock")
    return "minari:paddock/bar/held-v0"


def from_dataset(tmp_path, dataset, presets, *overrides):
    """A run that has ended, with only those small options whose phases the presets leave in."""
    more = [f"preset={presets}", f"buffers.dataset.sources=['{dataset}']", "buffers.latents.capacity=1400"]
    kept = [text for text in PICTURES if not text.startswith("training.phases.")]
    run = quiet_run(tmp_path, None, *kept, *more, *overrides, name="offline")
    assert run.run().status == "finished"
    return run


def test_world_models_learn_to_see_from_a_dataset_and_evolve(tmp_path, dataset):
    phases = [text for text in PICTURES if text.startswith("training.phases.")]
    run = from_dataset(tmp_path, dataset, "world_models_from_recording", *phases)
    latents = run.context.buffers["latents"]
    assert len(latents) == len(run.context.buffers["dataset"])
    assert latents.totals.max() - latents.totals.min() <= 9  # Episodes of nine rows, spread evenly.


def test_each_phase_of_world_models_runs_alone_on_a_dataset(tmp_path, dataset):
    """See, remember and dream in three runs, each with the weights of the one before, without a step outside."""
    presets, updates = "world_models_from_recording,world_models_", "duration_updates=2"
    seen = from_dataset(tmp_path, dataset, f"{presets}see", f"training.phases.converge_vae.{updates}")
    weights = f"initial_weights={{vae: {seen.run_folder.path}}}"
    mdn = f"training.phases.converge_mdn.{updates}"
    remembered = from_dataset(tmp_path, dataset, f"{presets}remember", mdn, weights)
    folder = remembered.run_folder.path
    dreamt = from_dataset(
        tmp_path,
        dataset,
        f"{presets}dream",
        f"initial_weights={{vae: {folder}, memory: {folder}}}",
        "training.phases.converge_vae=null",
        "training.phases.converge_mdn=null",
        "training.phases.evolve_in_dream.duration_cycles=2",
    )
    runs = [seen, remembered, dreamt]
    phases = [["converge_vae"], ["encode", "converge_mdn"], ["encode", "evolve_in_dream"]]
    assert [list(run.config.training.phases) for run in runs] == phases
    assert [run.counters.agent_steps for run in runs] == [0, 0, 0]
    assert dreamt.counters.imagined_steps > 0

    def same(name, one, other):
        mine, theirs = (run.context.components[name].state_dict() for run in (one, other))
        return all(torch.equal(mine[key], theirs[key]) for key in theirs)

    assert same("vae", seen, remembered)
    assert same("vae", seen, dreamt)
    assert same("memory", remembered, dreamt)
    assert not same("memory", seen, remembered)


@pytest.mark.parametrize("kind", ["sync", "racing"])
def test_reset_alike_begins_every_group_of_copies_with_the_same_starts(kind):
    if kind == "sync":
        env = gymnasium.make_vec("Bar-v0", 6, vectorization_mode="sync")
    else:
        env = gymnasium.make_vec("paddock/Racing-v0", 6, track="oval", observation="course")
    first, _ = reset_alike(env, seed=7, starts=3)
    again, _ = reset_alike(env, seed=7, starts=3)
    other, _ = reset_alike(env, seed=8, starts=3)
    assert np.allclose(first[:3], first[3:], atol=1e-5)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first[0], first[1])
    env.close()


def actor_spec(choices=None):
    action = ArraySpec(shape=(2,), dtype="float32", low=-1.0, high=1.0)
    action = ArraySpec(shape=(), dtype="int64", choices=choices) if choices else action
    return Spec(observation={"observation": ArraySpec(shape=(1,), dtype="float32")}, action=action)


def rolled(actor, steps, n=50):
    seen, state, found = {"observation": torch.zeros(n, 1)}, actor.initial_state(n), []
    for _ in range(steps):
        action, state = actor.act(seen, state, deterministic=False)
        found.append(action)
    return torch.stack(found)


def test_held_actor_holds_actions_for_as_long_as_it_is_told():
    actor = HeldActor(
        HeldActorConfig(_target_="x", steps=(3, 3), center=[0.0, 0.5], spread=[1.0, 0.1]), {}, actor_spec()
    )
    actions = rolled(actor, 9)
    assert torch.equal(actions[0], actions[2])
    assert (actions[2] != actions[3]).any(-1).all()
    assert actions[..., 1].min() >= 0.4
    assert actions[..., 1].max() <= 0.6
    choices = rolled(HeldActor(HeldActorConfig(_target_="x"), {}, actor_spec(4)), 40)
    assert sorted(choices.unique().tolist()) == [0, 1, 2, 3]
    with pytest.raises(InputError, match="one for each"):
        HeldActor(HeldActorConfig(_target_="x", center=[0.0]), {}, actor_spec())


def test_brownian_actor_wanders():
    actions = rolled(BrownianActor(BrownianActorConfig(_target_="x", rate=0.02), {}, actor_spec()), 200)
    steps = (actions[1:] - actions[:-1])[(actions[1:].abs() < 1) & (actions[:-1].abs() < 1)]
    assert steps.var().item() == pytest.approx(0.02, rel=0.2)
    assert actions.abs().max() <= 1
