"""Real-time environments as the rest of the lab sees them: parts, next-step autoreset, failures, timing, threads."""

import threading
import time
from functools import partial

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from pydantic import ValidationError

from paddock.buffers.uniform import UniformBuffer
from paddock.config.schema import instantiate, validate_target
from paddock.core.errors import InputError
from paddock.core.trust import PLUGINS_VARIABLE, dangers
from paddock.environments import calls
from paddock.environments.base import SingleCopyError
from paddock.environments.calls import EnvironmentFailure
from paddock.environments.realtime.clock import SECOND, VirtualClock, WallClock
from paddock.environments.realtime.env import RealTimeVectorEnv
from paddock.environments.realtime.interface import InterfaceError
from paddock.environments.realtime.loop import LoopSettings, RealTimeLoop
from paddock.environments.spaces import spec_of
from paddock.evaluation.evaluator import evaluate
from paddock.rollout.actor import RandomActor
from paddock.rollout.collector import Collector
from realtime_worlds import CountingInterface

CART = "paddock.environments.realtime.cart:Cart"
TARGET = "paddock.environments.realtime.env.make"


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("realtime")]


@pytest.fixture
def wrap():
    """A realtime environment around an interface, in virtual time unless a clock is given."""
    made = []

    def make(interface, clock=None, names=None, **settings):
        options = {"time_step_duration": 0.1, "start_obs_capture": 0.1, **settings}
        loop = RealTimeLoop(lambda: interface, LoopSettings(**options), clock or VirtualClock(), "counting")
        made.append(RealTimeVectorEnv(loop, names=names))
        return made[-1]

    yield make
    for env in made:
        env.close()
    assert not threads()


def make_cart(**options):
    config = validate_target({"_target_": TARGET, "interface": CART, "clock": "virtual", **options})
    return instantiate(config, 1)


def act(env, *values):
    return [env.step(np.array([[value]], np.float32)) for value in values]


class Camera(CountingInterface):
    """Two entries, one of them a picture of bytes."""

    def get_observation_space(self):
        return spaces.Tuple([spaces.Box(0, 10, (1,), np.float32), spaces.Box(0, 255, (4, 6, 3), np.uint8)])

    def reset(self, seed=None, options=None):
        return [0.5, np.zeros((4, 6, 3))], {"lap": 1}

    def get_obs_rew_terminated_info(self):
        return [1.5, np.full((4, 6, 3), 7)], 1.0, False, {"lap": 2, "place": "road"}


# --- observations ---


def test_realtime_observations_are_named_parts(wrap):
    env = wrap(Camera(), act_buf_len=3)
    assert list(spec_of(env).observation) == ["last_actions", "part_0", "part_1"]
    observation, info = env.reset(seed=1)
    assert observation["part_0"].tolist() == [[0.5]]
    assert observation["last_actions"].tolist() == [[-1, -1, -1]]
    assert info["lap"].tolist() == [1]
    observation, *_, info = act(env, 5)[0]
    assert observation["part_1"].dtype == np.uint8
    assert observation["part_1"].shape == (1, 4, 6, 3)
    assert observation["last_actions"].tolist() == [[-1, -1, 5]]
    assert all(env.observation_space[name].contains(array) for name, array in observation.items())
    assert (info["lap"].tolist(), info["place"].tolist()) == ([2], ["road"])


def test_realtime_observation_names_come_from_the_options_or_the_interface(wrap):
    named = type("Named", (Camera,), {"observation_names": ("speed", "images")})
    assert list(spec_of(wrap(named(), act_buf_len=0)).observation) == ["images", "speed"]
    assert list(spec_of(wrap(named(), names=["v", "eye"], act_in_obs=False)).observation) == ["eye", "v"]
    for wrong in (["speed"], ["speed", "speed"], ["speed", "last_actions"]):
        with pytest.raises(InputError, match="observation_names"):
            wrap(Camera(), names=wrong)


