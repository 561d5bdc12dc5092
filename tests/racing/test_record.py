"""Recorded episodes: what they hold is what the environment did, step for step."""

from dataclasses import replace

import numpy as np
import pytest

from paddock.buffers.demonstrations import load_episodes
from paddock.buffers.episodes import CORRECTED, INTERVENTION, read_description
from paddock.core.errors import InputError
from paddock.environments.gym import GymConfig, make
from paddock.environments.spaces import spec_of
from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.record import ClassicalDemonstrator, RecordRequest, racing_rules, record
from paddock.rollout.actor import RandomActor, RandomActorConfig
from paddock.rollout.recorder import ActorDriver, EpisodeRecorder, RecordingRules

OVAL = ("environment.track=oval", "environment.car=f1tenth")


@pytest.fixture
def request_(tmp_path):
    return RecordRequest(tmp_path / "set", "classical", overrides=OVAL, laps=2, num_envs=2)


def test_record_drives_whole_laps_with_the_classical_driver(request_):
    values = record(request_)
    episodes = load_episodes(request_.folder)
    assert values["episodes"] == len(episodes) == 2
    assert values["steps"] == sum(len(episode) for episode in episodes)
    for episode in episodes:
        assert episode.truncations[-1]
        assert not episode.terminations.any()
        assert episode.marks == {}
        assert dict(episode.information) == {
            "driver": "classical driver", "seed": 1, "noise": 0.0, "track": "oval", "car": "f1tenth",
        }  # fmt: skip
    assert read_description(request_.folder).environment["track"] == "oval"
    assert read_description(request_.folder).time_step == 0.05


def test_record_at_a_slower_pace_takes_longer(request_, tmp_path):
    slow = replace(request_, folder=tmp_path / "slow", pace=0.7)
    assert record(slow)["steps"] > 1.1 * record(request_)["steps"]
    assert load_episodes(slow.folder)[0].driver == "classical driver at 0.7"
    with pytest.raises(InputError, match="of the classical driver"):
        record(replace(slow, driver="random"))


def test_record_replays_to_the_same_observations(request_):
    """The actions of a demonstration, given to the same environment with the same seed, lead to the same places."""
    record(replace(request_, laps=1, num_envs=1))
    (episode,) = load_episodes(request_.folder)
    config = {"track": "oval", "car": "f1tenth", "observation": "course", "max_episode_steps": None}
    env = RacingVectorEnv(1, **config, start={"speed": [0.0, 0.1]})
    observation, _ = env.reset(seed=1)
    seen = [observation[0]]
    for action in episode.actions[:60]:
        observation, _, _, _, _ = env.step(action[None])
        seen.append(observation[0])
    at = next(k for k, one in enumerate(seen) if np.array_equal(one, episode.observations["observation"][0]))
    np.testing.assert_array_equal(np.stack(seen[at:]), episode.observations["observation"][: len(seen) - at])


def test_record_with_noise_keeps_what_the_driver_wanted(request_):
    record(replace(request_, noise=0.1, laps=1, num_envs=1))
    (episode,) = load_episodes(request_.folder)
    assert episode.marks[CORRECTED].all()
    difference = np.abs(episode.actions - episode.labels)
    assert 0.01 < difference.mean() < 0.3
    np.testing.assert_array_equal(episode.targets, episode.labels)


def test_record_refuses_what_makes_no_sense(request_):
    with pytest.raises(InputError, match="either a number of episodes or a number of laps"):
        record(replace(request_, episodes=1))
    with pytest.raises(InputError, match="laps are driven in racing only"):
        record(replace(request_, driver="random", experiment="ppo_pendulum", overrides=()))
    with pytest.raises(InputError, match="good enough to be kept"):
        record(replace(request_, laps=None, episodes=1, min_return=1e9, overrides=("environment.max_episode_steps=5",)))


