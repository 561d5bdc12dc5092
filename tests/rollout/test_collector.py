import numpy as np
import pytest
import torch

from paddock.buffers.rollout import RolloutBuffer, RolloutConfig
from paddock.environments.gym import GymConfig, make
from paddock.environments.spaces import spec_of
from paddock.rollout.actor import ActorModule, RandomActor, RandomActorConfig
from paddock.rollout.collector import Collector
from paddock.rollout.experience import Experience


class Recorder:
    def __init__(self):
        self.steps = []

    def add(self, transition):
        copied = {key: np.array(value) for key, value in transition.items() if isinstance(value, np.ndarray)}
        copied["observation"] = transition["observation"]["observation"].copy()
        copied["next_observation"] = transition["next_observation"]["observation"].copy()
        if "final_observation" in transition:
            copied["final_observation"] = transition["final_observation"]["observation"].copy()
        self.steps.append(copied)


def collector(vectorization="sync", copies=3, name="CartPole-v1"):
    settings = GymConfig(_target_="it", id=name, num_envs=copies, vectorization=vectorization, max_episode_steps=30)
    env = make(settings, copies)
    spec = spec_of(env)
    return Collector(env, spec, seed=5), RandomActor(RandomActorConfig(_target_="it"), {}, spec)


@pytest.mark.parametrize("vectorization", ["sync", "async", "custom"])
def test_observations_chain_and_episodes_add_up(vectorization):
    torch.manual_seed(0)
    collect, actor = collector(vectorization)
    sink = Recorder()
    results = [collect.collect(actor, sink, 150) for _ in range(4)]
    collect.env.close()
    for before, after in zip(sink.steps, sink.steps[1:], strict=False):
        assert np.array_equal(before["next_observation"], after["observation"])

    valid = np.array([step["valid"] for step in sink.steps])
    done = np.array([step["terminated"] | step["truncated"] for step in sink.steps])
    assert sum(result.steps for result in results) == valid.sum()
    assert sum(result.episodes for result in results) == done.sum()
    if vectorization == "custom":
        assert (~valid[1:] == done[:-1]).all(), "the step after an end only resets"
    else:
        assert valid.all()
    ends = np.flatnonzero(done[:, 0])
    length = valid[: ends[0] + 1, 0].sum()
    reward = np.array([step["reward"] for step in sink.steps])
    assert reward[: ends[0] + 1, 0].sum() == length


def test_the_true_last_observation_reaches_the_buffer():
    torch.manual_seed(0)
    collect, actor = collector()
    sink = Recorder()
    collect.collect(actor, sink, 600)
    ends = [step for step in sink.steps if "final_rows" in step]
    assert ends
    for step in ends:
        rows = step["final_rows"]
        fell = step["terminated"][rows]
        assert (np.abs(step["final_observation"][fell][:, [0, 2]]) > [0, 0.2]).all(axis=1).all()
        assert (np.abs(step["next_observation"][rows]) <= 0.05).all()


class Counter(ActorModule):
    """A recurrent policy whose memory counts the steps of its episode."""

    def initial_state(self, n):
        return {"count": torch.zeros(n)}

    def act(self, observation, state, *, deterministic):
        self.seen = state["count"].clone()
        return torch.randint(2, (len(state["count"]),)), {"count": state["count"] + 1}


def test_memory_is_reset_where_an_episode_ends():
    torch.manual_seed(0)
    collect, random_actor = collector()
    actor = Counter(random_actor.config, {}, random_actor.spec)
    sink, ages = Recorder(), []
    for _ in range(60):
        collect.collect(actor, sink, 3)
        ages.append(actor.seen.numpy())
    done = np.array([step["terminated"] | step["truncated"] for step in sink.steps])
    expected = np.zeros(3)
    for t in range(60):
        assert np.array_equal(ages[t], expected)
        expected = (expected + 1) * ~done[t]


def test_a_collector_goes_on_from_its_state():
    torch.manual_seed(0)
    first, actor = collector()
    second, _ = collector()
    first.collect(actor, Recorder(), 90)
    second.set_state(first.get_state(), agent_steps=90)
    one, other = Recorder(), Recorder()
    torch.manual_seed(1)
    left = first.collect(actor, one, 90)
    torch.manual_seed(1)
    right = second.collect(actor, other, 90)
    assert left.episodes == right.episodes
    assert left.metrics.get("collect/return") == right.metrics.get("collect/return")
    for a, b in zip(one.steps, other.steps, strict=True):
        assert np.array_equal(a["next_observation"], b["next_observation"])


def test_experience_reads_the_rollout_rows_and_collects_what_a_copying_sink_gets():
    """Over several rollouts, resets and a saved state: the same transitions whether or not the sink keeps the rows."""
    batches = []
    for chains in (True, False):
        torch.manual_seed(0)
        experience, actor = collector()
        buffer = RolloutBuffer(RolloutConfig(_target_="it", steps=60), experience.spec, experience.num_envs)
        sink = buffer if chains else Copying(buffer)
        batches.append([])
        for _ in range(3):
            result = experience.collect(actor, sink, 60)
            batches[-1].append({name: part.clone() for name, part in flattened(buffer.sample()).items()})
            assert np.array_equal(result.observation["observation"], batches[-1][-1]["observation.observation"][-1])
            is_the_row = np.shares_memory(result.observation["observation"], buffer._observation["observation"])
            assert is_the_row == chains
            if experience.is_exact:
                experience.set_state(experience.get_state(), agent_steps=0)
        experience.close()
    for one, other in zip(*batches, strict=True):
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_experience_of_an_environment_without_reward_terms_has_no_weights():
    experience: Experience = collector()[0]
    assert experience.reward_weights == {}
    assert experience.view is None
    assert experience.time_step == pytest.approx(1 / 50)  # as CartPole's metadata say
    experience.close()


class Copying:
    """A sink that keeps copies only."""

    def __init__(self, buffer):
        self.buffer = buffer

    def add(self, transition):
        self.buffer.add({**transition, "observation": dict(transition["observation"])})


def flattened(batch):
    parts = {
        f"{name}.{key}": part for name, value in batch.items() if isinstance(value, dict) for key, part in value.items()
    }
    return {**parts, **{name: value for name, value in batch.items() if not isinstance(value, dict)}}
