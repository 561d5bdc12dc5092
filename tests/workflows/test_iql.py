"""IQL and learning with demonstrations: losses, a tiny task, exact resume, and what starts from a cloned policy."""

import numpy as np
import pytest
import torch
from rich.console import Console

import tiny_tasks
from interruption import stop_after
from paddock.buffers.episode_builder import EpisodeBuilder
from paddock.buffers.episodes import Description, EpisodeWriter
from paddock.core.specs import ArraySpec, Spec
from paddock.orchestration.launch import resumed_run
from paddock.workflows.iql import expectile_loss, weighted_cloning_loss

SPEC = Spec(
    observation={"observation": ArraySpec(shape=(2,), dtype="float32", low=-4.0, high=4.0)},
    action=ArraySpec(shape=(1,), dtype="float32", low=-1.0, high=1.0),
)
TINY = [
    "environment.id=Reach-v0",
    "environment.num_envs=4",
    "components.policy.network.hidden=[32, 32]",
    "components.critics.hidden=[32, 32]",
    "evaluation.episodes=20",
]
OFFLINE = [*TINY, "components.value.network.hidden=[32, 32]", "logging.every_updates=100"]
ONLINE = [
    *TINY,
    "components.critics.layer_norm=true",
    "buffers.replay.batch_size=32",
    "training.phases.seed.duration_steps=100",
]


@pytest.fixture(scope="module")
def walks(tmp_path_factory):
    """A hundred random walks: nobody who made them tried to get anywhere."""
    folder = tmp_path_factory.mktemp("walks") / "set"
    writer, random = EpisodeWriter(folder, Description(SPEC)), np.random.default_rng(0)
    env = tiny_tasks.Reach()
    for seed in range(100):
        builder = EpisodeBuilder(SPEC, {"driver": "random", "seed": seed})
        builder.begin({"observation": env.reset(seed=seed)[0]})
        for _ in range(tiny_tasks.LENGTH):
            action = random.uniform(-1, 1, 1).astype(np.float32)
            seen, reward, terminated, truncated, _ = env.step(action)
            builder.add(action, reward, {"observation": seen}, terminated=terminated, truncated=truncated)
        writer.add(builder.finish())
    return folder


def sources(folder):
    return f"buffers.demonstrations.sources=['{folder}']"


def test_expectile_loss_is_the_naive_one():
    error = torch.tensor([-2.0, -0.5, 0.0, 1.0, 3.0])
    expected = sum((0.8 if e > 0 else 0.2) * e * e for e in error.tolist()) / 5
    assert expectile_loss(error, 0.8).item() == pytest.approx(expected, rel=1e-5)


def test_weighted_cloning_is_cloning_with_a_beta_of_zero_and_bounded_otherwise():
    log_prob, advantage = torch.tensor([-1.0, -2.0]), torch.tensor([5.0, -1.0])
    assert weighted_cloning_loss(log_prob, advantage, 0.0, 100.0).item() == pytest.approx(1.5)
    expected = (10.0 * 1.0 + np.exp(-2.0) * 2.0) / 2
    assert weighted_cloning_loss(log_prob, advantage, 2.0, 10.0).item() == pytest.approx(expected, rel=1e-5)


def test_iql_learns_to_reach_from_random_walks(prepared, walks):
    """From about -8 for what was recorded to nearly the best there is; cloning the same walks stays bad."""
    returns = {}
    for beta in (10.0, 0.0):
        outcome = prepared(
            None,
            "environment=gym",
            "workflow=iql",
            *OFFLINE,
            sources(walks),
            f"workflow.beta={beta}",
            "workflow.gamma=0.9",
            "workflow.expectile=0.9",
            *(f"optimizers.{name}.learning_rate=1e-3" for name in ("policy", "value", "critics")),
            "buffers.demonstrations.batch_size=64",
            "training.phases.offline.duration_updates=600",
            "training.phases.offline.workflow_hooks.evaluate.every_updates=600",
            run=f"beta-{beta}",
        ).run()
        assert outcome.counters.updates == 600
        assert outcome.counters.agent_steps == 0
        returns[beta] = outcome.latest["eval/return"]
    assert returns[10.0] >= -2.5
    assert returns[0.0] <= -4.0


def iql(prepared, walks, *more, run):
    return prepared(
        None, "environment=gym", "workflow=iql", *OFFLINE, sources(walks),
        "training.phases.offline.duration_updates=60",
        "training.phases.offline.workflow_hooks.evaluate.every_updates=30", *more, run=run,
    )  # fmt: skip


def parameters_of(orchestrator):
    return {
        f"{name}.{key}": value
        for name, part in orchestrator.context.components.items()
        for key, value in part.state_dict().items()
        if isinstance(value, torch.Tensor)
    }


def test_iql_resumed_is_bit_identical(prepared, walks):
    whole = iql(prepared, walks, run="whole")
    assert whole.run().status == "finished"
    broken = iql(prepared, walks, run="broken")
    stop_after(broken, 25)
    with resumed_run(broken.run_folder, [], Console(quiet=True)) as resumed:
        assert resumed.run().status == "finished"
    for name, value in parameters_of(whole).items():
        assert torch.equal(value, parameters_of(resumed)[name]), name
    assert whole.counters == resumed.counters


