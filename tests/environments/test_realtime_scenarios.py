"""The real-time loop in virtual time, to the nanosecond: the scenarios that were measured with rtgym 0.16."""

import numpy as np
import pytest

from paddock.environments.realtime.clock import SECOND, VirtualClock
from paddock.environments.realtime.loop import LoopSettings, RealTimeLoop
from realtime_worlds import CountingInterface


@pytest.fixture
def start():
    """A realtime loop with time-steps of 100 ms; closed at the end."""
    loops = []

    def make(world=None, **settings):
        made = world or CountingInterface()
        options = {"time_step_duration": 0.1, "start_obs_capture": 0.1, **settings}
        loops.append(RealTimeLoop(lambda: made, LoopSettings(**options), VirtualClock(), "counting"))
        return loops[-1]

    yield make
    for loop in loops:
        loop.close()


def numbers(observation):
    return [float(entry[0]) for entry in observation]


def now(loop):
    return loop.clock.now() / SECOND


def drive(loop, actions, think=0.02):
    """[(time, observation, reward, terminated, truncated, timing)] of the steps; think: s before each, or all alike."""
    thoughts = think if isinstance(think, list) else [think] * len(actions)
    found = []
    for action, seconds in zip(actions, thoughts, strict=True):
        loop.clock.sleep(seconds)
        observation, reward, terminated, truncated, _, timing = loop.step(np.array([action], np.float32))
        found.append((now(loop), numbers(observation), reward, terminated, truncated, timing))
    return found


def settle(loop):
    """Let the thread do what it does at this moment of virtual time."""
    loop.clock.sleep(1e-6)


def column(found, index):
    return [row[index] for row in found]


def test_realtime_scenario_a_action_buffer_and_grid(start):
    loop = start(act_buf_len=3)
    assert numbers(loop.reset()[0]) == [0, -1, -1, -1]
    assert now(loop) == 0.0
    found = drive(loop, [1, 2, 3])
    assert column(found, 0) == [0.1, 0.2, 0.3]
    assert column(found, 1) == [[1, -1, -1, 1], [2, -1, 1, 2], [3, 1, 2, 3]]
    assert column(found, 2) == [1, 2, 3]
    calls = loop.interface.calls
    assert [call for call in calls if call[1] == "send"][:3] == [(0.0, "send", -1), (0.1, "send", 1), (0.2, "send", 2)]
    assert loop.interface.times("capture")[:3] == [0.1, 0.2, 0.3]


def test_realtime_scenario_b_early_capture(start):
    loop = start(act_buf_len=2, start_obs_capture=0.08)
    loop.reset()
    found = drive(loop, [1, 2, 3])
    assert column(found, 0) == [0.1, 0.2, 0.3]
    assert loop.interface.times("capture")[:3] == [0.08, 0.18, 0.28]
    assert [row[5].observation_age for row in found] == [0.02, 0.02, 0.02]


def test_realtime_scenario_c_a_late_step_is_paid_back(start):
    loop = start()
    loop.reset()
    found = drive(loop, [1, 2, 3, 4], think=[0.02, 0.15, 0.02, 0.02])
    assert column(found, 0) == [0.1, 0.25, 0.3, 0.4]
    assert loop.interface.times("send")[1:4] == [0.1, 0.25, 0.3]
    assert loop.interface.times("capture")[:3] == [0.1, 0.2, 0.3]
    assert [row[5].late_by for row in found] == [0, 0, 0.05, 0]
    assert [row[5].inference for row in found] == [0, 0.02, 0.15, 0.02]
    assert not any(row[5].timed_out for row in found)


def test_realtime_scenario_d_the_grid_begins_anew(start):
    loop = start()
    loop.reset()
    found = drive(loop, [1, 2, 3, 4], think=[0.02, 0.25, 0.02, 0.02])
    assert column(found, 0) == [0.1, 0.35, 0.45, 0.55]
    assert [row[5].timed_out for row in found] == [False, False, True, False]
    assert [row[5].late_by for row in found] == [0, 0, 0.15, 0]


def test_realtime_lateness_of_exactly_the_tolerance_times_out(start):
    for think, is_timed_out in ((0.2, True), (0.199999, False)):
        loop = start()
        loop.reset()
        assert drive(loop, [1, 2, 3], think=[0.0, think, 0.0])[2][5].timed_out == is_timed_out


