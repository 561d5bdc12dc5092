"""paddock/Racing-v0: Gymnasium's contract, exact state, honest rewards, and every option that changes the world."""

import math
import re
import warnings

import gymnasium
import numpy as np
import pytest
import yaml
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import paddock.environments  # noqa: F401 - makes the id known
from paddock.config.compose import SHIPPED, choices, compose
from paddock.config.schema import schema_of
from paddock.core.errors import InputError
from paddock.environments.spaces import final_observations, spec_of
from paddock.racing.env.config import RacingConfig, racing_config
from paddock.racing.env.rewards import RewardConfig, reward_config
from paddock.racing.env.vector import RacingVectorEnv, make

ID = "paddock/Racing-v0"
OBSERVATIONS = {
    "sensors5": {},
    "lidar": {},
    "lidar dict": {"flat": False},
    "lidar_progress": {},
    "lidar log": {"sensing": {"ray_scale": "log", "ray_history": 2}},
    "lidar motion": {"sensing": {"motion": True}},
    "course": {},
    "course dict": {"flat": False},
    "camera": {},
    "camera grey": {"sensing": {"camera_colour": False, "camera_history": 4}},
    "full": {},
    "full privileged": {"privileged": True},
    "full rays": {"images": False},
    "full rays dict": {"images": False, "flat": False},
}
ACTIONS = ("steer_throttle", "gas_brake_steer", "discrete")
REWARDS = ("baseline", "time_optimal", "racing_line")
ALL_REWARDS = sorted(set(choices("reward")) - {"none"})


def options_of(name):
    return {"observation": name.split()[0], **OBSERVATIONS[name]}


def drive(env, steps, seed=0):
    """Random driving that mostly goes forward; rewards [T, E], observations and infos."""
    random = np.random.default_rng(seed)
    rewards, observations, infos = [], [], []
    for _ in range(steps):
        action = random.uniform(-0.3, 0.3, (env.num_envs, 2)).astype(np.float32)
        action[:, 1] += 0.6
        observation, reward, _, _, info = env.step(action)
        rewards.append(reward)
        observations.append(observation)
        infos.append(info)
    return np.array(rewards), observations, infos


# --- Gymnasium's contract ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("name", OBSERVATIONS)
def test_gymnasiums_own_checker_has_nothing_to_say(name, action):
    env = gymnasium.make(ID, action=action, track="oval", **options_of(name))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_observations_stay_in_their_space_and_final_ones_are_arrays(name):
    env = gymnasium.make_vec(ID, num_envs=12, track="oval", max_episode_steps=7, **options_of(name))
    env.action_space.seed(3)
    observation, _ = env.reset(seed=1)
    assert observation in env.observation_space
    for step in range(1, 16):
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        assert observation in env.observation_space
        assert reward.dtype == np.float32
        assert reward.shape == terminated.shape == truncated.shape == (12,)
        if step % 7 == 0:
            assert truncated.all()
            assert info["_final_obs"].all()
            assert info["final_obs"] in env.observation_space
            rows = np.arange(12)
            spec = spec_of(env)
            for part, values in final_observations(info, rows).items():
                assert values.shape == (12, *spec.observation[part].shape)


def test_the_vector_environment_says_what_it_is():
    env = gymnasium.make_vec(ID, num_envs=3, vectorization_mode="vector_entry_point", track="oval")
    assert isinstance(env, RacingVectorEnv)
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert env.metadata["render_fps"] == 20
    assert env.action_space.shape == (3, 2)


def test_a_final_observation_is_the_last_of_its_episode_and_the_next_is_fresh():
    env = RacingVectorEnv(4, track="oval", max_episode_steps=5, start={"speed": [0.0, 0.0]})
    env.reset(seed=0)
    full = np.tile(np.array([0.0, 1.0], np.float32), (4, 1))
    for _ in range(5):
        observation, _, terminated, truncated, info = env.step(full)
    assert truncated.all()
    assert not terminated.any()
    speed = env.observations.layout()["speed"][0]
    assert (info["final_obs"][:, speed] > 0.01).all()
    np.testing.assert_allclose(observation[:, speed], 0.0, atol=1e-6)
    assert (info["final_info"]["episode_length"] == 5).all()
    last_actions = slice(*env.observations.layout()["last_actions"])
    assert (info["final_obs"][:, last_actions] != 0).any()
    assert (observation[:, last_actions] == 0).all()


