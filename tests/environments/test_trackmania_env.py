"""TrackMania's environments on the twin: TMRL's spaces and order, ends told apart, confirmed restarts, a lap."""

import numpy as np
import pytest
from pydantic import ValidationError

from paddock.config.schema import validate_target
from paddock.core.errors import InputError
from paddock.environments.base import SingleCopyError
from paddock.environments.spaces import spec_of
from paddock.environments.trackmania.env import make as make_trackmania
from paddock.environments.trackmania.race import GameError
from paddock.environments.trackmania.recording import drive_and_record
from paddock.environments.trackmania.trajectory import save_trajectory
from paddock.environments.trackmania.twin.game import TwinSettings
from trackmania_cases import TARGET, drive, longest_beam, make_env, small_road, stand


@pytest.fixture(scope="module")
def road(tmp_path_factory):
    return small_road(tmp_path_factory.mktemp("road"))


@pytest.fixture
def make(road):
    made = []

    def build(**options):
        twin = {"track": road, "countdown": 0.5, **options.pop("twin", {})}
        made.append(make_env(sleep_at_reset=0.5, numbers=options.pop("numbers", "tmrl"), twin=twin, **options))
        return made[-1]

    yield build
    for env in made:
        env.close()


def game_of(env):
    return env.interface._link.telemetry.game


@pytest.mark.parametrize(
    ("interface", "parts"),
    [
        (
            "full",
            {
                "speed": (0, 1000, (1,)),
                "gear": (0, 6, (1,)),
                "rpm": (0, np.inf, (1,)),
                "images": (0, 255, (4, 64, 64)),
            },
        ),
        ("lidar", {"speed": (0, 1000, (1,)), "rays": (0, np.inf, (4, 19))}),
        ("lidar_progress", {"speed": (0, 1000, (1,)), "progress": (0, 1, (1,)), "rays": (0, np.inf, (4, 19))}),
    ],
)  # fmt: skip
def test_trackmania_spaces_are_those_of_tmrl(make, interface, parts):
    env = make(interface=interface)
    assert env.interface.observation_names == tuple(parts)  # the order of TMRL's tuple
    space = env.single_observation_space
    assert set(space) == {*parts, "last_actions"}
    for name, (low, high, shape) in parts.items():
        assert (space[name].low.min(), space[name].high.max(), space[name].shape) == (low, high, shape)
        assert space[name].dtype == (np.uint8 if name == "images" else np.float32)
    assert space["last_actions"].shape == (6,)
    assert (env.single_action_space.low.tolist(), env.single_action_space.high.tolist()) == ([-1] * 3, [1] * 3)
    observation, _ = env.reset(seed=1)
    for _ in range(3):
        assert all(env.observation_space[name].contains(part) for name, part in observation.items())
        observation, *_ = env.step(np.array([[1, -1, 0.5]], np.float32))


def test_trackmania_normalized_parts_are_between_0_and_1(make):
    env = make(interface="lidar", numbers="normalized")
    observation, *_ = drive(env, 20, longest_beam)
    assert 0 < observation["rays"].max() <= 1
    assert 0.01 < observation["speed"][0, 0] < 1
    assert all(env.observation_space[name].contains(part) for name, part in observation.items())


def test_trackmania_histories_are_oldest_first(make):
    env = make(interface="full")
    observation, _ = env.reset(seed=1)
    assert (observation["images"][0] == observation["images"][0, 0]).all()
    before = observation["images"][0]
    for _ in range(25):
        observation, *_ = env.step(np.array([[1, 0, 1]], np.float32))
        assert (observation["images"][0, :3] == before[1:]).all()
        before = observation["images"][0]
    assert (before[3] != before[0]).any()
    assert observation["last_actions"][0].tolist() == [1, 0, 1] * 2


def test_trackmania_colour_images(make):
    env = make(interface="full", grayscale=False, image_width=None, image_height=None, history=2)
    observation, _ = env.reset(seed=1)
    assert observation["images"].shape == (1, 2, 128, 256, 3)
    sky = observation["images"][0, 0, 0, 0]
    assert sky[2] > sky[0]  # Red first.
    planes = make(
        interface="full", grayscale=False, image_width=None, image_height=None, history=2, numbers="normalized"
    )
    found, _ = planes.reset(seed=1)
    assert found["images"].shape == (1, 6, 128, 256)
    assert (found["images"][0, 3:] == np.moveaxis(observation["images"][0, 1], 2, 0)).all()


def test_trackmania_negative_pedals_count_as_nothing(make):
    env = make()
    drive(env, 20, lambda _: np.array([[-1, -1, -0.25]], np.float32))
    packet = game_of(env).telemetry()
    assert (packet.gas, packet.brake, packet.steer) == (0.0, 0.0, -0.25)


def test_trackmania_lap_is_finished_and_timed_within_a_frame(make):
    env = make(ep_max_length=2_000)
    for _ in range(2):
        _, reward, terminated, truncated, info = drive(env, 2_000)
        assert (terminated, truncated, info["outcome"][0]) == (True, False, "finish")
        assert reward[0] >= 100
        final = info["final_info"]
        assert (final["finish"][0], final["failure"][0], final["lost"][0], final["time_out"][0]) == (1, 0, 0, 0)
        assert abs(final["lap_time"][0] - game_of(env).lap_time) <= 1 / 60 + 1e-6
        assert final["progress"][0] > 0.95
        assert final["reward_terms"]["progress"][0] == pytest.approx(0.1 * 230, rel=0.1)


