"""The diagnostics of world models: exact for a model that is, and against naive sums for one that is not."""

import numpy as np
import pytest
import torch

import tiny_tasks  # noqa: F401 - registers the task
from paddock.config.schema import instantiate, validate_target
from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec
from paddock.evaluation.evaluator import evaluate
from paddock.evaluation.world_model.episode import Episode, record_episode
from paddock.evaluation.world_model.picture import _picture_frames, film, picture
from paddock.evaluation.world_model.probe import (
    Windows,
    WorldModelProbe,
    WorldModelProbeConfig,
    errors_of,
    held_out,
    imagined,
    model_errors,
    model_of,
    required_model,
    untrained,
    windows_of,
)
from paddock.rollout.actor import RandomActor, load_policy
from paddock.rollout.model_actors import PlanningActor

SPEC = Spec(
    observation={"observation": ArraySpec(shape=(2,), dtype="float32", low=-4.0, high=4.0)},
    action=ArraySpec(shape=(1,), dtype="float32", low=-1.0, high=1.0),
)
PROBE = {"_target_": "paddock.evaluation.world_model.probe.WorldModelProbe", "episodes": 3, "steps": 35}
PLANNER = {
    "_target_": "paddock.components.controllers.planners.CEM",
    "horizon": 4, "candidates": 80, "iterations": 4, "elites": 8, "min_std": 0.02,
}  # fmt: skip


def make_env(copies, render_mode):
    target = {"_target_": "paddock.environments.gym.make", "id": "Reach-v0", "num_envs": copies}
    return instantiate(validate_target(target), copies, render_mode)


@pytest.fixture
def planning(monkeypatch):
    """A planner over the perfect model of the task, or over one that drifts."""
    monkeypatch.setenv("PADDOCK_PLUGINS", "perfect_models")

    def make(drift=0.0, **changes):
        model = instantiate(validate_target({"_target_": "perfect_models.PerfectReach", "drift": drift}), SPEC)
        target = "paddock.rollout.model_actors.PlanningActor"
        config = validate_target(
            {"_target_": target, "world_model": "world_model", "exploration": 0.5, "planner": {**PLANNER, **changes}}
        )
        return PlanningActor(config, {"world_model": model}, SPEC)

    return make


def probe_config(**changes):
    return WorldModelProbeConfig.model_validate({**PROBE, "context": 3, "horizon": 5, **changes})


def test_a_perfect_model_imagines_what_really_comes(planning):
    actor = planning()
    windows = held_out(actor, make_env, probe_config(), seed=4)
    (parts, reward), (real, real_reward) = imagined(model_of(actor), windows), windows.future()
    mask = windows.is_counted
    assert 0.3 < mask.float().mean() < 1, "some windows run over an episode's end, and what is beyond does not count"
    assert torch.allclose(parts["observation"][mask], real["observation"][mask], atol=1e-5)
    assert torch.allclose(reward[mask], real_reward[mask], atol=1e-5)
    errors = model_errors(model_of(actor), windows, seed=1)
    assert errors.observation.max() < 1e-8
    assert errors.reward.max() < 1e-8
    assert errors_of(windows.unchanged(), windows).observation.min() > 0.01


def test_a_wrong_model_is_the_worse_the_farther_it_looks(planning):
    windows = held_out(planning(), make_env, probe_config(), seed=4)
    errors = model_errors(model_of(planning(drift=0.1)), windows, seed=1)
    assert np.all(np.diff(errors.observation) > 0)
    assert errors.metrics("eval/model_").keys() == {
        f"eval/model_{kind}_error{step}" for kind in ("observation", "reward") for step in ("", "_1", "_5")
    }