def test_gymnasiums_vector_wrappers_work_on_it():
    env = gymnasium.make_vec(ID, num_envs=4, track="oval", max_episode_steps=5)
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(env)
    env.reset(seed=0)
    for _ in range(5):
        *_, info = env.step(env.action_space.sample())
    assert (info["episode"]["l"] == 5).all()


def test_two_runs_from_one_seed_are_the_same_and_from_another_are_not():
    runs = []
    for seed in (1, 1, 2):
        env = RacingVectorEnv(16, track="oval", max_episode_steps=30)
        env.reset(seed=seed)
        runs.append(drive(env, 40))
    np.testing.assert_array_equal(runs[0][0], runs[1][0])
    np.testing.assert_array_equal(runs[0][1], runs[1][1])
    assert (runs[0][0] != runs[2][0]).any()


def test_a_car_drives_the_same_alone_as_among_many():
    results = []
    for count in (1, 7):
        env = RacingVectorEnv(count, track="oval")
        env.reset(seed=5)
        forward = np.tile(np.array([0.05, 0.7], np.float32), (count, 1))
        results.append([env.step(forward)[0][0] for _ in range(30)])
    np.testing.assert_array_equal(results[0], results[1])


# --- state ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reward", REWARDS)
def test_state_is_exact(reward):
    options = {
        "track": "oval",
        "reward": reward,
        "max_episode_steps": 25,
        "action_delay": 1,
        "sensing": {"noise": 0.01, "latency": 1},
        "randomise": {"friction": (0.8, 1.1)},
    }
    first, second = RacingVectorEnv(8, **options), RacingVectorEnv(8, **options)
    first.reset(seed=3)
    second.reset(seed=99)
    drive(first, 20)
    first.set_reward_weight("progress", 0.7)
    second.set_state(first.get_state())
    (rewards, observations, infos), (again, seen_again, infos_again) = drive(first, 40, 7), drive(second, 40, 7)
    np.testing.assert_array_equal(rewards, again)
    np.testing.assert_array_equal(observations, seen_again)
    for one, other in zip(infos, infos_again, strict=True):
        np.testing.assert_equal(one, other)
    np.testing.assert_array_equal(first.reset()[0], second.reset()[0])


def test_state_of_a_single_environment_is_exact_and_can_be_saved(tmp_path):
    from paddock.core.trees import load_tree, save_tree

    first, second = gymnasium.make(ID, track="oval"), gymnasium.make(ID, track="oval")
    first.reset(seed=1)
    second.reset(seed=2)
    first.step(np.array([0.1, 1.0], np.float32))
    save_tree(tmp_path, "state", first.unwrapped.get_state())
    second.unwrapped.set_state(load_tree(tmp_path, "state"))
    action = np.array([-0.2, 0.8], np.float32)
    np.testing.assert_array_equal(first.step(action)[0], second.step(action)[0])


# --- rewards ----------------------------------------------------------------------------------------------------------


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
    for discount in (RewardConfig.model_validate(reward_config(reward)).discount or 0.98, 1.0):
        stopping, straight, _ = returns_of_bad_drivers(reward, discount, speed)
        assert (straight > stopping).all()


@pytest.mark.parametrize("reward", REWARDS)
def test_failing_costs_the_seconds_it_saves(reward):
    config = RewardConfig.model_validate(reward_config(reward))
    saved = config.time_pressure.weight * 0.05 / (1.0 - (config.discount or 0.98))
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


# --- options ----------------------------------------------------------------------------------------------------------


