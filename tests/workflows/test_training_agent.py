"""Classes of TMRL's shape inside a workflow: agents learn, actors act, memories give batches, all of it is resumed."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium import spaces

import tiny_tasks  # noqa: F401  registers Reach-v0
from paddock.buffers.tmrl_memory import TmrlMemory, TmrlMemoryConfig
from paddock.components.attributes import get_attributes, set_attributes
from paddock.components.controllers.tmrl_classes import ActorPart, TmrlClassConfig
from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec
from paddock.core.trees import load_tree, save_tree
from paddock.core.tuples import as_parts, as_tuple, observation_space
from paddock.rollout.actor import load_policy
from paddock.tmrl.example_agent import ExampleAgent
from paddock.tmrl.handing_out import actor_class
from paddock.tmrl.layouts import Layout
from paddock.workflows.training_agent import TrainingAgentConfig, TrainingAgentWorkflow
from quiet_runs import quiet_run

REACH = (
    "environment.id=Reach-v0",
    "environment.num_envs=1",
    "components.agent.arguments={gamma: 0.9, learning_rate: 0.003, hidden: 32}",
    "components.actor.arguments={hidden: 32}",
    "buffers.replay.batch_size=64",
    "buffers.replay.capacity=5_000",
    "training.phases.seed.duration_steps=200",
    "evaluation.episodes=20",
)
MEMORY = (
    "buffers.replay={_target_: paddock.buffers.tmrl_memory.TmrlMemory, min_samples: 64, "
    "kind: 'paddock.tmrl.example_agent:ExampleMemory', arguments: {batch_size: 64, memory_size: 5000}}"
)


def reach(folder, *overrides: str, name: str = "run"):
    replaced = ("buffers.",) if MEMORY in overrides else ("components.",) if "components" in str(overrides) else ("-",)
    given = [text for text in REACH if not text.startswith(replaced)]
    return quiet_run(folder, "training_agent_pendulum", *given, *overrides, name=name)


def test_training_agent_learns_to_reach(tmp_path):
    """A random walk gives about -8, the best about -0.5."""
    outcome = reach(
        tmp_path,
        "training.total_steps=900",
        "training.phases.joint.workflow_hooks.evaluate.every_steps=700",
    ).run()
    assert outcome.latest["eval/return"] > -1.8
    assert {"train/loss_actor", "train/loss_critic", "train/entropy_coef"} <= set(outcome.latest)


@pytest.mark.parametrize("memory", [(), (MEMORY,)], ids=["uniform", "memory"])
def test_training_agent_resumed_equals_uninterrupted(tmp_path, memory):
    from rich.console import Console

    from paddock.experiments.run import RunFolder
    from paddock.orchestration.launch import resumed_run

    options = [
        *memory,
        "training.phases.seed.duration_steps=80",
        "training.phases.joint.workflow_hooks.evaluate=null",
        "checkpoint.every_steps=null",
    ]
    whole = reach(tmp_path / "whole", *options, "training.total_steps=150")
    whole.run()
    first = reach(tmp_path / "parts", *options, "training.total_steps=120")
    first.run()
    run = RunFolder.find(tmp_path / "parts", first.run_folder.name)
    with resumed_run(run, ["training.total_steps=150"], Console(quiet=True)) as second:
        second.run()
        mine, theirs = (get_attributes(one.context.components["agent"].agent) for one in (second, whole))
    assert_equal(mine, theirs)


def assert_equal(one, other) -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_equal(one[key], other[key])
    elif isinstance(one, list | tuple):
        for mine, theirs in zip(one, other, strict=True):
            assert_equal(mine, theirs)
    else:
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


def test_training_agent_policy_is_saved_and_handed_out_as_an_actor_module(tmp_path):
    made = reach(tmp_path, "training.total_steps=220", "training.phases.joint.workflow_hooks.evaluate=null")
    made.run()
    folder = made.run_folder.policy_folder("latest")
    loaded = load_policy(folder)
    seen = np.array([0.5, -0.5], np.float32)
    action, _ = loaded.predict(seen)
    handed = actor_class(folder)(spaces.Tuple([spaces.Box(-4, 4, (2,))]), spaces.Box(-1, 1, (1,)))
    np.testing.assert_array_equal(handed.act_((seen,), test=True), action)
    expected = made.context.components["agent"].agent.get_actor().act_((seen,), test=True)
    np.testing.assert_allclose(action, expected, atol=1e-6)
    with pytest.raises(InputError, match="entries"):
        handed.act((seen, seen))


def test_agent_state_is_a_tree_that_files_hold(tmp_path):
    space, action = spaces.Tuple([spaces.Box(-1, 1, (3,))]), spaces.Box(-2, 2, (1,))
    torch.manual_seed(0)
    first, second = ExampleAgent(space, action, "cpu"), ExampleAgent(space, action, "cpu")
    batch = ((torch.rand(8, 3),), torch.rand(8, 1), torch.rand(8), (torch.rand(8, 3),), torch.zeros(8), torch.zeros(8))
    first.train(batch)
    save_tree(tmp_path, "agent", get_attributes(first))
    set_attributes(second, load_tree(tmp_path, "agent"))
    for agent in (first, second):
        torch.manual_seed(1)
        agent.train(batch)
    assert_equal(get_attributes(first), get_attributes(second))


def two_part_spec() -> Spec:
    action = ArraySpec(shape=(2,), dtype="float32", low=-1.0, high=1.0)
    buffer = ArraySpec(shape=(6,), dtype="float32", low=-1.0, high=1.0)
    speed = ArraySpec(shape=(1,), dtype="float32")
    return Spec(observation={"last_actions": buffer, "speed": speed}, action=action, is_dict=True)


def test_tuples_have_the_action_buffer_oldest_first():
    spec, order = two_part_spec(), ["speed", "last_actions"]
    parts = {"speed": np.array([7.0], np.float32), "last_actions": np.arange(6, dtype=np.float32)}
    entries = as_tuple(parts, spec, order)
    assert [one.tolist() for one in entries] == [[7.0], [0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    assert [space.shape for space in observation_space(spec, order)] == [(1,), (2,), (2,), (2,)]
    back = as_parts(entries, spec, order)
    assert all(np.array_equal(back[name], parts[name]) for name in parts)
    batch = as_tuple({name: torch.from_numpy(part)[None] for name, part in parts.items()}, spec, order)
    assert [tuple(one.shape) for one in batch] == [(1, 1), (1, 2), (1, 2), (1, 2)]


class JsonActor:
    """An actor without torch, which saves itself as JSON: what TMRL's competition asks for."""

    def __init__(self, observation_space, action_space) -> None:
        self.gain = 0.0

    def save(self, path) -> None:
        with open(path, "w") as file:
            json.dump({"gain": self.gain}, file)

    def load(self, path, device):
        with open(path) as file:
            self.gain = json.load(file)["gain"]
        return self

    def act(self, obs, test=False):
        return np.array([self.gain * obs[0][0]])


