"""The racing world in real time: the same transitions in virtual time, by the wall clock and in its own process."""

import json
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from paddock.config.compose import compose
from paddock.config.validate import validate
from paddock.core.errors import PaddockError
from paddock.environments.delays import ActionLine
from paddock.environments.realtime.clock import SECOND
from paddock.environments.realtime.probe import Probe
from paddock.environments.spaces import spec_of
from paddock.orchestration.schema import ExperimentConfig
from paddock.racing.env.config import racing_config
from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.laps.drive import PolicyDriver, drive_laps, with_evaluation_rules
from paddock.racing.realtime.client import ADDRESS, RemoteView, WorldError, connect
from paddock.racing.realtime.laps import RealTimeLapEvaluator, RealTimeLapEvaluatorConfig, drive_in_real_time
from paddock.racing.realtime.racing_realtime import make, realtime_config
from paddock.racing.realtime.timed_world import MOST_STEPS, TimedWorld

DELAYS = {"action": 0.1, "jitter": 0.02, "observation": 0.05, "drop": 0.1, "elastic": True}


def options(**changes):
    values = {"track": "oval", "observation": "course", "delays": DELAYS, "sensing": {"last_actions": 4}}
    return racing_config(**{**values, "max_episode_steps": None, **changes})


def transitions(env, steps):
    """Until the first episode's end."""
    seen, _ = env.reset(seed=3)
    step = getattr(env, "advance", env.step)
    rows = [np.concatenate([_flat(seen), [0.0, 0.0]])]
    for number in range(steps):
        action = np.array([[0.3 * np.sin(number / 3), 0.5]], np.float32)
        seen, reward, terminated, *_ = step(action)
        rows.append(np.concatenate([_flat(seen), reward, terminated]))
        if terminated[0]:
            break
    env.close()
    return np.array(rows)


def _flat(seen):
    return np.concatenate([part.ravel() for _, part in sorted(seen.items())]) if isinstance(seen, dict) else seen[0]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"delays": {"elastic": True}},
        {"observation": "full", "images": False, "flat": False},
        {"observation": "lidar", "sensing": {"last_actions": 0}},
        {"opponents": {"count": 1}},
    ],
)
def test_virtual_time_gives_the_transitions_of_racing_with_the_same_delays(changes):
    config = options(**changes)
    fast = transitions(RacingVectorEnv(1, config=config), 60)
    timed = transitions(make(realtime_config(config, clock="virtual"), 1), 60)
    np.testing.assert_array_equal(fast, timed)


SCRIPT = (0.0, 0.24, 0.08, 0.4, 0.12, 0.0, 0.28, 0.2, 0.16, 0.04)  # s that the action of each time-step takes


def test_wall_clock_and_virtual_time_give_equal_transitions_from_equal_seeds_and_scripted_delays(monkeypatch):
    """Arrivals lie in the middle of what counts as one substep of 40 ms: the machine may be late by 20 ms. It gets
    three attempts."""
    scripted = lambda line, seed, cars, episode, step: np.array([SCRIPT[int(np.ravel(step)[0])]])  # noqa: E731
    monkeypatch.setattr(ActionLine, "delay", scripted)
    config = options(control_rate=5.0, delays={"action": 0.4, "elastic": True}, start={"speed": (0.4, 0.4)})
    expected = transitions(RacingVectorEnv(1, config=config), 9)
    np.testing.assert_array_equal(transitions(make(realtime_config(config, clock="virtual"), 1), 9), expected)
    attempts = (transitions(make(realtime_config(config, process=False), 1), 9) for _ in range(3))
    assert any(np.array_equal(expected, found) for found in attempts)
    monkeypatch.setattr(ActionLine, "delay", lambda line, seed, cars, episode, step: np.array([0.0]))
    assert not np.array_equal(transitions(RacingVectorEnv(1, config=config), 9), expected), "the script matters"