def test_realtime_interface_that_does_not_fit_its_spaces_is_named(wrap):
    world = Camera()
    world.get_obs_rew_terminated_info = lambda: ([1.5, np.zeros((2, 2))], 0.0, False, {})
    env = wrap(world)
    env.reset()
    with pytest.raises(InterfaceError, match=r"'part_1' with the shape \(2, 2\)"):
        act(env, 1)
    with pytest.raises(InputError, match="Tuple of Boxes"):
        wrap(type("Flat", (Camera,), {"get_observation_space": lambda self: spaces.Discrete(3)})())
    with pytest.raises(InputError, match="has no send_control"):
        wrap(type("Mute", (Camera,), {"send_control": None})())


# --- ends ---


def test_realtime_next_step_autoreset(wrap):
    world = CountingInterface(terminate_at=2, reset=3.0)
    env = wrap(world)
    assert env.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    env.reset(seed=4)
    first, second, third, fourth = act(env, 1, 2, 3, 4)
    assert [step[2].tolist() for step in (first, second, third, fourth)] == [[False], [True], [False], [False]]
    assert third[0]["part_0"].tolist() == [[0]]
    assert third[1].tolist() == [0.0]
    assert fourth[0]["part_0"].tolist() == [[1]]
    assert world.values("reset") == [4, None]
    assert world.values("send")[:3] == [-1, 1, -1], "neither the last action of an episode nor the reset's is sent"


def test_realtime_no_transition_crosses_a_reset(wrap):
    env = wrap(CountingInterface(terminate_at=3), act_buf_len=0)
    spec = spec_of(env)
    collector = Collector(env, spec, seed=1)
    rows = []

    class Sink:
        def add(self, transition):
            seen = transition["observation"]["part_0"][0, 0], transition["next_observation"]["part_0"][0, 0]
            rows.append((*map(int, seen), bool(transition["valid"][0]), bool(transition["terminated"][0])))

    actor = RandomActor(validate_target({"_target_": "paddock.rollout.actor.RandomActor"}), {}, spec)
    result = collector.collect(actor, Sink(), 8)
    assert [row[:2] for row in rows if row[2]] == [(0, 1), (1, 2), (2, 3)] * 2
    assert (result.steps, result.episodes) == (6, 2)
    assert result.metrics["collect/length"] == 3

    saved = collector.get_state()
    assert "env" not in saved
    again = Collector(env, spec, seed=1)
    again.set_state(saved, agent_steps=6)
    assert again.begins_episodes, "a resumed run begins an episode"


# --- failures ---


@pytest.mark.parametrize("error", [ConnectionError("no packets"), SystemExit(3), KeyError("x")], ids=repr)
def test_realtime_exception_of_a_sensor_is_raised_from_step(wrap, error):
    env = wrap(CountingInterface(raise_at=2, error=error))
    env.reset()
    act(env, 1)
    began = env.clock.now()
    with pytest.raises(type(error)) as raised:
        act(env, 2)
    assert raised.value is error
    assert (env.clock.now() - began) / SECOND <= 0.1
    assert act(env, 3)[0][0]["part_0"].tolist() == [[0]], "the step after it resets"


def test_realtime_exception_is_explained_with_its_place(wrap):
    env = wrap(CountingInterface(raise_at=1))
    env.reset()
    with pytest.raises(EnvironmentFailure, match=r"'counting' raised ConnectionError: no packets in step \(.*worlds"):
        calls.step(env, np.zeros((1, 1), np.float32))


@pytest.mark.parametrize("method", ["reset", "send_control", "wait", "get_default_action"])
def test_realtime_exception_of_any_method_is_raised(method):
    def fails(*_, **__):
        raise OSError(f"{method} failed")

    world = CountingInterface(terminate_at=1)
    setattr(world, method, fails)

    def play():
        loop = RealTimeLoop(lambda: world, LoopSettings(wait_on_done=True), VirtualClock())
        try:
            loop.reset()
            loop.step(np.zeros(1))
        finally:
            loop.close()

    with pytest.raises(OSError, match=f"{method} failed"):
        play()
    assert not threads()