def test_the_yaml_says_what_the_schema_defaults_to():
    text = (SHIPPED / "environment" / "racing.yaml").read_text()
    shipped = yaml.safe_load(text)
    assert shipped.pop("reward") == "${reward}"
    defaults = RacingConfig.model_validate({"_target_": shipped["_target_"]}).to_dict()
    defaults.pop("reward")
    assert shipped == defaults
    assert schema_of(shipped["_target_"]) is RacingConfig
    undocumented = [line for line in text.splitlines() if re.match(r"\s*\w+: \S", line) and "#" not in line]
    assert [line.split(":")[0].strip() for line in undocumented] == ["_target_", "width", "height", "minimap"]


def test_rewards_are_chosen_and_changed_from_the_command_line():
    overrides = ["environment=racing", "reward=racing_line", "reward.time_pressure.weight=0.8"]
    composed = compose(overrides=overrides).values["environment"]
    config = RacingConfig.model_validate(composed)
    assert config.reward.time_pressure.weight == 0.8
    assert config.reward.apex.weight > 0
    without = RacingConfig.model_validate(compose(overrides=["environment=racing"]).values["environment"])
    assert without.reward == RewardConfig()


@pytest.mark.parametrize("name", ALL_REWARDS)
def test_every_shipped_reward_set_is_valid(name):
    config = RewardConfig.model_validate(reward_config(name))
    assert isinstance(config, RewardConfig)
    assert config.progress.weight > 0


def test_make_builds_from_a_validated_config():
    env = make(racing_config(track="oval", observation="sensors5", car="arcade"), num_envs=3)
    assert env.num_envs == 3
    observation, _ = env.reset(seed=0)
    assert observation.shape == (3, 6)
    assert observation.min() >= 0.0
    assert observation.max() <= 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trak": "oval"}, "trak: there is no such option. Did you mean 'track'"),
        ({"track": "ovel"}, "Did you mean 'oval'"),
        ({"car": "gtt"}, "Did you mean 'gt'"),
        ({"observation": "lidr"}, "observation"),
        ({"reward": "baselin"}, "Did you mean 'baseline'"),
        ({"reward": {"progres": {"weight": 1}}}, "Did you mean 'progress'"),
        ({"observation": "full", "flat": True}, "images=false"),
        ({"observation": "lidar", "privileged": True}, "needs observation full"),
        ({"car_parameters": {"mas": 3.0}}, "Did you mean 'mass'"),
        ({"randomise": {"frction": (0.9, 1.1)}}, "friction"),
        ({"opponents": {"count": 1, "driver": "clasical"}}, "allowed: classical"),
        ({"discrete_steer": [2.0]}, "each from -1 to 1"),
    ],
)
def test_wrong_options_are_told_what_is_allowed(options, message):
    with pytest.raises(InputError, match=message):
        RacingVectorEnv(2, **{"track": "oval", **options})


@pytest.mark.parametrize("car", ["arcade", "f1tenth", "gt", "road"])
def test_every_car_gets_going(car):
    env = RacingVectorEnv(4, track="oval", car=car)
    env.reset(seed=0)
    for _ in range(40):
        *_, info = env.step(np.tile(np.array([0.0, 1.0], np.float32), (4, 1)))
    assert (info["progress"] > 0.5).all()
    if car == "f1tenth":
        assert env.world.tracks[0].length < 200


def test_many_tracks_by_name_and_by_seed():
    named = RacingVectorEnv(6, track=["oval", "kidney"])
    assert {track.name for track in named.world.tracks} == {"oval", "kidney"}
    assert set(named.world.track_index.tolist()) == {0, 1}
    seeded = RacingVectorEnv(6, procedural=3, procedural_seed=5, obstacles=4)
    assert len({track.length for track in seeded.world.tracks}) == 3
    assert all(len(track.obstacles) == 4 for track in seeded.world.tracks)
    backwards = RacingVectorEnv(1, track="oval", reverse=True)
    forwards = RacingVectorEnv(1, track="oval")
    assert math.cos(backwards.world.tracks[0].heading[0] - forwards.world.tracks[0].heading[0]) < -0.99