def test_spaces_are_those_of_racing_and_no_world_is_started_for_them():
    for changes in ({}, {"observation": "full", "images": False, "flat": False}, {"action": "gas_brake_steer"}):
        config = options(**changes)
        env = make(realtime_config(config), 1)
        assert spec_of(env) == spec_of(RacingVectorEnv(1, config=config))
        assert env.reward_weights == RacingVectorEnv(1, config=config).reward_weights
        assert not env._inner.loop.interface.has_world
        env.close()


def test_a_world_in_a_process_goes_on_without_its_agent_and_can_be_watched(tmp_path):
    env = make(realtime_config(options()), 1)
    env.announce(tmp_path)
    env.reset(seed=1)
    view = env.view_of(tmp_path)
    assert isinstance(view, RemoteView)
    assert view.scene(0)["kind"] == "racing"
    env.step(np.array([[0.0, 1.0]], np.float32))
    env.step(np.array([[0.0, 1.0]], np.float32))
    time.sleep(0.6)  # The agent thinks; the world drives on under the last action.
    moving = [np.frombuffer(view.snapshot((0,))["cars"], "<f4") for _ in range(2) if time.sleep(0.1) is None]
    assert moving[1][3] > moving[0][3] > 0.5, "speed grows"
    env.step(np.array([[0.0, 1.0]], np.float32))
    *_, info = env.step(np.array([[0.0, 1.0]], np.float32))
    assert info["realtime"]["inference"][0] > 0.5
    assert info["realtime"]["timed_out"][0]
    assert info["world_steps"][0] > 10
    env.set_reward_weight("progress", 0.25)
    assert env.reward_weights["progress"] == 0.25
    process = env.world._process
    env.close()
    assert process.wait(5.0) == 0
    standing = np.frombuffer(view.snapshot(())["cars"], "<f4")
    assert np.isfinite(standing[:2]).all(), "a world that is gone shows a car that stands"
    view.close()


def test_a_world_process_that_dies_is_an_error_with_a_sentence_and_strangers_are_refused(tmp_path):
    env = make(realtime_config(options()), 1)
    env.reset(seed=1)
    stranger = connect({**env.world.address, "token": "wrong"}, role="agent")
    with pytest.raises(OSError, match=r"ended|reset"):
        stranger.receive()
    stranger.close()
    looking = connect(env.world.address, role="agent")
    looking.send({"do": "reset", "seed": 1})
    assert "only look" in looking.receive()["error"]
    looking.close()
    env.world._process.kill()
    with pytest.raises(WorldError, match="does not answer"):
        list(map(env.step, np.zeros((5, 1, 2), np.float32)))
    env.close()
    assert not (tmp_path / ADDRESS).exists()


def test_functions_of_a_persons_own_stay_in_the_agents_process():
    config = options(reward={"custom": {"mine": {"function": "mine.py:reward"}}})
    env = make(realtime_config(config), 1)
    with pytest.raises(PaddockError, match="process=false"):
        env.reset(seed=1)
    env.close()