def test_realtime_1000_exceptions_never_hang(wrap):
    env = wrap(CountingInterface(raise_at=1), WallClock(), time_step_duration=0.0001, start_obs_capture=0.0)
    raised = 0
    for _ in range(1_000):
        env.reset()
        try:
            act(env, 1)
        except ConnectionError:
            raised += 1
    assert raised == 1_000


def test_realtime_stall_truncates_with_a_reason(wrap):
    world = CountingInterface(slow_at=2, slow=20.0)
    env = wrap(world, stall_timeout=2.0)
    env.reset()
    act(env, 1)
    began = env.clock.now()
    observation, reward, terminated, truncated, info = act(env, 2)[0]
    assert (env.clock.now() - began) / SECOND == pytest.approx(2.1)
    assert (terminated.tolist(), truncated.tolist(), reward.tolist()) == ([False], [True], [0.0])
    assert info["realtime"]["reason"].tolist() == ["stall"]
    assert observation["part_0"].tolist() == [[1]], "what was seen last"
    assert info["final_info"]["realtime"]["stalls"].tolist() == [1]
    assert act(env, 3)[0][0]["part_0"].tolist() == [[0]], "the reset waits until the world is back"
    assert env.clock.now() / SECOND >= 20.0
    assert act(env, 4)[0][0]["part_0"].tolist() == [[1]]


def test_realtime_stall_of_a_sensor_that_blocks_on_the_wall_clock(wrap):
    is_back = threading.Event()
    world = CountingInterface()
    capture = world.get_obs_rew_terminated_info

    def blocked():
        is_back.wait(10.0)
        return capture()

    world.get_obs_rew_terminated_info = blocked
    env = wrap(world, WallClock(), time_step_duration=0.02, start_obs_capture=0.02, stall_timeout=0.1)
    env.reset()
    began = time.perf_counter()
    truncated, info = act(env, 1)[0][3:]
    assert time.perf_counter() - began < 2.0
    assert (truncated.tolist(), info["realtime"]["reason"].tolist()) == ([True], ["stall"])
    is_back.set()
    assert act(env, 2)[0][0]["part_0"].tolist() == [[0]]
    assert act(env, 3)[0][0]["part_0"].tolist() == [[1]]


def test_realtime_world_that_stays_away_is_an_error_that_says_where(wrap):
    env = wrap(CountingInterface(slow_at=1, slow=500.0), stall_timeout=1.0, reset_timeout=10.0)
    env.reset()
    act(env, 1)
    with pytest.raises(InterfaceError, match=r"has not come back from get_obs_rew_terminated_info for 10 s"):
        act(env, 2)
    env.clock.sleep(500.0)
    assert act(env, 3)[0][0]["part_0"].tolist() == [[0]], "it came back"


# --- timing ---


def test_realtime_timing_is_data(wrap):
    env = wrap(CountingInterface(capture=0.01, send=0.002), ep_max_length=5)
    env.reset()
    steps = []
    for think in (0.02, 0.15, 0.02, 0.25, 0.02):
        env.clock.sleep(think)
        steps += act(env, 1)
    timing = [step[4]["realtime"] for step in steps]
    assert set(timing[0]) == {"late_by", "timed_out", "inference", "capture", "send", "observation_age", "reason"}
    assert [one["timed_out"].item() for one in timing] == [False, False, False, False, True]
    assert timing[2]["inference"].item() == pytest.approx(0.15)
    assert timing[2]["late_by"].item() == pytest.approx(0.062)  # capture and send included
    assert timing[4]["inference"].item() == pytest.approx(0.25)
    final = steps[-1][4]["final_info"]["realtime"]
    assert final["timed_out"].tolist() == [1]
    assert final["late_by_max"].item() == pytest.approx(timing[4]["late_by"].item())
    assert final["inference"].item() == pytest.approx((0.02 + 0.15 + 0.02 + 0.25) / 4)
    assert final["capture_max"].item() == pytest.approx(0.01)
    assert not any("final_info" in step[4] for step in steps[:-1])