def test_actions_mean_the_same_in_every_layout():
    envs = {action: RacingVectorEnv(1, track="oval", action=action) for action in ACTIONS}
    given = {
        "steer_throttle": np.array([[0.5, 1.0]], np.float32),
        "gas_brake_steer": np.array([[1.0, 0.0, -0.5]], np.float32),
        "discrete": np.array([9]),  # steer 0.5 is the fourth of five, full throttle the first of three
    }
    headings = []
    for action, env in envs.items():
        env.reset(seed=0)
        for _ in range(20):
            env.step(given[action])
        headings.append(env.world.heading[0])
        np.testing.assert_allclose(env._actions.encode(env._actions.decode(given[action])), given[action], atol=1e-6)
    assert headings[0] == headings[1] == headings[2]


def test_starts_at_chosen_places():
    env = RacingVectorEnv(3, track="oval", start={"place": "grid"})
    env.reset(seed=0)
    assert (env.world.vx == 0).all()
    env.reset(options={"s": np.array([10.0, 50.0, 90.0]), "speed": 12.0, "lateral": 0.0})
    np.testing.assert_allclose(env.world.s, [10.0, 50.0, 90.0], atol=0.5)
    np.testing.assert_allclose(env.world.vx, 12.0, atol=0.1)
    before = env.world.s.copy()
    env.reset(options={"reset_mask": np.array([False, True, False]), "s": 70.0})
    np.testing.assert_allclose(env.world.s, [before[0], 70.0, before[2]], atol=0.5)


def test_opponents_drive_themselves_and_can_be_given_a_policy():
    env = RacingVectorEnv(2, track="oval", opponents={"count": 2}, start={"speed": [0.0, 0.0]})
    env.reset(seed=0)
    for _ in range(60):
        env.step(np.zeros((2, 2), np.float32))
    others = np.arange(6) % 3 > 0
    assert (env.world.distance[others] > 5.0).all()
    assert np.abs(env.world.distance[~others]).max() < 2.0
    seen = []

    def policy(observation):
        seen.append(observation.shape)
        return np.tile(np.array([0.0, 1.0], np.float32), (len(observation), 1))

    env = RacingVectorEnv(2, track="oval", opponents={"count": 2, "contact": False}, opponent=policy)
    env.reset(seed=0)
    env.step(np.zeros((2, 2), np.float32))
    assert seen == [(4, env.single_observation_space.shape[0])]
    assert env.world.ghost.tolist() == [False, True, True] * 2
    other = RacingVectorEnv(2, track="oval", opponents={"count": 2, "contact": False}, opponent=policy)
    other.set_state(env.get_state())
    still = np.zeros((2, 2), np.float32)
    np.testing.assert_array_equal(env.step(still)[0], other.step(still)[0])


def test_a_policy_from_a_file_drives_the_opponents(tmp_path):
    file = tmp_path / "rival.py"
    file.write_text(
        "import numpy as np\n\ndef act(observation):\n    return np.tile([0.0, 1.0], (len(observation), 1))\n"
    )
    env = RacingVectorEnv(2, track="oval", opponents={"count": 1, "driver": f"{file}:act"})
    env.reset(seed=0, options={"speed": 0.0})
    for _ in range(20):
        env.step(np.zeros((2, 2), np.float32))
    assert (env.world.distance[1::2] > 0.5).all()
    wrong = RacingVectorEnv(2, track="oval", opponents={"count": 1}, opponent=lambda observation: np.zeros((1, 2)))
    wrong.reset(seed=0)
    with pytest.raises(InputError, match=r"shape \(1, 2\) for 2 cars"):
        wrong.step(np.zeros((2, 2), np.float32))


def test_noise_is_seeded_and_domain_randomisation_changes_cars():
    options = {"track": "oval", "sensing": {"noise": 0.05}, "randomise": {"friction": (0.5, 1.0)}}
    env = RacingVectorEnv(8, **options)
    env.reset(seed=0)
    from paddock.sim.cars.car import PARAMETER_INDEX

    friction = env.world.parameters[:, PARAMETER_INDEX["friction"]]
    assert friction.std() > 0.01
    clean = RacingVectorEnv(8, track="oval")
    noisy, _, exact = env.reset(seed=1)[0], None, clean.reset(seed=1)[0]
    first, last = env.observations.layout()["speed"]
    assert (noisy[:, first:last] != exact[:, first:last]).any()
    first, last = env.observations.layout()["rays"]
    assert (noisy[:, first:last] != exact[:, first:last]).any()
    np.testing.assert_array_equal(noisy, env.reset(seed=1)[0])