def test_errors_are_the_naive_shares_of_variance():
    generator = torch.Generator().manual_seed(0)
    batch, context, horizon = 4, 2, 3
    is_first = torch.zeros(batch, 5, dtype=torch.bool)
    is_first[1, 3] = is_first[2, 1] = True
    vector = torch.randn(batch, 5, 2, generator=generator)
    vector[..., 1] = 7.0  # never varies, so it cannot be judged
    picture = torch.randint(0, 255, (batch, 5, 4, 4, 1), generator=generator, dtype=torch.uint8)
    reward = torch.randn(batch, 5, generator=generator)
    windows = Windows({"a": vector, "b": picture}, torch.zeros(batch, 5, 1), reward, is_first, context)
    forecast = {"a": torch.zeros(batch, horizon, 2), "b": torch.full((batch, horizon, 4, 4, 1), 100.0)}
    found = errors_of((forecast, torch.zeros(batch, horizon)), windows)
    kept = [(b, t) for b in range(batch) for t in range(2, 5) if not (b == 1 and t >= 3)]
    numbers, pixels = [vector[b, t, 0].item() for b, t in kept], np.stack([picture[b, t].numpy() for b, t in kept])
    for k in range(horizon):
        rows = [b for b, t in kept if t == k + 2]
        by_number = np.mean([vector[b, k + 2, 0].item() ** 2 for b in rows]) / np.var(numbers, ddof=1)
        by_pixel = np.mean([(100.0 - picture[b, k + 2].numpy()) ** 2 for b in rows]) / np.var(
            pixels.astype(float), ddof=1
        )
        assert found.observation[k] == pytest.approx((by_number + by_pixel) / 2, rel=1e-6)


def test_the_probe_disturbs_nobody_and_says_nothing_of_who_has_no_model(planning):
    torch.manual_seed(7)
    before = torch.get_rng_state()
    probe = WorldModelProbe(probe_config())
    actor = planning()
    first = probe(actor, make_env, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    assert probe(actor, make_env, seed=3) == first
    assert first["eval/model_reward_error"] < 1e-8
    random = RandomActor(validate_target({"_target_": "paddock.rollout.actor.RandomActor"}), {}, SPEC)
    assert probe(random, make_env, seed=3) == {}
    with pytest.raises(InputError, match="RandomActor has no world model"):
        required_model(random)


def test_a_planner_with_a_perfect_model_plays_nearly_perfectly_from_its_folder(planning, tmp_path):
    """The saved policy is a planner with its model, loaded without pickle, and acts the same."""
    actor = planning()
    score = evaluate(actor, make_env, episodes=20, seed=1, deterministic=True)
    place, target = make_env(20, None).reset(seed=1)[0].T
    distance = np.abs(place - target)[:, None] - 0.4 * np.arange(1, 11)
    best = -np.maximum(distance, 0).sum(1)
    assert np.all(score.returns <= best + 1e-5)
    assert (best - score.returns).mean() < 0.25
    actor.save(tmp_path / "policy")
    loaded = load_policy(tmp_path / "policy")
    assert isinstance(loaded, PlanningActor)
    again = evaluate(loaded, make_env, episodes=20, seed=1, deterministic=True)
    assert np.array_equal(again.returns, score.returns)


def test_an_untrained_model_is_a_fresh_one_and_leaves_the_trained_one_alone(prepared):
    changes = ["environment=gym", "workflow=latent_actor", "environment.id=Reach-v0", "environment.num_envs=2"]
    actor = prepared(None, *changes).workflow.actor()
    state = {name: value.clone() for name, value in actor.state_dict().items()}
    fresh, again = untrained(actor, seed=1), untrained(actor, seed=1)
    assert all(torch.equal(value, state[name]) for name, value in actor.state_dict().items())
    for name, value in fresh.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])
        if name.endswith("weight") and "world_model" in name:
            assert not torch.equal(value, state[name])
        if "policy" in name:
            assert torch.equal(value, state[name])


def test_short_experience_is_refused_in_words():
    with pytest.raises(ValueError, match="steps = 10 is less than context"):
        probe_config(steps=10, horizon=9)