def test_realtime_scenario_e_slow_captures_stay_on_the_grid(start):
    loop = start(CountingInterface(capture=0.06))
    loop.reset()
    found = drive(loop, list(range(1, 21)))
    assert column(found, 0) == [round(0.1 * step + 0.06, 6) for step in range(1, 21)]
    assert loop.interface.times("capture")[:20] == [round(0.1 * step, 6) for step in range(1, 21)]
    assert loop.interface.times("send")[1:20] == column(found, 0)[:19]
    assert not any(row[5].timed_out for row in found)
    assert {row[5].capture for row in found} == {0.06}
    assert [row[5].late_by for row in found[1:]] == [0.06] * 19


def test_realtime_scenario_f_the_last_action_is_never_sent(start):
    loop = start(CountingInterface(terminate_at=2), act_buf_len=3)
    loop.reset()
    found = drive(loop, [1, 2])
    assert found[1][1:5] == ([2, -1, 1, 2], 2, True, False)
    assert numbers(loop.reset()[0]) == [0, -1, -1, -1]
    drive(loop, [3])
    settle(loop)
    assert loop.interface.values("send") == [-1, 1, -1, 3]


@pytest.mark.parametrize(
    ("last_act_on_reset", "first", "then"),
    [(False, [0, -1, 1, -1], [1, 1, -1, 3]), (True, [0, -1, 1, 2], [1, 1, 2, 3])],
    ids=["g", "h"],
)
def test_realtime_scenarios_g_and_h_a_buffer_that_is_kept(start, last_act_on_reset, first, then):
    world = CountingInterface(terminate_at=2)
    loop = start(world, act_buf_len=3, reset_act_buf=False, last_act_on_reset=last_act_on_reset)
    loop.reset()
    drive(loop, [1, 2])
    assert numbers(loop.reset()[0]) == first
    assert drive(loop, [3])[0][1] == then
    settle(loop)
    assert loop.interface.values("send") == [-1, 1, first[-1], 3]


def test_realtime_last_act_on_reset_has_no_effect_where_the_buffer_is_filled(start):
    loop = start(CountingInterface(terminate_at=2), act_buf_len=3, last_act_on_reset=True)
    loop.reset()
    drive(loop, [1, 2])
    assert numbers(loop.reset()[0]) == [0, -1, -1, -1]


@pytest.mark.parametrize("wait_on_done", [True, False], ids=["i", "j"])
def test_realtime_scenarios_i_and_j_a_slow_reset(start, wait_on_done):
    loop = start(CountingInterface(reset=0.3), ep_max_length=2, wait_on_done=wait_on_done)
    loop.reset()
    found = drive(loop, [1, 2])
    assert (found[1][3], found[1][4]) == (False, True)
    ended = now(loop)
    loop.reset()
    settle(loop)
    tail = ["capture", "wait", "reset", "send"] if wait_on_done else ["capture", "reset", "send"]
    assert [call[1] for call in loop.interface.calls][-len(tail) :] == tail
    assert loop.interface.times("send")[2] == pytest.approx(ended + 0.3, abs=1e-9)
    again = drive(loop, [3], think=0.01)
    assert again[0][0] == pytest.approx(ended + 0.4, abs=1e-9)
    assert again[0][5].timed_out is not wait_on_done
    assert again[0][5].late_by == 0.3


def test_realtime_waiting_excuses_only_the_next_time_step(start):
    loop = start(CountingInterface(terminate_at=2), wait_on_done=True)
    loop.reset()
    drive(loop, [1, 2])
    loop.reset()  # at once, so that there is nothing to excuse
    found = drive(loop, [3], think=0.0)
    assert not found[0][5].timed_out
    loop.interface.terminate_at = None
    assert drive(loop, [4, 5], think=[0.25, 0.0])[1][5].timed_out


def test_realtime_scenario_k_terminated_goes_before_truncated(start):
    loop = start(CountingInterface(terminate_at=2), ep_max_length=2)
    loop.reset()
    assert drive(loop, [1, 2])[1][3:5] == (True, False)


@pytest.mark.parametrize("settings", [{"act_in_obs": False}, {"act_buf_len": 0}], ids=["l", "no_buffer"])
def test_realtime_scenario_l_observations_without_actions(start, settings):
    loop = start(CountingInterface(terminate_at=3), **settings)
    assert numbers(loop.reset()[0]) == [0]
    assert column(drive(loop, [1, 2, 3]), 1) == [[1], [2], [3]]
    loop.reset()
    settle(loop)
    assert loop.interface.values("send")[:4] == [-1, 1, 2, -1]