@pytest.mark.parametrize("experiment", ["sac_pendulum", "dqn_cartpole"])
def test_demonstrations_in_replay_resumed_are_bit_identical(prepared, walks, tmp_path, experiment):
    folder, more = walks, ONLINE
    if experiment == "dqn_cartpole":
        folder = choices(tmp_path / "choices")
        more = ["environment.id=ReachByChoice-v0", "environment.num_envs=4", "buffers.replay.batch_size=32"]

    def make(run):
        steps = ["training.total_steps=300", "training.phases.seed.duration_steps=100"]
        return prepared(experiment, "preset=demonstrations", *more, sources(folder), *steps, run=run)

    whole = make("whole")
    assert whole.run().status == "finished"
    assert whole.counters.updates > 0
    broken = make("broken")
    stop_after(broken, 100)
    with resumed_run(broken.run_folder, [], Console(quiet=True)) as resumed:
        assert resumed.run().status == "finished"
    for name, value in parameters_of(whole).items():
        assert torch.equal(value, parameters_of(resumed)[name]), name


def choices(folder):
    spec = Spec(observation=SPEC.observation, action=ArraySpec(shape=(), dtype="int64", choices=3))
    writer, random, env = EpisodeWriter(folder, Description(spec)), np.random.default_rng(0), tiny_tasks.Reach(True)
    for seed in range(10):
        builder = EpisodeBuilder(spec, {})
        builder.begin({"observation": env.reset(seed=seed)[0]})
        for _ in range(tiny_tasks.LENGTH):
            action = random.integers(3)
            seen, reward, terminated, truncated, _ = env.step(action)
            builder.add(action, reward, {"observation": seen}, terminated=terminated, truncated=truncated)
        writer.add(builder.finish())
    return folder


def test_sac_learns_from_batches_with_demonstrations(prepared, walks):
    """The share is really there: a batch of the phase's buffer holds as many recorded transitions."""
    orchestrator = prepared(
        "sac_pendulum", "preset=demonstrations", *ONLINE, sources(walks), "training.total_steps=400"
    )
    sizes, update = [], orchestrator.workflow.update
    recorded = {float(r) for e in orchestrator.context.buffers["demonstrations"].episodes for r in e.rewards}

    def watched(batch, *, phase):
        sizes.append(sum(float(reward) in recorded for reward in batch["reward"]))
        return update(batch, phase=phase)

    orchestrator.workflow.update = watched
    orchestrator.run()
    assert sizes
    assert all(size == 16 for size in sizes)


def assert_same_policy(one, other):
    seen = {"observation": torch.randn(16, 2)}
    with torch.inference_mode():
        actions = [each.workflow.actor().act(seen, None, deterministic=True)[0] for each in (one, other)]
    torch.testing.assert_close(*actions)


def from_weights(orchestrator):
    source = orchestrator.run_folder.path
    scale = ["components.observation_normalizer.enabled=true", "components.observation_normalizer.min_std=1e-3"]
    return [f"initial_weights={{policy: '{source}', observation_normalizer: '{source}'}}", *scale]


def test_ppo_starts_from_a_cloned_policy(prepared, walks):
    """initial_weights takes the policy and the scale of observations of a run that cloned demonstrations."""
    cloned = iql(prepared, walks, "workflow.beta=0", run="cloned")
    cloned.run()
    reach = [*TINY[:3], "components.policy.network.activation=relu"]
    assert_same_policy(cloned, prepared("ppo_pendulum", *reach, *from_weights(cloned), run="started"))


def test_sac_clones_demonstrations_and_another_sac_starts_from_it(prepared, tmp_path):
    """The cloned policy goes where the demonstrator went: straight to the target."""
    writer, env = EpisodeWriter(tmp_path / "straight", Description(SPEC)), tiny_tasks.Reach()
    for seed in range(40):
        builder = EpisodeBuilder(SPEC, {})
        seen = env.reset(seed=seed)[0]
        builder.begin({"observation": seen})
        for _ in range(tiny_tasks.LENGTH):
            action = np.clip([(seen[1] - seen[0]) / 0.4], -1, 1).astype(np.float32)
            seen, reward, terminated, truncated, _ = env.step(action)
            builder.add(action, reward, {"observation": seen}, terminated=terminated, truncated=truncated)
        writer.add(builder.finish())
    phase = "{type: offline, buffer: demonstrations, duration_updates: 600, "
    phase += "workflow_hooks: {clone_policy: {}, evaluate: {every_updates: 600}}}"
    cloned = prepared(
        "sac_pendulum", "preset=demonstrations", *ONLINE, sources(tmp_path / "straight"),
        f"training.phases={{seed: null, joint: null, clone: {phase}}}", "training.total_steps=null",
        "components.observation_normalizer.enabled=true", "components.observation_normalizer.min_std=1e-3",
        run="cloned",
    )  # fmt: skip
    assert cloned.run().latest["eval/return"] >= -2.0
    assert_same_policy(cloned, prepared("sac_pendulum", *TINY, *from_weights(cloned), run="started"))
