"""`paddock/Dream-v0`: every kind of world model as a vector environment, exact, seeded, and good to train in."""

import gymnasium
import numpy as np
import pytest
import torch
from PIL import Image

import paddock  # noqa: F401 - registers the environments
from paddock.components.dynamics.dream import Dream
from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec
from paddock.dream.env import DreamVectorEnv
from paddock.dream.film import film_dream
from paddock.dream.panels import DreamPanels, action_of
from paddock.dream.session import open_dream
from paddock.dream.source import DreamSource, source_of
from paddock.orchestration.subject import find_subject
from quiet_runs import quiet_run
from world_model_cases import NUMBERS, PICTURES

TINY = ["environment=gym", "environment.id=Reach-v0", "environment.num_envs=4", "evaluation.episodes=2"]
SMALL_RSSM = [
    "components.world_model.rssm.deter=16",
    "components.world_model.rssm.hidden=16",
    "components.world_model.encoder.units=16",
]
KINDS = {
    "mdn_rnn": NUMBERS,
    "rssm": [*TINY, "workflow=dreamer", *SMALL_RSSM],
    "planet": [*TINY, "workflow=planet", *SMALL_RSSM],
    "latent_actor": [*TINY, "workflow=latent_actor"],
    "tdmpc": [*TINY, "workflow=tdmpc2"],
}


class Counting:
    """A model whose latent counts: an action adds, the reward is the count, and three is the end."""

    def initial(self, batch):
        return {"count": torch.zeros(batch, 1)}

    def imagine_step(self, latent, action):
        return {"count": latent["count"] + action}

    def features(self, latent):
        return latent["count"]

    def predict_reward(self, latent):
        return latent["count"].squeeze(-1)

    def predict_continue(self, latent):
        return (latent["count"].squeeze(-1) < 3).float()

    def decode(self, latent):
        return {"observation": latent["count"] * 10}


def counting(**options):
    action = ArraySpec(shape=(1,), dtype="float32", low=0.0, high=2.0)
    spec = Spec(observation={"observation": ArraySpec(shape=(1,), dtype="float32")}, action=action)
    starts = {"count": torch.tensor([[0.0], [0.5]])}
    source = DreamSource(Counting(), spec, starts, {"observation": np.zeros((2, 1), np.float32)})
    return DreamVectorEnv(3, source=source, **options)


def test_dream_env_steps_rewards_and_ends_as_the_model_says():
    env = counting()
    observation, _ = env.reset(seed=1, options={"starts": [0, 1, 0]})
    assert observation[:, 0].tolist() == [0.0, 0.5, 0.0]
    # 2 is the upper bound: 1 as the policy has it; 1 is the middle: 0.
    observation, reward, terminated, truncated, _ = env.step(np.array([[2.0], [2.0], [1.0]], np.float32))
    assert observation[:, 0].tolist() == reward.tolist() == [1.0, 1.5, 0.0]
    assert not (terminated | truncated).any()
    env.step(np.array([[2.0], [2.0], [1.0]], np.float32))
    observation, reward, terminated, _, info = env.step(np.array([[2.0], [2.0], [1.0]], np.float32))
    assert terminated.tolist() == [True, True, False]
    assert info["final_obs"][:2, 0].tolist() == [3.0, 3.5]
    assert observation[0, 0] in (0.0, 0.5)  # It began anew.
    assert reward.tolist() == [3.0, 3.5, 0.0]


def test_dream_env_is_truncated_and_decodes():
    env = counting(max_episode_steps=2, observation="decoded", ends="never")
    env.reset(seed=1, options={"starts": [1, 1, 1]})
    observation, *_ = env.step(np.full((3, 1), 2.0, np.float32))
    assert observation[:, 0].tolist() == [15.0] * 3
    _, _, terminated, truncated, _ = env.step(np.full((3, 1), 2.0, np.float32))
    assert truncated.all()
    assert not terminated.any()


def test_dream_of_a_deterministic_model_has_no_temperature():
    with pytest.raises(InputError, match=r"Leave it at 1\.0"):
        Dream(Counting(), temperature=1.3)


@pytest.fixture(params=KINDS)
def any_source(request, tmp_path):
    run = quiet_run(tmp_path, None, *KINDS[request.param])
    source = source_of(run.workflow.actor(), run.make_eval_env, starts=5, context=2, seed=3)
    run.context.experience.close()
    return source


def test_every_world_model_of_the_lab_is_a_dream_env(any_source):
    env = DreamVectorEnv(4, source=any_source, max_episode_steps=6)
    observation, _ = env.reset(seed=5)
    assert env.observation_space.contains(observation)
    env.action_space.seed(1)
    for _ in range(8):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        assert observation.shape == env.observation_space.shape
        assert np.isfinite(observation).all()
        assert np.isfinite(reward).all()
        assert terminated.dtype == truncated.dtype == bool