@pytest.mark.parametrize(("car", "size"), [("gt", 1.0), ("f1tenth", 0.1)])
def test_logarithmic_rays_tell_the_same_metres(car, size):
    reach = 150.0 * size
    linear, log = (
        RacingVectorEnv(
            4, track="oval", car=car, flat=False, sensing={"ray_range": reach, "ray_scale": scale, "ray_history": 1}
        )
        for scale in ("linear", "log")
    )
    plain, seen = (env.reset(seed=3)[0]["rays"].astype(np.float64) for env in (linear, log))
    assert plain.shape == seen.shape == (4, 19)
    np.testing.assert_allclose(seen, np.log1p(plain * reach / size) / np.log1p(reach / size), rtol=1e-5)


def test_motion_beside_rays_is_what_the_course_tells_of_it():
    options = {"track": "oval", "flat": False, "start": {"speed": [0.2, 0.5]}}
    by_rays = RacingVectorEnv(4, observation="lidar_progress", sensing={"motion": True}, **options)
    by_course = RacingVectorEnv(4, observation="course", **options)
    moved = [(env.reset(seed=3), drive(env, 10, seed=1)[1][-1])[1] for env in (by_rays, by_course)]
    for part in ("yaw_rate", "slip", "steer", "forward_acceleration", "sideways_acceleration"):
        assert np.abs(moved[0][part]).max() > 1e-3
        np.testing.assert_array_equal(moved[0][part], moved[1][part])
    assert "yaw_rate" not in RacingVectorEnv(1, observation="lidar", **options).observations.layout()


def test_the_place_on_the_lap_is_a_point_on_a_circle_that_does_not_leap_at_the_line():
    env = RacingVectorEnv(64, track="oval", observation="lidar_progress", flat=False)
    place = env.reset(seed=3)[0]["progress"]
    share = env.world.s / env.world.track_length
    assert place.shape == (64, 2)
    assert np.ptp(share) > 0.8
    np.testing.assert_allclose(np.arctan2(place[:, 1], place[:, 0]) / (2 * np.pi) % 1.0, share, atol=1e-5)
    np.testing.assert_allclose(np.hypot(*place.T), 1.0, rtol=1e-6)


# --- pictures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("camera", ["follow", "north_up", "track"])
def test_pictures_of_one_and_of_several(camera):
    picture = {"width": 320, "height": 240, "camera": camera, "rays": True, "line": True, "ghosts": 3, "frames": 2}
    env = RacingVectorEnv(6, render_mode="rgb_array", track="oval", picture=picture)
    env.reset(seed=0)
    frames = env.render()
    assert len(frames) == 2
    assert all(frame.shape == (240, 320, 3) and frame.dtype == np.uint8 for frame in frames)
    single = gymnasium.make(ID, render_mode="rgb_array", track="oval", picture=picture)
    single.reset(seed=0)
    assert single.render().shape == (240, 320, 3)


def test_a_camera_above_sees_as_far_as_it_is_told():
    grass = {}
    for span in (None, 50.0, 200.0):
        env = RacingVectorEnv(1, observation="camera", sensing={"camera_view": "above", "camera_span": span})
        picture = env.reset(seed=1)[0][0]
        grass[span] = (picture == picture[0, 0]).all(-1).mean()
    assert grass[None] == grass[50.0] < grass[200.0] - 0.1


def test_procedural_tracks_may_differ_in_width_and_size():
    options = {"procedural": 6, "procedural_width": [7.0, 16.0], "procedural_radius": [120.0, 400.0]}
    tracks = RacingVectorEnv(6, **options).world.tracks
    widths = [float((track.left_width + track.right_width)[0]) for track in tracks]
    assert 7.0 <= min(widths) < 9.5 < 13.0 < max(widths) <= 16.0
    assert max(track.length for track in tracks) > 2 * min(track.length for track in tracks)
    again = RacingVectorEnv(6, **options).world.tracks
    assert [track.name for track in again] == [track.name for track in tracks]