def test_realtime_scenario_m_a_step_needs_a_reset(start):
    loop = start(CountingInterface(terminate_at=1))
    with pytest.raises(RuntimeError, match="without a reset"):
        loop.step(np.zeros(1))
    loop.reset()
    drive(loop, [1])
    with pytest.raises(RuntimeError, match="without a reset"):
        loop.step(np.zeros(1))


def test_realtime_scenario_q_obs_prepro_func_gets_actions_at_a_reset_only(start):
    sizes = []

    def doubled(entries):
        sizes.append(len(entries))
        return (entries[0] * 2, *entries[1:])

    loop = start(act_buf_len=2, obs_prepro_func=doubled, act_prepro_func=lambda action: action * 10)
    loop.reset()
    assert column(drive(loop, [1, 2]), 1) == [[2, -1, 1], [4, 1, 2]]
    settle(loop)
    assert sizes[:3] == [3, 1, 1]
    assert loop.interface.values("send")[:3] == [-10, 10, 20]


def test_realtime_actions_are_copied(start):
    loop = start(act_buf_len=2)
    loop.reset()
    action = np.array([1.0], np.float32)
    loop.step(action)
    action[0] = 2.0
    observation = loop.step(action)[0]
    action[0] = 3.0
    assert numbers(observation) == [2, 1, 2]


def test_realtime_observations_are_copied(start):
    world = CountingInterface()
    picture = np.zeros(1, np.float32)
    capture = world.get_obs_rew_terminated_info

    def overwrites():
        (seen,), *others = capture()
        picture[:] = seen
        return [picture], *others

    world.get_obs_rew_terminated_info = overwrites
    loop = start(world, act_buf_len=0, start_obs_capture=0.0)
    loop.reset()
    kept = [loop.step(np.zeros(1))[0] for _ in range(4)]
    assert [numbers(observation) for observation in kept] == [[1], [2], [3], [4]]


def test_realtime_a_slow_send_is_measured_and_shifts_the_time_step(start):
    loop = start(CountingInterface(send=0.03))
    loop.reset()
    found = drive(loop, [1, 2, 3])
    assert column(found, 0) == [0.13, 0.23, 0.33]  # the first grid begins once the first control has been sent
    assert [row[5].send for row in found] == [0.03] * 3
    assert [row[5].late_by for row in found] == [0, 0.03, 0.03]


def test_virtual_time_is_exact_over_many_steps(start):
    loop = start(time_step_duration=0.033333, start_obs_capture=0.02)
    loop.reset()
    found = drive(loop, [0] * 2_000, think=0.01)
    assert loop.clock.now() == 2_000 * 33_333_000
    assert not any(row[5].late_by for row in found)


@pytest.mark.parametrize(
    "options",
    [
        {"act_buf_len": 3},
        {"act_buf_len": 3, "reset_act_buf": False},
        {"act_buf_len": 3, "reset_act_buf": False, "last_act_on_reset": True},
        {"act_buf_len": 1, "ep_max_length": 3, "wait_on_done": True, "start_obs_capture": 0.02},
        {"act_in_obs": False, "ep_max_length": 5},
    ],
    ids=lambda options: "-".join(options),
)
def test_realtime_equals_rtgym_where_it_is_installed(options):
    rtgym = pytest.importorskip("rtgym")
    import gymnasium

    from paddock.environments.realtime.clock import WallClock

    settings = {"time_step_duration": 0.05, "start_obs_capture": 0.05, "ep_max_length": 100, **options}
    interface = type("Counting", (CountingInterface, rtgym.RealTimeGymInterface), {})
    world = {"interface": interface, "interface_kwargs": {"terminate_at": 5}}
    config = {**rtgym.DEFAULT_CONFIG_DICT, **settings, **world}
    theirs = gymnasium.make("real-time-gym-v1", disable_env_checker=True, config=config)
    ours = RealTimeLoop(lambda: CountingInterface(terminate_at=5), LoopSettings(**settings), WallClock(), "counting")
    for episode in range(3):
        assert numbers(theirs.reset()[0]) == numbers(ours.reset()[0])
        for number in range(5):
            action = np.array([10 * episode + number], np.float32)
            one, other = theirs.step(action), ours.step(action)
            assert numbers(one[0]) == numbers(other[0])
            assert tuple(one[1:4]) == tuple(other[1:4])
            if other[2] or other[3]:
                break
    sent = theirs.unwrapped.interface.values("send"), ours.interface.values("send")
    assert sent[0] == sent[1]
    ours.close()