def test_realtime_timing_becomes_metrics(wrap):
    env = wrap(CountingInterface(reset=4.0), ep_max_length=3)
    spec = spec_of(env)
    env_clock = env.clock

    class Slow(RandomActor):
        thoughts = iter([0.0, 0.25, 0.0] + [0.0] * 50)

        def act(self, observation, state, *, deterministic=False):
            env_clock.sleep(next(self.thoughts))
            return super().act(observation, state, deterministic=deterministic)

    torch.manual_seed(0)
    actor = Slow(validate_target({"_target_": "paddock.rollout.actor.RandomActor"}), {}, spec)
    config = {"_target_": "paddock.buffers.uniform.UniformBuffer", "capacity": 64, "batch_size": 4}
    buffer = UniformBuffer(validate_target(config), spec, 1)
    metrics = Collector(env, spec, seed=1).collect(actor, buffer, 8).metrics
    assert metrics["collect/realtime/timed_out"] == 0.5, "one in two episodes; slow resets are none of the agent's"
    assert metrics["collect/realtime/late_by_max"] == pytest.approx(0.15 / 2)
    assert metrics["collect/realtime/stalls"] == 0


def test_realtime_wall_clock_keeps_the_grid(wrap):
    env = wrap(CountingInterface(), WallClock(), time_step_duration=0.02, start_obs_capture=0.02)
    env.reset()
    began = time.perf_counter()
    timing = [step[4]["realtime"] for step in act(env, *range(50))]
    assert 0.99 < time.perf_counter() - began < 2.0  # a busy machine may time steps out
    assert np.median([one["late_by"] for one in timing]) < 0.01


def test_realtime_virtual_and_wall_clock_give_equal_transitions(wrap):
    def transitions(clock):
        env = wrap(CountingInterface(terminate_at=4), clock, time_step_duration=0.03, start_obs_capture=0.02)
        found = [env.reset(seed=2)[0]]
        for number in range(10):
            env.clock.sleep(0.01 if number % 3 else 0.04)
            observation, reward, terminated, truncated, _ = act(env, number)[0]
            found.append((observation, reward.tolist(), terminated.tolist(), truncated.tolist()))
        return str(found)

    assert transitions(VirtualClock()) == transitions(WallClock())


# --- threads ---


@pytest.mark.parametrize("clock", ["wall", "virtual"])
def test_realtime_1000_make_and_close_leave_no_thread(clock):
    before = threading.active_count()
    for number in range(1_000):
        env = make_cart(clock=clock)
        if number % 10 == 0:
            env.reset(seed=number)  # A time-step is under way.
        env.close()
    assert threading.active_count() == before


def test_realtime_close_ends_a_long_time_step_at_once(wrap):
    env = wrap(CountingInterface(), WallClock(), time_step_duration=100.0, start_obs_capture=100.0)
    env.reset()
    began = time.perf_counter()
    env.close()
    assert time.perf_counter() - began < 2.0
    with pytest.raises(RuntimeError, match="closed"):
        env.loop.reset()


def test_realtime_environment_that_is_dropped_ends_its_thread():
    env = make_cart()
    env.reset()
    act(env, 0)
    del env
    deadline = time.monotonic() + 5.0
    while threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not threads()


def test_virtual_clock_says_when_all_wait_for_each_other():
    with pytest.raises(RuntimeError, match="cannot go on"):
        VirtualClock().wait_for(lambda: False)


# --- options ---