def test_trackmania_ends_are_told_apart(make):
    _, _, terminated, truncated, info = drive(make(), 200, stand)
    assert (terminated, truncated, info["outcome"][0]) == (True, False, "failure")
    _, _, terminated, truncated, info = drive(make(failure_truncates=True), 200, stand)
    assert (terminated, truncated, info["outcome"][0]) == (False, True, "failure")
    assert np.isnan(info["final_info"]["lap_time"][0])
    _, _, terminated, truncated, info = drive(make(ep_max_length=20), 200)
    assert (terminated, truncated, info["outcome"][0]) == (False, True, "time_out")
    env = make(lost_after=0.5)
    env.reset(seed=1)
    game_of(env).add_fault("stall", 1.0)
    for _ in range(3):
        *_, terminated, truncated, info = env.step(stand(None))
        if truncated[0]:
            break
    assert (terminated[0], truncated[0], info["outcome"][0]) == (False, True, "lost")
    observation, reward, *_ = env.step(stand(None))  # The next step only resets, once the game is back.
    assert reward[0] == 0
    assert observation["speed"][0, 0] == 0


@pytest.mark.parametrize("fault", ["refuse_once", "dialog", "none"])
def test_trackmania_restart_is_confirmed_and_tried_again(make, fault):
    env = make()
    drive(env, 60, lambda _: np.array([[1, 0, 0]], np.float32))
    game = game_of(env)
    game._refusals = 0
    if fault != "none":
        game.add_fault(fault, 2.0)
    before, restarts = game.time, game.restarts
    observation, info = env.reset()
    assert game.restarts == restarts + 1
    assert observation["speed"][0, 0] == 0
    assert info["progress"][0] == 0
    assert game.time - before < 5.0


def test_trackmania_run_pauses_for_a_menu_and_goes_on(make, caplog):
    env = make(pause_seconds=30.0)
    env.reset(seed=1)
    game_of(env).add_fault("menu", 8.0)
    env.reset()
    assert "paused until it can be restarted: the game is connected and sends nothing" in caplog.text
    assert "the race goes on" in caplog.text


@pytest.mark.parametrize(
    ("fault", "reason"), [("menu", "sends nothing"), ("refuse", "does not come back to the start")]
)
def test_trackmania_run_that_cannot_restart_ends_with_the_reason(make, fault, reason):
    env = make(pause_seconds=0.0)
    drive(env, 60, lambda _: np.array([[1, 0, 0]], np.float32))
    game_of(env).add_fault(fault)
    before = game_of(env).time
    with pytest.raises(Exception, match=reason) as raised:
        env.reset()
    assert isinstance(raised.value, GameError)
    assert game_of(env).time - before < 6.0


def test_trackmania_runs_are_equal_in_virtual_time(make):
    def run():
        env = make(interface="lidar_progress")
        observation, _ = env.reset(seed=1)
        rows = []
        for _ in range(60):
            observation, reward, *_ = env.step(longest_beam(observation))
            rows.append([*observation["rays"].ravel(), *observation["progress"][0], reward[0]])
        return np.array(rows)

    first = run()
    assert (first == run()).all()
    assert first[-1, -2] > 0


def test_trackmania_reward_weights_and_trajectory_files(make, road, tmp_path):
    trajectory, lap_time = drive_and_record(TwinSettings(track=road, countdown=0.5))
    steps = np.linalg.norm(np.diff(trajectory.points, axis=0), axis=1)
    assert np.abs(steps[:-1] - 0.1).max() < 1e-9
    assert 5 < lap_time < 30
    save_trajectory(trajectory, tmp_path / "small.safetensors")
    env = make(trajectory=str(tmp_path / "small.safetensors"))
    env.set_reward_weight("progress", 0.0)
    _, reward, *_ = drive(env, 20, lambda _: np.array([[1, 0, 0]], np.float32))
    assert reward[0] == 0.0
    env.set_reward_weight("progress", 0.5)
    assert env.step(np.array([[1, 0, 0]], np.float32))[1][0] > 0
    assert env.render()[0].shape == (128, 256, 3)
    assert list(spec_of(env).observation) == ["last_actions", "rays", "speed"]


def test_trackmania_configuration_is_checked():
    def check(**options):
        return validate_target({"_target_": TARGET, "num_envs": 1, **options})

    with pytest.raises(ValidationError, match="clock=virtual needs game=twin"):
        check(clock="virtual")
    with pytest.raises(ValidationError, match="leave port out"):
        check(clock="virtual", game="twin", port=9000)
    with pytest.raises(ValidationError, match="leave them out"):
        check(game="twin", interface_kwargs={"save_replays": False})
    with pytest.raises(ValidationError, match="TMRL's rule alone"):
        check(game="twin", reward={"rule": "trackmania_exact", "combination": "all"})
    with pytest.raises(ValidationError, match="both numbers"):
        check(image_width=None)
    with pytest.raises(InputError, match="paddock record trajectory"):
        make_env(game="trackmania", clock="wall")
    with pytest.raises(SingleCopyError, match="2 copies"):
        make_trackmania(check(game="twin"), 2)