@pytest.mark.parametrize("environment", ["Pendulum-v1", "CartPole-v1"])
def test_record_of_any_environment_holds_its_steps(environment):
    config = GymConfig(_target_="paddock.environments.gym.make", id=environment, num_envs=3)
    env = make(config, 3)
    spec = spec_of(env)
    driver = ActorDriver(RandomActor(RandomActorConfig(_target_="it"), {}, spec), 3, "random", deterministic=False)
    recorder = EpisodeRecorder(env, spec, driver, RecordingRules(), seed=3)
    episodes = [episode for episode, _ in zip(recorder.episodes(), range(5), strict=False)]
    lone = make(config, 1)
    for episode in episodes:
        assert all(len(part) == len(episode) + 1 for part in episode.observations.values())
        assert (episode.terminations | episode.truncations).nonzero()[0].tolist() == [len(episode) - 1]
        assert episode.actions.dtype == np.dtype(spec.action.dtype)
        single = lone.envs[0].unwrapped
        single.reset(seed=0)
        if environment == "CartPole-v1":  # Its observation is its state: the steps can be taken again.
            single.state = episode.observations["observation"][0].astype(np.float64)
            for action, expected in zip(episode.actions, episode.observations["observation"][1:], strict=True):
                np.testing.assert_allclose(single.step(int(action))[0], expected, atol=1e-4)
    env.close()
    lone.close()


def test_record_marks_where_the_teacher_had_the_controls():
    env = RacingVectorEnv(2, track="oval", car="f1tenth", max_episode_steps=40)
    spec = spec_of(env)
    student = ActorDriver(RandomActor(RandomActorConfig(_target_="it"), {}, spec), 2, "random", deterministic=False)
    rules = racing_rules(env, by_lap=False, student=student, teacher_share=0.3, keeps_idle=True)
    episode = next(EpisodeRecorder(env, spec, ClassicalDemonstrator(env), rules, seed=3).episodes())
    share = episode.marks[INTERVENTION].mean()
    assert 0.05 < share < 0.6
    same = (episode.actions == episode.labels).all(1)
    np.testing.assert_array_equal(same, episode.marks[INTERVENTION])
    assert episode.marks[CORRECTED].all()
    assert episode.information["student"] == "random"


def test_record_cuts_idle_starts():
    env = RacingVectorEnv(1, track="oval", car="f1tenth", max_episode_steps=30, start={"place": "grid"})
    spec = spec_of(env)

    class Late:
        """Waits for ten steps, then drives off."""

        name, taken = "late", 0

        def act(self, observation):
            self.taken += 1
            return np.array([[0.0, float(self.taken > 10)]], np.float32)

        def restart(self, begins):
            pass

    episodes = {}
    for keeps_idle in (False, True):
        rules = racing_rules(env, by_lap=False, keeps_idle=keeps_idle)
        episodes[keeps_idle] = next(EpisodeRecorder(env, spec, Late(), rules, seed=3).episodes())
    assert len(episodes[True]) == 30
    assert 15 <= len(episodes[False]) <= 20
    assert episodes[False].actions[0, 1] == 1.0


def test_record_of_a_student_holds_the_teachers_labels(request_, prepared):
    """DAgger's data: the policy drives where it gets to, the classical driver says what it would do there."""
    orchestrator = prepared("racing", *OVAL, "environment.num_envs=2", "workflow.rollout_steps=64")
    orchestrator.workflow.actor().save(request_.folder.parent / "policy", orchestrator.config.environment.to_dict())
    orchestrator.context.experience.close()
    limit = ("environment.max_episode_steps=60",)
    student = replace(request_, laps=None, episodes=2, overrides=limit, student=str(request_.folder.parent / "policy"))
    record(replace(student, teacher_share=0.5))
    episodes = load_episodes(request_.folder)
    assert len(episodes) == 2
    for episode in episodes:
        assert episode.information["student"] == "policy"
        assert episode.information["driver"] == "classical driver"
        taken = (episode.actions == episode.labels).all(1)
        assert taken[episode.marks[INTERVENTION]].all()
        assert not taken[~episode.marks[INTERVENTION]].all()
        assert episode.marks[CORRECTED].all()
    with pytest.raises(InputError, match="taught by the classical driver"):
        record(replace(student, driver="random"))