def test_an_episode_real_and_imagined_can_be_watched(prepared, tmp_path):
    """A film of the scene beside its readings, a picture with the errors; each piece begins where the model saw."""
    changes = ["environment=gym", "workflow=latent_actor", "environment.id=CartPole-v1", "environment.num_envs=2"]
    orchestrator = prepared(None, *changes)
    actor, config = orchestrator.workflow.actor(), probe_config(steps=40, context=2, horizon=3)
    episode = record_episode(actor, orchestrator.make_eval_env, config, seed=1)
    rows = len(episode.imagined_steps)
    assert episode.imagined_steps.tolist()[:6] == [0, 0, 1, 2, 3, 1]
    assert len(episode.frames) == rows
    assert list(episode.readings) == [*(f"observation {number}" for number in range(1, 5)), "reward"]
    for real, told in episode.readings.values():
        assert real.shape == told.shape == (rows,)
        assert np.isnan(told[:2]).all()
        assert np.isfinite(told[2:]).all()
    assert film(tmp_path / "film.mp4", episode) == rows
    windows = held_out(actor, orchestrator.make_eval_env, config, seed=1)
    drawn = picture(episode, {"trained": model_errors(model_of(actor), windows, seed=1)}, title="Test")
    drawn.save(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5_000


def test_pictures_are_shown_side_by_side_with_their_difference(tmp_path):
    real = np.random.default_rng(0).integers(0, 255, (6, 16, 16, 3), dtype=np.uint8)
    told = np.concatenate([np.full((2, 16, 16, 3), np.nan), real[2:] * 0.5])
    pair = (real, np.nan_to_num(told))
    episode = Episode([], {"reward": (np.zeros(6), np.zeros(6))}, {"camera": pair}, np.array([0, 0, 1, 2, 1, 2]))
    assert film(tmp_path / "film.mp4", episode) == 6
    first, _, third, *_ = _picture_frames(episode)
    width = first.shape[1] // 3
    assert np.array_equal(first[34:, :width], first[34:, width : 2 * width])
    assert not first[34:, 2 * width :].any(), "what is seen is not imagined, so nothing differs"
    assert third[34:, 2 * width :].mean() == pytest.approx(real[2].mean() / 2, abs=1)


@pytest.mark.parametrize("controller", ["policy", "cem"])
def test_dreamers_model_serves_policy_planner_and_probe(prepared, controller):
    small = [
        "environment.num_envs=2",
        "controllers.available.cem.planner={horizon: 3, candidates: 6, iterations: 2, elites: 2}",
    ]
    orchestrator = prepared("dreamer_cartpole", *small)
    actor = orchestrator.context.controllers[controller]
    found = WorldModelProbe(probe_config(steps=20))(actor, orchestrator.make_eval_env, seed=1)
    assert found["eval/model_observation_error"] > 0
    assert evaluate(actor, orchestrator.make_eval_env, episodes=2, seed=1, deterministic=True).lengths.min() > 5


def test_a_model_of_pictures_is_asked_in_their_own_units(prepared):
    small = [f"components.world_model.{part}.depth=2" for part in ("encoder", "decoder")]
    changes = ["environment.observation=full", "environment.num_envs=2", *small]
    orchestrator = prepared("planet_racing", *changes)
    model, spec = orchestrator.context.components["world_model"], orchestrator.context.spec
    buffer = orchestrator.context.buffers["replay"]
    orchestrator.context.controllers.select("random")
    orchestrator.workflow.collect_step(24, phase=orchestrator.config.training.phases["seed"])
    batch = buffer.gather(np.array([0, 1]), np.array([0, 0]), 8)
    windows = windows_of(batch, spec.action, 3)
    parts, _ = imagined(model, windows)
    assert parts["images"].shape == batch["observation"]["images"][:, 3:].shape
    assert 0 <= parts["images"].min() <= parts["images"].max() <= 255
    assert errors_of((parts, windows.reward[:, 3:]), windows).observation.min() > 0
