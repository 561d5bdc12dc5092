"""Rewards of the racing environment: honest to drivers that try to cheat them, and their sets."""

import gymnasium
import numpy as np
import pytest
import yaml

import paddock.environments  # noqa: F401 - makes the id known
from paddock.config.compose import SHIPPED
from paddock.core.errors import InputError
from paddock.racing.env.rewards import RewardConfig, reward_config
from paddock.racing.env.vector import RacingVectorEnv
from racing_cases import ALL_REWARDS, ID, REWARDS


def to_and_fro(env, steps=800, far=8.0):
    """Return [2] of a car that shuttles `far` metres forth and back and of one that stands, and their net metres.

    Each return ends with its episode. A car that goes on is driven for `steps` steps and then back to its start.
    """
    env.reset(seed=0, options={"s": 100.0, "lateral": 0.0, "heading_error": 0.0, "speed": 0.0})
    total, alive, forward, turns = np.zeros(2), np.ones(2, np.bool_), True, 0
    net = np.zeros(2)
    for step in range(steps + 2_000):
        distance, speed = float(env.world.distance[0]), float(env.world.vx[0])
        wants_forward = distance < far - 1.0 if forward else distance < 0.5
        turns += wants_forward != forward
        forward = wants_forward
        throttle = np.clip(0.5 * ((3.0 if forward else -3.0) - speed), -1, 1)
        steer = (-0.3 * env.world.lateral[0] - env.world.heading_error[0]) * np.sign(speed or 1.0)
        action = np.clip(np.array([[steer, throttle], [0.0, 0.0]], np.float32), -1, 1)
        _, reward, terminated, _, _ = env.advance(action)
        total += reward * alive
        net[alive] = env.world.distance[alive]
        alive &= ~terminated
        if not alive.any() or (step >= steps and env.world.distance[0] <= 0.0):
            break
    assert turns >= 2, "the car did not shuttle"
    return total, net


@pytest.mark.parametrize("reward", [*ALL_REWARDS, "path", "path_speed", "path_collision"])
def test_driving_to_and_fro_earns_no_more_than_standing_still(reward):
    config = shipped_reward(reward) | {"ends": {"no_progress_steps": None}}
    env = RacingVectorEnv(2, track="oval", reward=config, allow_reverse=True, max_episode_steps=None)
    total, net = to_and_fro(env)
    assert env.world.steps[0] >= 800
    assert net[0] <= 0.0
    assert net[1] == pytest.approx(0.0, abs=1e-3)
    assert total[0] <= total[1] + 1e-3


@pytest.mark.parametrize("reward", [*REWARDS, "racing"])
def test_with_its_own_rules_the_shuttle_is_ended_and_its_net_metres_are_all_it_was_paid_for(reward):
    env = RacingVectorEnv(2, track="oval", reward=reward, allow_reverse=True, max_episode_steps=None)
    total, net = to_and_fro(env)
    assert env.world.steps[0] < 400
    per_metre = env.reward_weights["progress"] + env.reward_weights["speed"]
    assert total[0] <= total[1] + per_metre * max(net[0], 0.0) + 1e-3


def returns_of_bad_drivers(reward, discount, speed):
    """Discounted returns [3, places] of cars that brake, that floor it straight ahead, and also steer at random."""
    random, places = np.random.default_rng(0), np.arange(0.0, 3000.0, 50.0)
    count = 3 * len(places)
    env = RacingVectorEnv(count, track="serpent", reward=reward, max_episode_steps=None)
    env.reset(seed=0, options={"s": np.tile(places, 3), "lateral": 0.0, "heading_error": 0.0, "speed": speed})
    kind, total, alive = np.repeat(np.arange(3), len(places)), np.zeros(count), np.ones(count, np.bool_)
    action = np.zeros((count, 2), np.float32)
    for step in range(2_000):
        if step % 10 == 0:
            action[:, 0] = np.where(kind == 2, random.uniform(-0.5, 0.5, count), 0.0)
            action[:, 1] = np.where(kind == 0, -1.0, 1.0)
        _, gained, terminated, _, _ = env.advance(action)
        total += discount**step * gained * alive
        alive &= ~terminated
        if not alive.any():
            return total.reshape(3, -1)
    raise AssertionError("some car drives on for ever")


