"""Delays of the racing world in virtual time: batched, in seconds, exact."""

import numpy as np
import pytest

from paddock.core.errors import PaddockError
from paddock.racing.env.vector import RacingVectorEnv

FLYING = {"place": "flying", "speed": (0.2, 0.2), "lateral": 0.0, "heading": 0.0}
DELAYS = {"action": 0.06, "jitter": 0.05, "observation": 0.05, "observation_jitter": 0.05, "drop": 0.1, "elastic": True}


def made(count=4, **options):
    return RacingVectorEnv(count, **{"track": "oval", "observation": "course", "start": FLYING, **options})


def drive(env, steps, seed=0):
    random, seen = np.random.default_rng(seed), []
    for _ in range(steps):
        action = random.uniform(-0.3, 0.3, (env.num_envs, 2)).astype(np.float32) + np.float32([0.0, 0.5])
        observation, reward, terminated, truncated, _ = env.step(action)
        seen.append(np.concatenate([observation, reward[:, None], terminated[:, None], truncated[:, None]], axis=1))
    return np.array(seen)


def steered(env, steps):
    """What reached the first car at the end of each step, if step k decides k tenths."""
    env.reset(seed=1)
    found = []
    for number in range(1, steps + 1):
        env.step(np.full((env.num_envs, 2), [0.1 * number, 0.0], np.float32))
        found.append(round(10 * float(env.world.applied_steer[0])))
    return found


@pytest.mark.parametrize(
    ("delays", "expected"),
    [
        ({}, [1, 2, 3, 4, 5]),
        ({"action": 0.05}, [0, 1, 2, 3, 4]),
        ({"action": 0.1}, [0, 0, 1, 2, 3]),
        ({"action": 0.04}, [1, 2, 3, 4, 5]),  # within the step, from its last substep on
        ({"elastic": True}, [0, 1, 2, 3, 4]),
        ({"elastic": True, "action": 0.1}, [0, 0, 0, 1, 2]),
    ],
)
def test_delays_of_actions_are_seconds(delays, expected):
    assert steered(made(delays=delays), 5) == expected


def test_an_action_takes_effect_within_a_step():
    """Full steer for one step: the earlier in the step it begins to act, the further the wheels have turned."""
    turned = []
    for seconds in (0.0, 0.02, 0.04, 0.05):
        env = made(1, delays={"action": seconds})
        env.reset(seed=1)
        env.step(np.array([[1.0, 0.0]], np.float32))
        turned.append(float(env.world.steer[0]))
    assert turned[0] > turned[1] > turned[2] > turned[3] == 0.0


def test_whole_steps_of_delay_drive_as_action_delay_does():
    in_seconds, in_steps = made(delays={"action": 0.1}), made(action_delay=2)
    in_seconds.reset(seed=5)
    in_steps.reset(seed=5)
    np.testing.assert_array_equal(drive(in_seconds, 60), drive(in_steps, 60))


def test_observation_delay_shows_the_past_beside_the_newest_actions():
    late, prompt = made(delays={"observation": 0.1}), made()
    late.reset(seed=2)
    prompt.reset(seed=2)
    seen, expected = drive(late, 30), drive(prompt, 30)
    actions = slice(*prompt.observations.layout()["last_actions"])
    sensors = np.setdiff1d(np.arange(prompt.observations.space.shape[0]), np.arange(actions.start, actions.stop))
    np.testing.assert_array_equal(seen[2:, :, sensors], expected[:-2][:, :, sensors])
    np.testing.assert_array_equal(seen[:, :, actions], expected[:, :, actions])
    np.testing.assert_array_equal(seen[:, :, -3:], expected[:, :, -3:])


def test_dropped_frames_show_the_one_before():
    lossy, whole = made(16, delays={"drop": 0.3}), made(16)
    lossy.reset(seed=2)
    whole.reset(seed=2)
    seen, expected = drive(lossy, 60), drive(whole, 60)
    speed = slice(*whole.observations.layout()["speed"])
    is_new = (seen[:, :, speed] == expected[:, :, speed])[:, :, 0]
    assert 0.6 < is_new.mean() < 0.8


def test_delays_off_are_bit_identical_and_a_car_alone_draws_as_among_many():
    plain, off = made(), made(delays={"action": 0.0})
    plain.reset(seed=4)
    off.reset(seed=4)
    assert off.commands is None
    assert "delayed_commands" not in off.get_state()
    np.testing.assert_array_equal(drive(plain, 40), drive(off, 40))
    results = []
    for count in (1, 9):
        env = made(count, delays=DELAYS)
        env.reset(seed=3)
        results.append([env.step(np.tile(np.float32([0.05, 0.7]), (count, 1)))[0][0] for _ in range(40)])
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize("options", [{}, {"observation": "full", "images": False, "flat": False}])
def test_state_with_delays_is_exact(options):
    first, second = (
        RacingVectorEnv(6, track="oval", max_episode_steps=15, delays=DELAYS, sensing={"last_actions": 5}, **options)
        for _ in range(2)
    )
    first.reset(seed=3)
    second.reset(seed=99)
    random = np.random.default_rng(0)
    actions = random.uniform(-1, 1, (50, 6, 2)).astype(np.float32)
    for action in actions[:20]:
        first.step(action)
    second.set_state(first.get_state())
    for action in actions[20:]:
        one, other = first.step(action), second.step(action)
        np.testing.assert_equal(one, other)
    assert set(first.get_state()) >= {"delayed_commands", "delayed_readings"}


def test_the_length_of_the_action_buffer_is_a_setting():
    sizes = {count: made(sensing={"last_actions": count}).observations.layout() for count in (0, 2, 5)}
    assert "last_actions" not in sizes[0]
    assert [np.diff(sizes[count]["last_actions"]).item() for count in (2, 5)] == [4, 10]
    env = made(1, sensing={"last_actions": 3})
    env.reset(seed=0)
    for number in (1, 2, 3, 4):
        observation, *_ = env.step(np.full((1, 2), number / 10, np.float32))
    shown = observation[0, slice(*env.observations.layout()["last_actions"])]
    np.testing.assert_allclose(shown, [0.4, 0.4, 0.3, 0.3, 0.2, 0.2], rtol=1e-6)


def test_two_ways_of_delaying_actions_are_refused():
    with pytest.raises(PaddockError, match="set one of them"):
        made(action_delay=1, delays={"action": 0.1})