def test_a_world_that_was_away_for_long_skips_what_it_missed():
    world = TimedWorld(options(reward={"progress": {"weight": 1.0}, "ends": {"no_progress_steps": None}}))
    world.env.reset(seed=1)
    world.begin(0)
    world.advance(60 * SECOND)
    assert world.steps == MOST_STEPS
    assert world.skipped == 60 * 20 - MOST_STEPS
    assert world.due() > 60 * SECOND
    world.advance(60 * SECOND + SECOND // 10)
    assert world.steps == MOST_STEPS + 2


class Straight:
    """Drives straight on, along the walls."""

    device = torch.device("cpu")

    def initial_state(self, count):
        return None

    def watch(self, env):
        """It needs nothing but observations."""

    def act(self, observation, state, *, deterministic):
        count = len(observation["observation"])
        return torch.tensor([[0.0, 0.4]] * count), state

    def to_environment(self, action):
        return action.numpy()


def test_laps_in_real_time_are_those_of_virtual_time():
    delays = {"action": 0.1, "observation": 0.05, "elastic": True}
    config = options(edge="wall", delays=delays, start={"lateral": 0.0, "heading": 0.0})
    timed, notes = drive_in_real_time(Straight(), realtime_config(config, clock="virtual"), starts=2, seed=1)
    env = RacingVectorEnv(2, config=with_evaluation_rules(config))
    fast = drive_laps(env, PolicyDriver(Straight(), 2, seed=1, deterministic=True), seed=1)
    assert fast.finished.all()
    assert all(note["timed_out"] == 0 < note["steps"] for note in notes)
    for name in ("lap_time", "reference", "sectors", "distance", "wheels_off", "returns", "start", "clean"):
        np.testing.assert_allclose(getattr(timed, name), getattr(fast, name), rtol=1e-6)
    alone, _ = drive_in_real_time(Straight(), realtime_config(config, clock="virtual"), starts=2, seed=1, only=1)
    assert alone.lap_time[0] == timed.lap_time[1]


def test_laps_of_a_realtime_run_are_evaluated_in_virtual_time_with_its_delays():
    evaluator = RealTimeLapEvaluator(
        RealTimeLapEvaluatorConfig(_target_="paddock.racing.realtime.laps.RealTimeLapEvaluator")
    )
    config = realtime_config(options(delays={"action": 0.1}))
    env = evaluator._environment(lambda count, _: make(config, count), 3)
    assert env.num_envs == 3
    assert (env.config.delays.action, env.config.delays.elastic) == (0.1, True)
    assert env.config.max_episode_steps is None


def test_the_experiment_learns_in_one_process_and_drives_in_another():
    config = validate(compose("racing_realtime").values, ExperimentConfig)
    assert type(config.experience).__name__ == "WorkersConfig"
    assert (config.experience.workers, config.experience.ahead_steps) == (4, None)
    fast = config.environment.in_virtual_time()
    assert fast.delays.elastic
    assert fast.num_envs == 64


def test_the_world_process_imports_no_torch():
    code = "import sys, paddock.racing.realtime.server; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_probe_recovers_the_delays_of_the_racing_world_within_a_frame():
    config = realtime_config(options(delays={"action": 0.1, "jitter": 0.02, "observation": 0.05}), clock="virtual")
    env = make(config, 1)
    found = Probe(env._inner.loop, seed=1).measure(15, env._inner.loop.interface.probe_options)
    env.close()
    assert found.frame == pytest.approx(0.05, abs=0.003)
    assert found.action == pytest.approx(0.11, abs=0.025)
    assert found.observation == pytest.approx(0.05, abs=0.01)
    assert found.jitter < 0.04
    assert found.drop == 0.0


def test_benchmark_realtime_prints_figures_and_writes_delays_that_training_reads(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from paddock.cli.benchmark_realtime import app

    monkeypatch.chdir(tmp_path)
    virtual = ["racing_realtime", "environment.clock=virtual", "environment.track=oval"]
    shown = CliRunner().invoke(app, [*virtual, "--steps", "12", "--json"], catch_exceptions=False)
    figures = json.loads(shown.stdout)
    assert figures["figures"]["time_step_duration"]["median"] == pytest.approx(0.05)
    assert figures["too_slow"] is None
    probed = [*virtual, "environment.delays.action=0.1", "--probe", "--trials", "4", "--write", "delays.yaml"]
    assert CliRunner().invoke(app, probed, catch_exceptions=False).exit_code == 0
    read = validate(compose(user=tmp_path / "delays.yaml").values, ExperimentConfig).environment
    assert read.delays.action == pytest.approx(0.12, abs=0.04)
    assert read.delays.elastic
    assert read.sensing.last_actions >= 4
    with pytest.raises(PaddockError, match="does not run in real time"):
        CliRunner().invoke(app, ["ppo_cartpole", "--steps", "2"], catch_exceptions=False)