@pytest.mark.parametrize("speed", [0.0, 10.0])
@pytest.mark.parametrize("reward", REWARDS)
def test_driving_badly_is_better_than_standing_still(reward, speed):
    stopping, straight, wild = returns_of_bad_drivers(reward, 0.98, speed)
    assert (straight > stopping).all()
    assert (wild > stopping).all()
    for discount in (RewardConfig.model_validate(reward_config(reward)).gamma or 0.98, 1.0):
        stopping, straight, _ = returns_of_bad_drivers(reward, discount, speed)
        assert (straight > stopping).all()


@pytest.mark.parametrize("reward", REWARDS)
def test_failing_costs_the_seconds_it_saves(reward):
    config = RewardConfig.model_validate(reward_config(reward))
    saved = config.time_pressure.weight * 0.05 / (1.0 - (config.gamma or 0.98))
    assert config.failure.weight == pytest.approx(saved)


def test_a_price_on_failing_can_teach_standing_still():
    priced = shipped_reward("baseline") | {"failure": {"weight": 5.0}}
    stopping, straight, _ = returns_of_bad_drivers(priced, 0.98, speed=10.0)
    assert (straight < stopping).sum() > 10


def test_the_shuttle_would_find_a_reward_that_forgives_driving_back(tmp_path):
    file = tmp_path / "naive.py"
    file.write_text("def forgiving(car):\n    return max(car['progress_gain'], 0.0)\n")
    config = {"custom": {"naive": {"function": f"{file}:forgiving"}}, "ends": {"no_progress_steps": None}}
    total, _ = to_and_fro(RacingVectorEnv(2, track="oval", reward=config, allow_reverse=True, max_episode_steps=None))
    assert total[0] > total[1] + 20.0


def shipped_reward(name):
    base = name if name in ALL_REWARDS else "baseline"
    config = yaml.safe_load((SHIPPED / "reward" / f"{base}.yaml").read_text())
    return config if name in ALL_REWARDS else config | {"combination": name}


def test_terms_add_up_to_the_reward_and_are_summed_over_the_episode():
    env = RacingVectorEnv(6, track="oval", reward="racing_line", max_episode_steps=20)
    env.reset(seed=0)
    sums = np.zeros(6)
    for _ in range(20):
        action = np.tile(np.array([0.1, 0.9], np.float32), (6, 1))
        _, reward, _, truncated, info = env.step(action)
        np.testing.assert_allclose(reward, sum(info["reward_terms"].values()), rtol=1e-4, atol=1e-6)
        sums += reward
    assert truncated.all()
    np.testing.assert_allclose(info["final_info"]["episode_return"], sums, rtol=1e-5)
    np.testing.assert_allclose(sum(info["final_info"]["reward_terms"].values()), sums, rtol=1e-4, atol=1e-5)
    assert set(env.rewards.names) >= {"progress", "apex", "time_pressure"}


def wheels_off_given(margin, extra):
    """What the term `wheels_off` gave [steps, 4] to cars that leave the road; their near edges and `wheels_off`."""
    reward = {"wheels_off": {"weight": 5.0, "margin": margin}, "ends": {"no_progress_steps": None}, **extra}
    env = RacingVectorEnv(4, track="oval", reward=reward)
    env.reset(seed=0, options={"s": 50.0, "lateral": [0.0, 1.0, -1.0, 2.0], "heading_error": 0.0, "speed": 10.0})
    given, near, counted = [], [], []
    for _ in range(60):
        *_, info = env.advance(np.tile(np.array([0.1, 0.5], np.float32), (4, 1)))
        given.append(info["reward_terms"]["wheels_off"].copy())
        near.append(env.world.near_edge(margin) if margin else env.world.wheels_off.copy())
        counted.append(env.world.wheels_off.copy())
    return np.array(given), np.array(near), np.array(counted)


