"""Figures, probe, rtgym's setters, overruns and worlds that stay away, with the virtual clock."""

import threading

import numpy as np
import pytest
import torch

from paddock.buffers.uniform import UniformBuffer, UniformConfig
from paddock.core.errors import PaddockError
from paddock.environments.calls import EnvironmentAway
from paddock.environments.realtime.benchmark import FIGURES, summed_up
from paddock.environments.realtime.cart import Cart
from paddock.environments.realtime.clock import VirtualClock, WallClock
from paddock.environments.realtime.env import RealTimeVectorEnv
from paddock.environments.realtime.loop import LoopSettings, RealTimeLoop
from paddock.environments.realtime.probe import Probe
from paddock.environments.spaces import spec_of
from paddock.orchestration.realtime_benchmark import delays_yaml
from paddock.rollout.collector import Collector
from realtime_worlds import CountingInterface

STEP = 0.1


def made(interface, *, clock=None, exclude_overruns=False, **settings):
    values = {"time_step_duration": STEP, "start_obs_capture": STEP, **settings}
    loop = RealTimeLoop(lambda: interface, LoopSettings(**values), clock or VirtualClock(), "counting")
    return RealTimeVectorEnv(loop, exclude_overruns=exclude_overruns)


def played(env, steps=30, think=0.02):
    env.reset(seed=0)
    for _ in range(steps):
        env.clock.sleep(think)
        env.step(np.zeros((1, 1), np.float32))
    figures = summed_up(env.loop.durations, STEP)
    env.close()
    return figures


def test_benchmark_figures_of_a_fast_policy_fit_the_time_step():
    figures = played(made(CountingInterface(capture=0.004, send=0.001)))
    medians = {name: round(values["median"], 6) for name, values in figures.figures.items()}
    assert medians == {
        "time_step_duration": 0.1,
        "step_duration": 0.08,
        "join_duration": 0.08,
        "inference_duration": 0.02,
        "send_control_duration": 0.001,
        "get_obs_duration": 0.004,
    }
    assert figures.too_slow is None
    assert "Every part fits" in figures.sentence()


@pytest.mark.parametrize(
    ("durations", "think", "part"),
    [
        ({}, 0.25, "inference_duration"),
        ({"capture": 0.13}, 0.0, "get_obs_duration"),
        ({"send": 0.12}, 0.0, "send_control_duration"),
    ],
)
def test_benchmark_names_the_part_that_is_too_slow(durations, think, part):
    figures = played(made(CountingInterface(**durations)), think=think)
    assert figures.too_slow == part
    assert part in figures.sentence()


def test_benchmarks_of_the_environment_are_rtgyms_six_figures():
    env = made(CountingInterface())
    env.reset(seed=0)
    for _ in range(4):
        env.step(np.zeros((1, 1), np.float32))
    found = env.benchmarks()
    assert list(found) == list(FIGURES)
    assert found["time_step_duration"] == (pytest.approx(STEP), pytest.approx(0.0))
    env.close()


def test_rtgyms_setters_take_hold_after_the_running_time_step():
    env = made(CountingInterface())
    env.reset(seed=0)
    assert env.default_action.tolist() == [-1.0]
    env.set_default_action(np.array([7.0]))
    env.set_time_step_duration(0.2)
    env.set_start_obs_capture(0.15)
    env.set_ep_max_length(3)
    times = []
    for _ in range(3):
        *_, truncated, _ = env.step(np.zeros((1, 1), np.float32))
        times.append(env.clock.now() / 1e9)
    assert times == pytest.approx([0.1, 0.3, 0.5])
    assert truncated[0]
    env.step(np.zeros((1, 1), np.float32))
    env.clock.sleep(0.01)
    assert env.loop.interface.calls[-1][1:] == ("send", 7.0)
    env.close()


def test_probe_finds_the_delay_of_a_cart_that_reacts_at_once():
    loop = RealTimeLoop(Cart, LoopSettings(), VirtualClock(), "cart")
    found = Probe(loop).measure(5)
    assert found.action < 0.005
    assert (found.observation, found.jitter, found.drop) == (0.0, 0.0, 0.0)
    loop.close()


