"""PPO with a memory, and from pictures: what a rollout is judged by, tiny tasks, exact resume."""

import gymnasium
import numpy as np
import pytest
import torch
from rich.console import Console

from interruption import stop_after
from paddock.orchestration.launch import resumed_run
from paddock.workflows.ppo import normalize_by_minibatch

SMALL = [
    "environment.num_envs=6",
    "workflow.rollout_steps=120",
    "workflow.minibatch_size=40",
    "workflow.epochs=2",
    "evaluation.episodes=2",
]


MEMORY = [f"+network@components.{part}.network=lstm" for part in ("policy", "value")]


class Watched:
    """Remembers what an actor was asked and what its policy and the memory behind it said."""

    def __init__(self, actor):
        self.actor, self.log_probs = actor, []
        self.act_before = actor.act
        actor.act = self.act

    def act(self, observation, state, *, deterministic):
        actor = self.actor
        with torch.no_grad():
            seen = actor.parts["observation_normalizer"](observation)
            distribution, _ = actor.parts["policy"].step(seen, state)
        action, state = self.act_before(observation, state, deterministic=deterministic)
        self.log_probs.append(distribution.log_prob(action))
        return action, state


@pytest.mark.parametrize("vectorization", ["sync", "custom"])
def test_a_rollout_is_judged_with_the_memory_that_acted(prepared, vectorization):
    """The log-probability of every action is the one it had when it was taken, over two rollouts and all resets."""
    orchestrator = prepared("ppo_cartpole", *SMALL, *MEMORY, f"environment.vectorization={vectorization}")
    workflow, context = orchestrator.workflow, orchestrator.context
    watched = Watched(workflow.actor())
    for _ in range(2):
        watched.log_probs.clear()
        context.experience.collect(workflow.actor(), context.buffers["rollout"], 120)
        batch = context.buffers["rollout"].sample()
        valid = batch["valid"].T.clone()
        samples = workflow._prepare(batch)
        assert samples["log_prob"].shape == (6, 20)
        assert samples["is_first"].any()
        seen = torch.stack(watched.log_probs, 1)
        assert torch.allclose(samples["log_prob"][valid], seen[valid], atol=1e-5)


def test_values_are_those_of_stepping_one_copy_after_the_other(prepared):
    orchestrator = prepared(
        "ppo_cartpole", *SMALL, *MEMORY, "environment.id=Pendulum-v1", "environment.max_episode_steps=7"
    )
    workflow, context = orchestrator.workflow, orchestrator.context
    context.experience.collect(workflow.actor(), context.buffers["rollout"], 120)
    batch = context.buffers["rollout"].sample()
    observation = {name: part.flatten(0, 1) for name, part in batch["observation"].items()}
    with torch.no_grad():
        values, next_value = workflow._values_with_memory(batch, observation)
        finals = {tuple(place.tolist()): i for i, place in enumerate(batch["final_index"])}
        assert len(finals) == 12
        for copy in range(6):
            memory = workflow.value.initial_state(1)
            for t in range(20):
                if batch["is_first"][t, copy]:
                    memory = workflow.value.initial_state(1)
                now = batch["observation"]["observation"][t, copy][None]
                value, memory = workflow.value.step({"observation": now}, memory)
                assert value.item() == pytest.approx(values[t, copy].item(), abs=1e-5)
                after = batch["observation"]["observation"][t + 1, copy]
                if (t, copy) in finals:
                    after = batch["final_observation"]["observation"][finals[t, copy]]
                expected, _ = workflow.value.step({"observation": after[None]}, memory)
                assert next_value[t, copy].item() == pytest.approx(expected.item(), abs=1e-5)


