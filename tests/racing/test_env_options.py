"""Options of the racing environment: each of them changes the world."""

import math
import re

import numpy as np
import pytest
import yaml

import paddock.environments  # noqa: F401 - makes the id known
from paddock.config.compose import SHIPPED, compose
from paddock.config.schema import schema_of
from paddock.core.errors import InputError
from paddock.racing.env.config import RacingConfig, racing_config
from paddock.racing.env.rewards import RewardConfig, reward_config
from paddock.racing.env.vector import RacingVectorEnv, make
from racing_cases import ACTIONS, ALL_REWARDS, drive


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


def test_progress_on_several_circles_tells_the_place_on_the_lap_more_finely():
    env = RacingVectorEnv(8, track="oval", observation="course", flat=False, sensing={"progress": 3})
    place = env.reset(seed=3)[0]["progress"].reshape(8, 3, 2)
    angle = 2 * np.pi * env.world.s / env.world.track_length
    for circle, turns in enumerate((1, 2, 4)):
        wanted = np.stack([np.cos(turns * angle), np.sin(turns * angle)], 1)
        np.testing.assert_allclose(place[:, circle], wanted, atol=1e-5)
    assert "progress" not in RacingVectorEnv(1, track="oval", observation="course").observations.layout()