def test_wheels_off_with_a_margin_in_the_kernel_is_the_term(tmp_path):
    file = tmp_path / "nothing.py"
    file.write_text("def nothing(cars):\n    return 0.0 * cars['speed']\n")
    own = {"custom": {"nothing": {"function": f"{file}:nothing", "style": "batched"}}}  # no kernel computes these
    for margin in (0.0, 0.4):
        given, near, counted = wheels_off_given(margin, {})
        assert 0 < (counted > 0).sum() < counted.size
        expected = near * np.float32((-1.0 if margin else -0.25) * 0.05)
        np.testing.assert_array_equal(given, expected.astype(np.float32) * np.float32(5.0))
        assert ((near > 0.0) & (counted == 0)).any() == (margin > 0.0)
        for mine, theirs in zip((given, near, counted), wheels_off_given(margin, own), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    small = RacingVectorEnv(1, track="oval", car="f1tenth", reward={"wheels_off": {"margin": 0.4}}).rewards
    option = small.for_kernel(1.0)["term_options"][small.names.index("wheels_off")]
    assert option == pytest.approx(0.04)  # m, as small as its road
    for wrong in (-0.1, float("inf"), float("nan")):
        with pytest.raises(InputError, match=r"wheels_off\.margin"):
            RacingVectorEnv(1, track="oval", reward={"wheels_off": {"margin": wrong}})


def test_a_weight_changes_while_it_runs():
    env = RacingVectorEnv(2, track="oval")
    env.reset(seed=0)
    env.set_reward_weight("time_pressure", 100.0)
    env.set_reward_weight("apex", 1.0)
    _, reward, _, _, info = env.step(np.zeros((2, 2), np.float32))
    np.testing.assert_allclose(info["reward_terms"]["time_pressure"], -5.0)
    assert (reward < -4).all()
    with pytest.raises(InputError, match="time_pressure"):
        env.set_reward_weight("time_presure", 1.0)


def test_ends_terminate_and_the_time_limit_truncates():
    env = RacingVectorEnv(3, track="oval", max_episode_steps=50, reward={"ends": {"no_progress_steps": 10}})
    env.reset(seed=0, options={"speed": 0.0})
    for _ in range(10):
        _, _, terminated, truncated, _ = env.step(np.zeros((3, 2), np.float32))
    assert terminated.all()
    assert not truncated.any()


@pytest.mark.parametrize("limit", [5, None])
def test_the_time_limit_of_one_car_is_gymnasiums(limit):
    env = gymnasium.make(ID, track="oval", max_episode_steps=limit, reward={"ends": {"no_progress_steps": None}})
    env.reset(seed=0)
    steps = 1
    while not env.step(np.zeros(2, np.float32))[3]:
        steps += 1
    assert steps == (limit or 2_000)


def test_a_crash_terminates():
    env = RacingVectorEnv(2, track="oval", edge="crash", reward="time_optimal")
    env.reset(seed=0)
    for _ in range(400):
        _, _, terminated, _, info = env.step(np.tile(np.array([1.0, 1.0], np.float32), (2, 1)))
        if terminated.any():
            break
    assert terminated.any()
    assert (info["reward_terms"]["failure"][terminated] == -env.reward_weights["failure"]).all()


def test_a_lap_is_timed_and_ends_the_episode_where_one_is_asked_for():
    from paddock.sim.reference.classical_driver import ClassicalDriver

    reward = {"progress": {"weight": 0.1}, "finish": {"weight": 7.0}, "ends": {"laps": 1}}
    start = {"place": "flying", "speed": [0.2, 0.2], "lateral": 0.0, "heading": 0.0}
    env = RacingVectorEnv(2, track="oval", reward=reward, start=start, max_episode_steps=None)
    env.reset(seed=0)
    driver = ClassicalDriver(env.reference.laps[0], "gt")
    for _ in range(3_000):
        _, _, terminated, _, info = env.step(driver.act(env.world))
        if terminated.any():
            break
    assert terminated.all()
    assert info["lap_completed"].all()
    assert (info["reward_terms"]["finish"] == 7.0).all()
    ratio = info["lap_time"] / env.reference.laps[0].lap_time
    assert (ratio > 0.99).all()
    assert (ratio < 1.3).all()


def test_a_deepracer_file_and_a_batched_function_are_rewards(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "def reward_function(params):\n    return float(params['speed'] > 0) + params['progress']\n"
        "def pace(cars):\n    return cars['speed'] / cars['top_speed']\n"
        "def broken(car):\n    return car['nothing']\n"
    )
    for reward in (
        f"{file}:reward_function",
        {"custom": {"pace": {"function": f"{file}:pace", "style": "batched", "weight": 2.0}}},
    ):
        env = RacingVectorEnv(3, track="oval", reward=reward, opponents={"count": 1})
        env.reset(seed=0)
        _, gained, _, _, _ = env.step(np.tile(np.array([0.0, 1.0], np.float32), (3, 1)))
        assert (gained > 0).all()
    env = RacingVectorEnv(3, track="oval", reward=f"{file}:broken")
    env.reset(seed=0)
    with pytest.raises(InputError, match=r"mine.py, line 6, in broken"):
        env.step(np.zeros((3, 2), np.float32))
