"""The classical driver as a controller: whose cars it has, in which layout of actions, with how much noise, and as a
share of the data that World Models collect."""

import gymnasium
import numpy as np
import pytest
import torch
from rich.console import Console

from interruption import stop_after
from paddock.core.errors import InputError
from paddock.environments.spaces import spec_of
from paddock.evaluation.evaluator import evaluate
from paddock.experiments.run import RunFolder
from paddock.orchestration.launch import resumed_run
from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.laps.classical import ClassicalAtTheWheel
from paddock.racing.laps.classical_actor import ClassicalActor, ClassicalActorConfig
from paddock.rollout.actor import RandomActorConfig
from quiet_runs import quiet_run

RANDOM = RandomActorConfig(_target_="paddock.rollout.actor.RandomActor")
N = 8


@pytest.fixture
def made():
    """An environment after a second of driving, the actor in it, and what it sees."""

    def make(action="steer_throttle", **options):
        env = RacingVectorEnv(N, track="oval", observation="course", action=action)
        observation, _ = env.reset(seed=3)
        straight_on = env._actions.encode(np.tile(np.array([0.0, 0.5], np.float32), (N, 1)))
        for _ in range(20):
            observation = env.step(straight_on)[0]
        config = ClassicalActorConfig(_target_="x", otherwise=RANDOM, **options)
        actor = ClassicalActor(config, {}, spec_of(env))
        actor.watch(env)
        return env, actor, {"observation": torch.from_numpy(np.array(observation))}

    return make


@pytest.mark.parametrize("action", ["steer_throttle", "gas_brake_steer", "discrete"])
def test_the_classical_driver_has_its_share_of_the_cars_and_the_other_controller_the_rest(action, made):
    env, actor, seen = made(action, share=0.5)
    chosen = actor.to_environment(actor.act(seen, None, deterministic=False)[0])
    command = ClassicalAtTheWheel(env).act(None, env.world)
    expected = env._actions.encode(command)
    np.testing.assert_allclose(chosen[: N // 2], expected[: N // 2], atol=1e-6)
    again = actor.to_environment(actor.act(seen, None, deterministic=False)[0])
    assert np.array_equal(chosen[: N // 2], again[: N // 2])
    assert not np.array_equal(chosen[N // 2 :], again[N // 2 :])


def test_noise_mixes_the_other_controllers_action_into_the_classical_drivers(made):
    env, actor, seen = made(share=1.0, noise=0.2)
    own = ClassicalAtTheWheel(env).act(None, env.world)
    torch.manual_seed(5)
    other = torch.rand(N, 2) * 2 - 1
    torch.manual_seed(5)
    noisy = actor.act(seen, None, deterministic=False)[0].numpy()
    np.testing.assert_allclose(noisy, 0.8 * own + 0.2 * other.numpy(), atol=1e-6)
    np.testing.assert_allclose(actor.act(seen, None, deterministic=True)[0].numpy(), own, atol=1e-6)


def test_the_classical_actor_asks_for_the_racing_environment(made):
    _, actor, seen = made()
    with pytest.raises(InputError, match="racing environment only, and this one is 'CartPole-v1'"):
        actor.watch(gymnasium.make_vec("CartPole-v1", 2))
    lost = ClassicalActor(actor.config, {}, actor.spec)
    with pytest.raises(InputError, match="no racing environment to look at"):
        lost.act(seen, None, deterministic=True)


COLLECT = [
    "preset=world_models_see",
    "training.phases.data_collection.controller=classical",
    "controllers.available.classical.share=0.5",
    "workflow.population=4",
    "workflow.starts=2",
    "environment.num_envs=8",
    "environment.max_episode_steps=100",
    "buffers.replay.capacity=800",
    "workflow.validation.batch=8",
    "training.phases.converge_vae.duration_updates=2",
    "training.phases.converge_vae.workflow_hooks.validate_vae.every_updates=2",
]


def test_data_collection_of_world_models_takes_a_share_by_the_classical_driver_and_resumes(tmp_path):
    whole = quiet_run(tmp_path, "world_models_mini", *COLLECT, name="whole")
    whole.run()
    rows = whole.context.buffers["replay"].gather(np.arange(8), whole.context.buffers["replay"].oldest, 90)
    gained = rows["reward"].sum(1)  # 10 m count one
    assert gained[:4].min() > 2 * gained[4:].max()
    actor = whole.context.controllers["classical"]
    found = evaluate(actor, whole.make_eval_env, episodes=8, seed=1, deterministic=True).returns
    assert found[:4].min() > 2 * found[4:].max()  # The driver looks at the environment that is evaluated.
    stopped = quiet_run(tmp_path, "world_models_mini", *COLLECT, name="stopped")
    stop_after(stopped, 40)
    with resumed_run(RunFolder(stopped.run_folder.path), [], Console(quiet=True)) as resumed:
        resumed.run()
        again = resumed.context.buffers["replay"].gather(np.arange(8), resumed.context.buffers["replay"].oldest, 90)
        for name in ("action", "reward"):
            assert torch.equal(again[name], rows[name]), name
