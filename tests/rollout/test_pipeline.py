"""Collecting beside learning: one version late, the same whatever is slower, and whole in a checkpoint."""

import time

import pytest
import torch

from paddock.buffers.rollout import RolloutBuffer, RolloutConfig
from paddock.core.errors import InputError
from paddock.core.own_random import OwnDraws
from paddock.core.seeding import forked_random
from paddock.core.trees import map_tree, pack_tree, unpack_tree
from paddock.environments.gym import GymConfig, make
from paddock.environments.spaces import spec_of
from paddock.orchestration.launch import Request, resolve
from paddock.orchestration.pipelining import with_pipeline
from paddock.rollout.actor import ActorModule, RandomActorConfig
from paddock.rollout.collector import Collector
from paddock.rollout.controllers import ControllerManager
from paddock.rollout.pipeline import Pipeline, collected_by

COPIES, STEPS = 2, 12


class Shifting(ActorModule):
    """Acts by noise around a parameter, which stands in for everything that learning changes."""

    def __init__(self, spec):
        super().__init__(RandomActorConfig(_target_="it"), {}, spec)
        self.shift = torch.nn.Parameter(torch.zeros(()))

    def act(self, observation, state, *, deterministic):
        return self.shift + 0.1 * torch.randn_like(observation["observation"][:, :1]), state


class Rounds:
    """A pipeline over Pendulum whose actor is moved by 1 after every round, as an update would."""

    def __init__(self, pause=0.0):
        env = make(GymConfig(_target_="it", id="Pendulum-v1", num_envs=COPIES, max_episode_steps=5), COPIES)
        spec = spec_of(env)
        self.actor, self.pause = Shifting(spec), pause
        self.buffers = {
            name: RolloutBuffer(RolloutConfig(_target_="it", steps=STEPS), spec, COPIES) for name in ("one", "other")
        }
        self.pipeline = Pipeline(
            Collector(env, spec, seed=5), ControllerManager({"policy": self.actor}, "policy"), self.buffers
        )

    def next(self, buffer="one"):
        result = self.pipeline.collect(self.actor, self.buffers[buffer], STEPS)
        batch = map_tree(torch.clone, self.buffers[buffer].sample())
        torch.randn(7)  # The learning side draws from the global generator, at any time.
        time.sleep(self.pause)
        with torch.no_grad():
            self.actor.shift += 1.0
        return result, batch


@pytest.fixture
def rounds():
    made = []
    yield lambda **options: made.append(Rounds(**options)) or made[-1]
    for one in made:
        one.pipeline.close()


def same(left, right):
    return pack_tree(left) == pack_tree(right)


def test_a_pipeline_collects_one_version_late_and_says_which_copy_collected(rounds):
    run = rounds()
    seen = []
    for _ in range(4):
        _, batch = run.next()
        copy = collected_by(run.pipeline, run.actor)
        assert abs(batch["action"].mean() - copy.shift) < 0.2
        seen.append(float(copy.shift))
    assert seen == [0.0, 0.0, 1.0, 2.0], "round k acts with what update k - 2 left"


def test_a_pipeline_gives_the_same_whichever_side_is_slower(rounds):
    quick, slow = rounds(), rounds(pause=0.05)
    slow.pipeline.after_step = lambda: None
    quick.pipeline.after_step = lambda: time.sleep(0.002)
    for _ in range(3):
        (one, batch), (other, as_well) = quick.next(), slow.next()
        assert same(batch, as_well)
        assert (one.steps, one.episodes) == (other.steps, other.episodes) == (STEPS, one.episodes)


def test_a_pipeline_neither_moves_nor_reads_the_global_random_numbers(rounds):
    run = rounds()
    before = torch.get_rng_state()
    run.pipeline.collect(run.actor, run.buffers["one"], STEPS)
    run.pipeline.get_state()
    assert torch.equal(torch.get_rng_state(), before)


def test_a_resumed_pipeline_goes_on_bit_for_bit(rounds):
    whole, resumed = rounds(), rounds()
    for _ in range(2):
        whole.next()
    saved = unpack_tree(pack_tree(whole.pipeline.get_state()))
    resumed.actor.load_state_dict(whole.actor.state_dict())
    resumed.pipeline.set_state(saved, agent_steps=2 * STEPS)
    copies = [one.pipeline.collected_by(one.actor) for one in (whole, resumed)]
    assert float(copies[0].shift) == float(copies[1].shift) == 0.0
    for _ in range(3):
        (one, batch), (other, as_well) = whole.next(), resumed.next()
        assert same(batch, as_well)
        assert same(dict(one.observation), dict(other.observation))


def test_a_pipeline_drops_a_round_that_was_begun_for_another_buffer(rounds):
    run = rounds()
    run.next("one")
    _, batch = run.next("other")
    assert float(run.pipeline.collected_by(run.actor).shift) == 1.0, "collected anew, by the newest version"
    assert abs(batch["action"].mean() - 1.0) < 0.2


def test_what_fails_beside_learning_ends_the_collection(rounds):
    run = rounds()
    run.next()

    def fail():
        raise ValueError("the viewer is gone")

    run.pipeline.get_state()
    run.pipeline.after_step = fail
    run.next()
    with pytest.raises(ValueError, match="the viewer is gone"):
        run.next()
    run.pipeline.after_step = None


def test_own_draws_are_those_of_the_same_seed():
    generator = torch.Generator().manual_seed(3)
    with OwnDraws(generator):
        own = [torch.randn(3), torch.randn_like(torch.zeros(2)), torch.empty(2).exponential_(), torch.randperm(5)]
        with forked_random(3):
            again = torch.randn(3)
        after = torch.rand(2)
    torch.manual_seed(3)
    expected = [torch.randn(3), torch.randn(2), torch.empty(2).exponential_(), torch.randperm(5)]
    assert all(torch.equal(one, other) for one, other in zip(own, expected, strict=True))
    assert torch.equal(again, own[0])
    assert torch.equal(after, torch.rand(2)), "what was drawn inside is put back"


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [(["learners=2"], "needs learners=1"), (["device=cuda"], "needs device=cpu"), ([], "needs experience=local")],
)
def test_pipeline_on_says_what_it_cannot_be_used_with(rounds, overrides, reason):
    run = rounds()
    parts = ({}, ControllerManager({"policy": run.actor}, "policy"), run.buffers)
    inner = run.pipeline._inner if overrides else run.pipeline  # A pipeline is itself no local collector.
    given, _ = resolve(Request("ppo_pendulum", overrides=["pipeline=on", *overrides]))
    with pytest.raises(InputError, match=reason):
        with_pipeline(given, inner, *parts)
    auto = given.model_copy(update={"pipeline": "auto"})
    assert with_pipeline(auto, inner, *parts) is inner


def test_pipeline_reads_a_bare_on_and_off_of_yaml():
    given, _ = resolve(Request("ppo_pendulum"))
    assert given.pipeline == "off"
    values = given.model_dump(by_alias=True)
    assert type(given).model_validate({**values, "pipeline": True}).pipeline == "on"