def test_dream_env_goes_on_to_the_bit_from_its_state_and_leaves_other_draws_alone(any_source):
    env = DreamVectorEnv(4, source=any_source, max_episode_steps=4)
    env.reset(seed=5)
    env.action_space.seed(1)
    actions = [env.action_space.sample() for _ in range(8)]
    env.step(actions[0])
    state = env.get_state()
    torch.manual_seed(9)
    first = [env.step(action)[:4] for action in actions[1:]]
    assert torch.equal(torch.rand(3), torch.manual_seed(9) and torch.rand(3))
    env.set_state(state)
    again = [env.step(action)[:4] for action in actions[1:]]
    for one, other in zip(first, again, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_warm_dreams_of_rssm_vary_more(tmp_path):
    run = quiet_run(tmp_path, None, *KINDS["planet"])
    model = run.context.components["world_model"]
    latent, action = model.initial(2_000), torch.zeros(2_000, 1)
    with torch.no_grad():
        spread = {t: model.imagine_step(latent, action, temperature=t)["stoch"].std().item() for t in (0.1, 1.0, 2.0)}
    assert spread[0.1] < spread[1.0] < spread[2.0]
    assert spread[2.0] / spread[1.0] == pytest.approx(2**0.5, rel=0.1)


@pytest.fixture(scope="module")
def seeing_run(tmp_path_factory):
    """A finished run of World Models that sees pictures."""
    folder = tmp_path_factory.mktemp("seeing")
    run = quiet_run(folder, None, *PICTURES, name="seeing")
    run.run()
    return folder, run.run_folder.path


def test_ppo_trains_inside_the_dream_of_a_run(seeing_run, tmp_path):
    _, path = seeing_run
    dream = [f"environment.run={path}", "environment.num_envs=4", "environment.max_episode_steps=10"]
    more = ["workflow.rollout_steps=64", "workflow.minibatch_size=32", "training.total_steps=128"]
    outcome = quiet_run(tmp_path, "ppo_dream", *dream, *more, "evaluation.episodes=2").run()
    assert outcome.status == "finished"
    assert outcome.counters.agent_steps == 128


def test_dream_env_is_made_by_gymnasium(seeing_run):
    env = gymnasium.make_vec("paddock/Dream-v0", 3, run=str(seeing_run[1]), observation="decoded", temperature=1.15)
    observation, _ = env.reset(seed=1)
    assert observation.shape == (3, 16, 16, 1)
    assert observation.dtype == np.uint8
    assert env.render()[0].shape == (256, 256, 3)
    with pytest.raises(InputError, match="needs a run"):
        DreamVectorEnv(2)


def test_panels_show_road_reconstruction_and_dream_side_by_side(seeing_run, tmp_path):
    folder, path = seeing_run
    panels, name = open_dream(str(path), folder, temperature=1.0)
    assert name == path.name
    picture = panels.picture()
    assert picture.shape == (256, 3 * 256 + 2 * 8, 3)
    # A dream begins with what is seen: its first picture is the reconstruction.
    assert np.array_equal(picture[:, 264:520], picture[:, 528:784])
    panels.step(action_of(panels.spec.action, 1.0, 0.0, 0.0))
    assert not np.array_equal(panels.picture(), picture)
    panels.begin(1)
    assert panels.steps == 0
    panels.close()


def test_a_dream_is_filmed_as_mp4_as_gif_and_as_a_strip_of_moments(seeing_run, tmp_path):
    folder, path = seeing_run
    panels, _ = open_dream(str(path), folder, temperature=1.0)
    assert film_dream(panels, tmp_path / "film.mp4", steps=5) == 5
    assert (tmp_path / "film.mp4").stat().st_size > 0
    panels.begin(0)
    assert film_dream(panels, tmp_path / "film.gif", steps=8) == 2  # every fourth step
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames == 2
    panels.begin(0)
    shown = panels.pictures()
    assert film_dream(panels, tmp_path / "strip.png", steps=200) == 2  # Episodes here have eight steps.
    with Image.open(tmp_path / "strip.png") as strip:
        picture = np.asarray(strip)
    for row, expected in enumerate(shown):
        top = 24 + row * 134
        assert np.array_equal(picture[top : top + 128 : 8, 112:240:8], expected)
    with pytest.raises(InputError, match=r"ends in \.mp4, \.gif, \.png"):
        film_dream(panels, tmp_path / "film.avi", steps=5)
    panels.close()


def test_a_dream_without_a_world_model_or_a_picture_is_refused(tmp_path):
    ppo = quiet_run(tmp_path, "ppo_cartpole", "training.total_steps=64", "workflow.rollout_steps=64", name="ppo")
    ppo.config.evaluation  # noqa: B018 - built is enough
    with pytest.raises(InputError, match="has no world model"):
        source_of(ppo.workflow.actor(), ppo.make_eval_env, starts=1, context=1, seed=0)
    numbers = quiet_run(tmp_path, None, *NUMBERS, name="numbers")
    numbers.run()
    with pytest.raises(InputError, match="no picture in this dream"):
        DreamPanels(find_subject(str(numbers.run_folder.path), tmp_path))


def test_wheel_and_pedals_fit_the_actions_of_a_dream():
    two = ArraySpec(shape=(2,), dtype="float32", low=-1.0, high=1.0)
    assert action_of(two, 0.5, 1.0, 0.25).tolist() == [[0.5, 0.75]]
    racing = ArraySpec(shape=(3,), dtype="float32", low=[-1.0, 0.0, 0.0], high=[1.0, 1.0, 1.0])
    assert action_of(racing, 0.5, 1.0, 0.0).tolist() == [[-0.5, 1.0, 0.0]]
    choices = ArraySpec(shape=(), dtype="int64", choices=3)
    assert [action_of(choices, steer, 0, 0).item() for steer in (1.0, 0.0, -1.0)] == [0, 1, 2]
    with pytest.raises(InputError, match="do not fit"):
        action_of(ArraySpec(shape=(), dtype="int64", choices=18), 0, 0, 0)