def test_only_valid_steps_of_sequences_count_in_normalisation():
    torch.manual_seed(0)
    advantage, valid = torch.randn(5, 8), torch.rand(5, 8) < 0.7
    ours = normalize_by_minibatch(advantage, 2, valid)
    for start in (0, 2, 4):
        chosen = advantage[start : start + 2][valid[start : start + 2]]
        expected = (chosen - chosen.mean()) / (chosen.std() + 1e-8)
        assert torch.allclose(ours[start : start + 2][valid[start : start + 2]], expected, atol=1e-5)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_memory_answers_what_the_present_does_not_tell(prepared, cell):
    hooks = "[{collect: {steps: 1_024}}, update, {evaluate: {every_steps: 4_096}}]"
    outcome = prepared(
        "ppo_recall",
        "environment.arguments.delay=3",
        f"components.policy.network.cell={cell}",
        f"training.phases=[{{name: learn, buffer: rollout, until: 'eval/return >= 0.95', workflow_hooks: {hooks}}}]",
    ).run()
    assert outcome.latest["eval/return"] >= 0.95


def test_without_memory_it_stays_a_guess(prepared):
    """Half of the answers are right, whatever is learned: nothing that is seen with the question depends on the cue."""
    outcome = prepared(
        "ppo_recall",
        "network@components.policy.network=mlp",
        "environment.arguments.delay=3",
        "training.total_steps=20_480",
        "evaluation.episodes=400",
    ).run()
    assert outcome.latest["eval/return"] < 0.6


class Spot(gymnasium.Env):
    """A bright spot in the left or right half of a picture: choose its side. Ten pictures an episode."""

    def __init__(self, render_mode=None):
        self.observation_space = gymnasium.spaces.Box(0, 255, (16, 16, 3), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.time, self.column = 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._draw(), {}

    def step(self, action):
        reward = float(int(action) == (self.column >= 8))
        self.time += 1
        return self._draw(), reward, False, self.time == 10, {}

    def _draw(self):
        row, self.column = self.np_random.integers(16, size=2)
        picture = self.np_random.integers(100, size=(16, 16, 3), dtype=np.uint8)
        picture[max(row - 1, 0) : row + 2, self.column] = 255
        return picture


if "Spot-v0" not in gymnasium.registry:
    gymnasium.register("Spot-v0", entry_point=Spot)


def test_ppo_learns_from_pictures(prepared):
    hooks = "[{collect: {steps: 1_024}}, update, {evaluate: {every_steps: 4_096}}]"
    network = ["kernels=[4]", "strides=[2]", "channels=[8]", "hidden=[32]"]
    outcome = prepared(
        "ppo_cartpole",
        "environment.id=Spot-v0",
        *(f"+network@components.{part}.network=small_cnn" for part in ("policy", "value")),
        *(f"components.{part}.network.{setting}" for part in ("policy", "value") for setting in network),
        "workflow.rollout_steps=1_024",
        "workflow.gamma=0.5",
        "evaluation.episodes=20",
        f"training.phases=[{{name: learn, buffer: rollout, until: 'eval/return >= 9', workflow_hooks: {hooks}}}]",
        "training.total_steps=60_000",
    ).run()
    assert outcome.latest["eval/return"] >= 9, "five of ten are right by chance"


@pytest.mark.parametrize("actions", [3, 4])
def test_a_resumed_run_with_memory_is_bit_identical(prepared, actions):
    settings = [*SMALL, "training.total_steps=600", "checkpoint.every_steps=100"]
    settings += ["training.phases.train.workflow_hooks=[{collect: {steps: 60}}, update]"]
    whole = prepared("ppo_recall", *settings, run="whole")
    whole.run()
    broken = prepared("ppo_recall", *settings, run="broken")
    stop_after(broken, actions)
    with resumed_run(broken.run_folder, [], Console(quiet=True)) as resumed:
        assert resumed.run().status == "finished"
    for name in ("policy", "value"):
        one, other = (each.context.components[name].state_dict() for each in (whole, resumed))
        assert all(torch.equal(one[key], other[key]) for key in one)
    one, other = (each.workflow.get_state()["memory"] for each in (whole, resumed))
    assert all(torch.equal(one[part][key], other[part][key]) for part in one for key in one[part])


def test_a_memory_elsewhere_is_refused_in_words(prepared):
    from paddock.core.errors import InputError

    with pytest.raises(InputError, match="go with PPO"):
        prepared("sac_pendulum", "+network@components.policy.network=lstm")