class JsonAgent:
    """Learns the gain of the actor by moving it towards 1."""

    def __init__(self, observation_space, action_space, device) -> None:
        self.actor = JsonActor(observation_space, action_space)
        self.gain, self.batches = 0.0, []

    def train(self, batch):
        previous, action, reward, following, terminated, truncated = batch
        assert isinstance(previous, tuple)
        assert previous[0].shape == following[0].shape == (64, 2)
        assert action.shape == (64, 1)
        assert reward.shape == terminated.shape == truncated.shape == (64,)
        self.gain += 0.1 * (1 - self.gain)
        self.actor.gain = self.gain
        return {"gain": self.gain}

    def get_actor(self):
        return self.actor

    def get_state(self):
        return {"gain": self.gain}

    def set_state(self, state):
        self.gain = state["gain"]


def test_training_agent_of_a_plugin_with_an_actor_of_json(tmp_path, monkeypatch):
    """Without torch, without the bases of Paddock or TMRL, from a package that is registered."""
    shutil.copy(__file__, tmp_path / "json_agents.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    classes = ("components.agent.kind='json_agents:JsonAgent'", "components.actor.kind='json_agents:JsonActor'")
    with pytest.raises(InputError, match="--plugin"):
        reach(tmp_path, *classes)
    monkeypatch.setenv("PADDOCK_PLUGINS", "json_agents")
    made = reach(tmp_path, *classes, "training.total_steps=230", "training.phases.joint.workflow_hooks.evaluate=null")
    outcome = made.run()
    assert outcome.latest["train/gain"] > 0.5
    policy = load_policy(made.run_folder.policy_folder("latest"))
    action, _ = policy.predict(np.array([0.5, 0.0], np.float32))
    assert action[0] == pytest.approx(0.5 * made.context.components["agent"].agent.gain, abs=1e-6)


def test_training_agent_refuses_workers_for_actors_whose_weights_cannot_travel():
    target = "paddock.workflows.training_agent.TrainingAgentWorkflow"
    workflow = TrainingAgentWorkflow(TrainingAgentConfig(_target_=target))
    part = SimpleNamespace(module=None, config=SimpleNamespace(kind="mine:JsonActor"))
    with pytest.raises(InputError, match="experience=local"):
        workflow.initialize(SimpleNamespace(components={"agent": part, "actor": part}, experience=object()))


def test_actor_with_an_action_of_another_shape_is_refused():
    spec = Spec(observation={"observation": ArraySpec(shape=(2,), dtype="float32")},
                action=ArraySpec(shape=(2,), dtype="float32", low=-1.0, high=1.0))  # fmt: skip
    part = ActorPart.__new__(ActorPart)
    torch.nn.Module.__init__(part)
    part.spec, part.module, part.plain = spec, None, JsonActor(None, None)
    part.config = TmrlClassConfig(_target_="x", kind="a:JsonActor")
    with pytest.raises(Exception, match="action of shape"):
        part.act((np.zeros(2),), test=True)


def transition(value: float, *, first=False, end=False, cut=False, valid=True) -> dict:
    part = {"observation": np.array([[value]], np.float32)}
    following = {"observation": np.array([[value + 1]], np.float32)}
    made = {
        "observation": part, "next_observation": following, "action": np.array([[0.5]], np.float32),
        "reward": np.array([value]), "terminated": np.array([end]), "truncated": np.array([cut]),
        "valid": np.array([valid]), "is_first": np.array([first]),
    }  # fmt: skip
    if end or cut:
        made |= {"final_rows": np.array([0]), "final_observation": {"observation": np.array([[99.0]], np.float32)}}
    return made


def plain_memory() -> TmrlMemory:
    spec = Spec(observation={"observation": ArraySpec(shape=(1,), dtype="float32")},
                action=ArraySpec(shape=(1,), dtype="float32", low=0.0, high=4.0))  # fmt: skip
    kind = "paddock.tmrl.example_agent:ExampleMemory"
    target = "paddock.buffers.tmrl_memory.TmrlMemory"
    return TmrlMemory(TmrlMemoryConfig(_target_=target, kind=kind, arguments={"batch_size": 16}), spec, 1)


def test_memory_gets_whole_episodes_of_tmrl_samples():
    memory = plain_memory()
    memory.add(transition(0.0, first=True))
    memory.add(transition(1.0))
    assert not memory.can_sample()
    memory.add(transition(2.0, end=True))
    actions, observations, rewards, ends, cuts, firsts = memory.memory.data
    assert [one[0].item() for one in observations] == [0.0, 1.0, 2.0, 99.0]
    assert [one.item() for one in actions] == [0.0, 3.0, 3.0, 3.0]  # in the environment's units
    assert rewards == [0.0, 0.0, 1.0, 2.0]
    assert ends == [False, False, False, True]
    assert firsts == [True, False, False, False]
    assert cuts == [False] * 4
    previous, action, _, following, _, _ = memory.sample()["samples"]
    assert previous[0].shape == following[0].shape == (16, 1)
    assert action.shape == (16, 1)


def test_memory_cuts_episodes_at_a_discontinuity_and_keeps_open_ones_in_its_state():
    memory, other = plain_memory(), plain_memory()
    memory.add(transition(0.0, first=True))
    memory.add(transition(1.0, cut=True))
    memory.add(transition(5.0, first=True))
    other.set_state(memory.get_state())
    for one in (memory, other):
        one.add(transition(6.0))
        one.mark_discontinuity()
    assert memory.memory.data[4] == other.memory.data[4] == [False, False, True, False, False, True]
    assert_equal(memory.get_state()["memory"]["data"][2]["numbers"].tolist(),
                 other.get_state()["memory"]["data"][2]["numbers"].tolist())  # fmt: skip


def test_handed_out_lidar_policy_reads_tmrl_tuples(tmp_path):
    from paddock.components.controllers.tmrl_policy import TmrlPolicy
    from paddock.tmrl.policies import make_actor, policy_config

    layout = Layout("lidar")
    policy = make_actor(TmrlPolicy(policy_config(layout, [16, 16]), layout.spec()), layout.spec())
    policy.save(tmp_path / "policy")
    actor = actor_class(tmp_path / "policy")()
    speed, rays = np.array([30.0], np.float32), np.full((4, 19), 100, np.float32)
    older, newer = np.array([0.1, 0.2, 0.3], np.float32), np.array([0.4, 0.5, 0.6], np.float32)
    action = actor.act_((speed, rays, older, newer), test=True)
    expected, _ = policy.predict({"speed": speed, "rays": rays, "last_actions": np.concatenate([older, newer])})
    np.testing.assert_array_equal(action, expected)
    actor.save(tmp_path / "mine.tmod")
    again = actor_class(tmp_path / "policy")().load(str(tmp_path / "mine.tmod"), "cpu")
    np.testing.assert_array_equal(again.act((speed, rays, older, newer), test=True), action)
