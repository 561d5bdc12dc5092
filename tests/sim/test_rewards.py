"""Reward terms against naive versions, reward sets, functions from files, and the errors those earn."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from paddock.core.errors import InputError
from paddock.sim import layout
from paddock.sim.rewards import terms as rewards
from paddock.sim.rewards.custom import load_reward
from paddock.sim.rewards.terms import POTENTIALS, TERMS, EndRules, RewardInputs, RewardSet, Term


def make_inputs(count=5, seed=0, **changes):
    random = np.random.default_rng(seed)

    def numbers(low, high):
        return random.uniform(low, high, count).astype(np.float32)

    world = SimpleNamespace(
        **{key: numbers(-1, 1) for key in ("x", "y", "heading", "vx", "vy", "yaw_rate", "steer", "s", "rpm")},
        gear=np.ones(count, np.int32),
    )
    inputs = RewardInputs(
        step_time=0.05,
        top_speed=np.full(count, 50.0, np.float32),
        progress_gain=numbers(-2, 3),
        speed=numbers(0, 60),
        lateral=numbers(-4, 4),
        half_width=np.full(count, 5.0, np.float32),
        collided=random.random(count) < 0.3,
        off_track=random.random(count) < 0.3,
        wheels_off=random.integers(0, 5, count).astype(np.int32),
        crashed=np.zeros(count, np.bool_),
        lap_completed=random.random(count) < 0.2,
        action=random.uniform(-1, 1, (count, 2)).astype(np.float32),
        previous_action=random.uniform(-1, 1, (count, 2)).astype(np.float32),
        reference_offset=numbers(-3, 3),
        reference_speed=numbers(10, 50),
        reference_curvature=numbers(-0.02, 0.02),
        world=world,
        failed=np.zeros(count, np.bool_),
    )
    return replace(inputs, **changes)


@pytest.mark.parametrize("name", [*TERMS, *POTENTIALS])
def test_every_term_is_pure_batched_and_the_same_for_one_car_as_for_many(name):
    function = {**TERMS, **POTENTIALS}[name]
    inputs = make_inputs(7)
    before = make_inputs(7)
    many = function(inputs)
    assert many.dtype == np.float32
    assert many.shape == (7,)
    for field, value in vars(before).items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(getattr(inputs, field), value)
    for car in range(7):
        one = {k: v[car : car + 1] for k, v in vars(inputs).items() if isinstance(v, np.ndarray) and len(v) == 7}
        np.testing.assert_array_equal(function(replace(inputs, **one)), many[car : car + 1])


def test_terms_against_naive_versions():
    inputs = make_inputs(50, seed=3)
    for car in range(50):
        gain, pace = float(inputs.progress_gain[car]), min(float(inputs.speed[car]) / 50.0, 1.0)
        assert rewards.speed(inputs)[car] == pytest.approx(gain * pace if gain > 0 else gain, rel=1e-5)
        assert rewards.collision(inputs)[car] == (-1.0 if inputs.collided[car] else 0.0)
        assert rewards.off_track(inputs)[car] == pytest.approx(-0.05 if inputs.off_track[car] else 0.0)
        assert rewards.wheels_off(inputs)[car] == pytest.approx(-0.05 * inputs.wheels_off[car] / 4)
        steer, throttle = (inputs.action[car] - inputs.previous_action[car]).tolist()
        assert rewards.smoothness(inputs)[car] == pytest.approx(-(steer**2) - 0.5 * throttle**2, rel=1e-5)


@pytest.mark.parametrize("name", list(POTENTIALS))
def test_potentials_stay_between_zero_and_one(name):
    value = POTENTIALS[name](make_inputs(500, seed=1))
    assert value.min() >= 0.0
    assert value.max() <= 1.0


def test_parts_add_up_to_the_reward_and_keep_their_names():
    rewards_set = RewardSet([Term("progress", 0.1), Term("collision", 5.0), Term("time_pressure", 0.5)], 5)
    inputs = make_inputs()
    ended = rewards_set.terminated(inputs)
    total, parts = rewards_set.compute(inputs, ended)
    assert rewards_set.names == ("progress", "collision", "time_pressure")
    np.testing.assert_allclose(total, parts.sum(axis=0), rtol=1e-6)
    np.testing.assert_allclose(parts[0], 0.1 * inputs.progress_gain, rtol=1e-6)
    np.testing.assert_allclose(parts[2], -0.025, rtol=1e-6)


def test_a_potential_pays_only_its_change_and_nothing_over_a_closed_way():
    rewards_set = RewardSet([Term("speed_for_curvature", 2.0)], 1)
    speeds = [0.0, 10.0, 25.0, 40.0, 15.0, 0.0]
    everyone = np.ones(1, np.bool_)

    def at(speed):
        reference = np.full(1, 30.0, np.float32)
        return make_inputs(1, speed=np.full(1, speed, np.float32), reference_speed=reference)

    rewards_set.start(at(speeds[0]), everyone)
    paid = [float(rewards_set.compute(at(speed), ~everyone)[0][0]) for speed in speeds[1:]]
    assert paid[0] == pytest.approx(2.0 * 10 / 30, rel=1e-5)
    assert sum(paid) == pytest.approx(0.0, abs=1e-6)


def test_a_potential_is_given_back_where_the_episode_ends():
    rewards_set = RewardSet([Term("speed_for_curvature", 1.0)], 2)
    reference = np.full(2, 30.0, np.float32)
    fast = make_inputs(2, speed=reference, reference_speed=reference)
    rewards_set.start(fast, np.ones(2, np.bool_))
    total, _ = rewards_set.compute(fast, np.array([True, False]))
    np.testing.assert_allclose(total, [-1.0, 0.0])


def test_a_weight_changes_at_run_time_and_a_potential_starts_without_a_jump():
    rewards_set = RewardSet([Term("progress", 0.1), Term("apex", 0.0)], 5)
    inputs = make_inputs()
    rewards_set.compute(inputs, np.zeros(5, np.bool_))
    rewards_set.set_weight("apex", 3.0)
    rewards_set.set_weight("progress", 0.0)
    total, _ = rewards_set.compute(make_inputs(seed=9), np.zeros(5, np.bool_))
    np.testing.assert_array_equal(total, 0.0)
    assert rewards_set.weights == {"progress": 0.0, "apex": 3.0}
    with pytest.raises(InputError, match="progress"):
        rewards_set.set_weight("progres", 1.0)
    for wrong in (-1.0, float("nan")):
        with pytest.raises(InputError, match="finite number, 0 or more"):
            rewards_set.set_weight("progress", wrong)


def test_an_episode_without_new_ground_ends_although_the_car_moves():
    rewards_set = RewardSet([Term("progress", 1.0)], 2, EndRules(no_progress_steps=10))
    ended = []
    for step in range(30):
        gain = np.array([1.0 if step % 2 == 0 else -1.0, 1.0], np.float32)
        ended.append(rewards_set.terminated(make_inputs(2, progress_gain=gain)).copy())
    first = np.array(ended).argmax(axis=0)
    assert first[0] == 10
    assert not np.array(ended)[:, 1].any()


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        (EndRules(off_line_distance=3.0), {"lateral": np.array([3.5, -2.0, -3.5], np.float32)}),
        (EndRules(collision=True), {"collided": np.array([True, False, True])}),
        (EndRules(off_track=True), {"off_track": np.array([True, False, True])}),
        (EndRules(), {"crashed": np.array([True, False, True])}),
    ],
)
def test_each_rule_ends_the_episodes_it_names_as_failures(rule, change):
    inputs = make_inputs(3, **change)
    assert RewardSet([], 3, rule).terminated(inputs).tolist() == [True, False, True]
    assert inputs.failed.tolist() == [True, False, True]


def test_the_last_lap_ends_an_episode_without_failure():
    rewards_set = RewardSet([Term("failure", 5.0), Term("finish", 1.0)], 2, EndRules(laps=2))
    lap = make_inputs(2, lap_completed=np.array([True, False]))
    assert not rewards_set.terminated(lap).any()
    ended = rewards_set.terminated(lap)
    assert ended.tolist() == [True, False]
    np.testing.assert_allclose(rewards_set.compute(lap, ended)[0], [1.0, 0.0])


def test_state_is_exact():
    terms = [Term("progress", 0.1), Term("apex", 1.0)]
    first, second = RewardSet(terms, 5, EndRules(laps=3)), RewardSet(terms, 5, EndRules(laps=3))
    for seed in range(4):
        inputs = make_inputs(seed=seed)
        first.compute(inputs, first.terminated(inputs))
    first.set_weight("progress", 0.7)
    second.set_state(first.get_state())
    for seed in range(4, 8):
        inputs = make_inputs(seed=seed)
        ended = first.terminated(inputs)
        np.testing.assert_array_equal(ended, second.terminated(inputs))
        np.testing.assert_array_equal(first.compute(inputs, ended)[1], second.compute(inputs, ended)[1])


# --- functions from files ---------------------------------------------------------------------------------------------


def write(tmp_path, text):
    file = tmp_path / "mine.py"
    file.write_text(text)
    return str(file)


def test_a_function_per_car_and_one_over_all_cars_agree(tmp_path):
    file = write(
        tmp_path,
        "def one(car):\n    return 2 * car['progress_gain'] - (1 if car['off_track'] else 0)\n"
        "def all_cars(cars):\n    return 2 * cars['progress_gain'] - cars['off_track']\n",
    )
    inputs = make_inputs(20)
    expected = 2 * inputs.progress_gain - inputs.off_track
    np.testing.assert_allclose(load_reward(f"{file}:one")(inputs), expected, rtol=1e-6)
    np.testing.assert_allclose(load_reward(f"{file}:all_cars", "batched")(inputs), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "style", "message"),
    [
        ("def f(car):\n    x = 1\n    return x / 0\n", "car", "mine.py, line 3, in f: ZeroDivisionError"),
        ("def g(c):\n    return c['sped']\ndef f(car):\n    return g(car)\n", "car", "line 2.*Did you mean 'speed'"),
        ("\n\ndef f(car):\n    return None\n", "car", "mine.py, line 3: f returned None"),
        ("def f(car):\n    return 'fast'\n", "car", "line 1: f returned 'fast' .str."),
        ("def f(car):\n    return float('nan')\n", "car", "line 1: f returned nan.*finite"),
        ("def f(cars):\n    return 1.0\n", "batched", r"line 1: f returned an array of shape \(\).*one number per car"),
        ("def f(cars):\n    return cars\n", "batched", "line 1: f returned dict"),
        ("def f(cars):\n    return cars['speed'] * float('inf')\n", "batched", "line 1: f returned inf for car 0"),
    ],
)
def test_what_goes_wrong_in_a_function_is_told_with_its_line(tmp_path, text, style, message):
    term = load_reward(f"{write(tmp_path, text)}:f", style)
    with pytest.raises(InputError, match=message):
        term(make_inputs())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(car):\n    return 1 +\n", "mine.py, line 2: the file is not valid Python"),
        ("import does_not_exist\ndef f(car):\n    return 1\n", "mine.py, line 1: ModuleNotFoundError"),
        ("def ff(car):\n    return 1\n", "has no function 'f'. Did you mean 'ff'. It defines: ff"),
        ("f = 3\n", "has no function 'f'. It defines no function"),
        ("def f():\n    return 1\n", "line 1: f takes 0 arguments; it is called with one dict"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_line(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        load_reward(f"{write(tmp_path, text)}:f")


def test_references_that_name_nothing(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        load_reward(f"{tmp_path}/absent.py:f")
    with pytest.raises(InputError, match=r"path/to/file.py:function_name"):
        load_reward("mine.py")
    with pytest.raises(InputError, match="Did you mean 'batched'"):
        load_reward("mine.py:f", "batchd")


def test_unknown_terms_and_repeated_names_are_refused():
    with pytest.raises(InputError, match="Did you mean 'progress'"):
        Term("progres", 1.0)
    with pytest.raises(InputError, match="once"):
        RewardSet([Term("progress", 1.0), Term("progress", 2.0)], 1)


def test_kernel_knows_every_shipped_reward_term() -> None:
    assert (*TERMS, *POTENTIALS) == layout.TERM_NAMES