def test_probe_says_that_nothing_reacts():
    loop = RealTimeLoop(CountingInterface, LoopSettings(), VirtualClock(), "counting")
    loop.interface.get_obs_rew_terminated_info = lambda: ([np.zeros(1)], 0.0, False, {})
    with pytest.raises(PaddockError, match="--action"):
        Probe(loop).measure(3)
    loop.close()


def test_delays_become_an_experiment_with_an_action_buffer_that_is_long_enough():
    loop = RealTimeLoop(Cart, LoopSettings(), VirtualClock(), "cart")
    text = delays_yaml(Probe(loop).measure(3), 0.05, experiment="sac_realtime", base="sac_pendulum")
    assert "act_buf_len: 2" in text
    assert "sac_pendulum" in text
    loop.close()


class Zero:
    """An actor that does nothing, and takes its time where it is told to."""

    device = torch.device("cpu")

    def __init__(self, clock, slow_at=()):
        self.clock, self.slow_at, self.count = clock, slow_at, 0

    def act(self, observation, state, *, deterministic):
        self.count += 1
        self.clock.sleep(0.25 if self.count in self.slow_at else 0.01)
        return torch.zeros(1, 1), state

    def watch(self, environment):
        """Its actions depend on nothing."""

    def initial_state(self, count):
        return None

    def to_environment(self, action):
        return action.numpy()


@pytest.mark.parametrize("exclude", [False, True])
def test_overruns_are_excluded_from_learning_if_asked_for(exclude):
    env = made(CountingInterface(), exclude_overruns=exclude)
    spec = spec_of(env)
    buffer = UniformBuffer(UniformConfig(_target_="", capacity=64, batch_size=4, n_step=3, gamma=0.5), spec, 1)
    collector = Collector(env, spec, seed=0)
    result = collector.collect(Zero(env.clock, slow_at=(6,)), buffer, 12)
    # The sixth action was late: the time-step that the seventh call ends is the one that timed out.
    valid = buffer._arrays["valid"][:12, 0]
    assert valid.tolist() == [number != 6 or not exclude for number in range(12)]
    assert result.steps == 12 - exclude
    _, steps = buffer._look_ahead(np.arange(12), np.zeros(12, int))
    expected = [3, 3, 3, 3, 2, 1, 0, 3] if exclude else [3] * 8
    assert steps[:8].tolist() == expected, "no transition of several steps crosses it"
    env.close()


class Absent(CountingInterface):
    """Does not come back from a capture, and from the reset after it, until `back` is set."""

    def __init__(self):
        super().__init__()
        self.back = threading.Event()

    def get_obs_rew_terminated_info(self):
        if self.count == 2 and not self.back.is_set():
            self.back.wait(20.0)
        return super().get_obs_rew_terminated_info()


def test_a_collection_waits_for_a_world_that_stays_away_and_goes_on():
    interface = Absent()
    env = made(interface, clock=WallClock(), time_step_duration=0.01, start_obs_capture=0.01, stall_timeout=0.05,
               reset_timeout=0.1)  # fmt: skip
    interface.use_clock(env.clock)
    spec = spec_of(env)
    buffer = UniformBuffer(UniformConfig(_target_="", capacity=64, batch_size=4), spec, 1)
    collector, told = Collector(env, spec, seed=0), []

    def while_away(error):
        assert isinstance(error, EnvironmentAway)
        assert not error.is_back()
        told.append(str(error))
        interface.back.set()

    collector.while_away = while_away
    collector.collect(Zero(env.clock), buffer, 8)
    assert told
    assert "has not come back" in told[0]
    assert buffer.total >= 8
    env.close()


def test_without_somebody_who_waits_a_world_that_stays_away_is_an_error():
    interface = Absent()
    env = made(interface, clock=WallClock(), time_step_duration=0.01, start_obs_capture=0.01, stall_timeout=0.05,
               reset_timeout=0.1)  # fmt: skip
    env.reset(seed=0)
    with pytest.raises(EnvironmentAway, match="reset_timeout"):
        list(map(env.step, np.zeros((6, 1, 1), np.float32)))
    interface.back.set()
    env.close()