def test_realtime_takes_the_keys_of_rtgym():
    pasted = {
        "interface": {"_target_": CART.replace(":", ".")},
        "interface_args": (),
        "interface_kwargs": {},
        "time_step_duration": 0.05,
        "start_obs_capture": 0.05,
        "time_step_timeout_factor": 1.0,
        "ep_max_length": np.inf,
        "act_in_obs": True,
        "act_buf_len": 2,
        "reset_act_buf": True,
        "benchmark": True,
        "benchmark_polyak": 0.1,
        "benchmark_type": "polyak",
        "wait_on_done": True,
        "last_act_on_reset": False,
    }
    config = validate_target({"_target_": TARGET, **pasted})
    assert (config.interface, config.ep_max_length, config.act_buf_len) == (CART, None, 2)
    assert validate_target(config.to_dict()) == config
    with pytest.raises(ValidationError, match="act_buffer"):
        validate_target({"_target_": TARGET, "interface": CART, "act_buffer": 2})
    with pytest.raises(ValidationError, match="module:Class"):
        validate_target({"_target_": TARGET, "interface": "robot"})


def test_realtime_interface_follows_the_rule_of_plugins(tmp_path, monkeypatch):
    (tmp_path / "my_rail.py").write_text("from paddock.environments.realtime.cart import Cart as Interface\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="--plugin"):
        make_cart(interface="my_rail:Interface")
    monkeypatch.setenv(PLUGINS_VARIABLE, "my_rail")
    make_cart(interface="my_rail:Interface").close()


def test_realtime_interface_in_a_saved_file_is_a_danger_unless_it_is_our_own():
    assert not dangers({"environment": validate_target({"_target_": TARGET, "interface": CART}).to_dict()})
    for named in ("evil:Interface", "evil.sub.Interface", "paddock_evil:Interface"):
        saved = validate_target({"_target_": TARGET, "interface": named}).to_dict()
        (danger,) = dangers({"environment": saved})
        assert (danger.key, danger.package) == ("environment.interface", named.split(":")[0].split(".")[0])


def test_realtime_environment_is_one_copy():
    config = validate_target({"_target_": TARGET, "interface": CART})
    with pytest.raises(SingleCopyError, match="there once, and 4 copies"):
        instantiate(config, 4)
    with pytest.raises(ValidationError, match="num_envs"):
        validate_target({"_target_": TARGET, "interface": CART, "num_envs": 2})


def test_realtime_render_is_the_interfaces(wrap):
    config = validate_target({"_target_": TARGET, "interface": CART})
    with pytest.raises(InputError, match=r"Cart' draws no pictures"):
        instantiate(config, 1, "rgb_array")
    assert not threads()
    drawing = type("Drawing", (Camera,), {"render": lambda self: np.ones((4, 6, 3), np.uint8)})
    env = wrap(drawing())
    assert env.metadata["render_modes"] == ["rgb_array"]
    assert env.render()[0].shape == (4, 6, 3)


def test_realtime_evaluation_takes_its_episodes_one_after_another():
    config = validate_target({"_target_": TARGET, "interface": CART, "clock": "virtual", "ep_max_length": 20})
    env = instantiate(config, 1)
    actor = RandomActor(validate_target({"_target_": "paddock.rollout.actor.RandomActor"}), {}, spec_of(env))
    env.close()
    made = partial(instantiate, config)
    found = evaluate(actor, made, episodes=3, seed=1, deterministic=True)
    assert found.lengths.tolist() == [20, 20, 20]
    assert len(set(found.returns.tolist())) == 3
    assert not threads()


def test_cart_rolls_on_while_the_agent_thinks():
    env = make_cart(act_buf_len=0)
    start, _ = env.reset(seed=1)
    act(env, 1)
    env.clock.sleep(0.5)
    late = act(env, 0)[0][0]  # captured on the grid, before the agent came back
    after = act(env, 0)[0][0]
    assert late["velocity"] == pytest.approx(4.0 * 0.05, rel=0.1)
    assert after["velocity"] == pytest.approx(4.0 * 0.5, rel=0.2)
    assert after["position"] > start["position"] + 0.3
    env.close()
    again, other = make_cart(), make_cart()
    assert np.array_equal(again.reset(seed=1)[0]["mark"], start["mark"])
    assert not np.array_equal(other.reset(seed=2)[0]["mark"], start["mark"])
    again.close()
    other.close()
