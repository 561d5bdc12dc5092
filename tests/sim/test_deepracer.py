"""DeepRacer's dictionary: every key, its meaning, and public-style reward functions run unchanged."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from paddock.core.errors import InputError
from paddock.sim.rewards.custom import load_reward
from paddock.sim.rewards.deepracer import DEEPRACER_KEYS, course_of, deepracer_params
from paddock.sim.rewards.terms import RewardInputs, RewardSet, Term
from paddock.sim.tracks.obstacles import with_obstacles
from paddock.sim.tracks.sources import load_track

# In the manner of the examples in DeepRacer's own guide, which use most of the keys between them.
FOLLOW_THE_CENTRE = '''
def reward_function(params):
    """Stay close to the centre line."""
    track_width = params['track_width']
    distance_from_center = params['distance_from_center']
    marker_1 = 0.1 * track_width
    marker_2 = 0.25 * track_width
    marker_3 = 0.5 * track_width
    if distance_from_center <= marker_1:
        reward = 1.0
    elif distance_from_center <= marker_2:
        reward = 0.5
    elif distance_from_center <= marker_3:
        reward = 0.1
    else:
        reward = 1e-3
    return float(reward)
'''
FACE_THE_ROAD = """
import math

def reward_function(params):
    waypoints = params['waypoints']
    closest_waypoints = params['closest_waypoints']
    heading = params['heading']
    reward = 1.0
    next_point = waypoints[closest_waypoints[1]]
    prev_point = waypoints[closest_waypoints[0]]
    track_direction = math.atan2(next_point[1] - prev_point[1], next_point[0] - prev_point[0])
    track_direction = math.degrees(track_direction)
    direction_diff = abs(track_direction - heading)
    if direction_diff > 180:
        direction_diff = 360 - direction_diff
    if direction_diff > 10.0:
        reward *= 0.5
    return float(reward)
"""
AVOID_OBJECTS = """
import math

def reward_function(params):
    agent_x, agent_y = params['x'], params['y']
    objects_location = params['objects_location']
    _, next_object_index = params['closest_objects']
    is_left_of_center = params['is_left_of_center']
    reward = 1e-3
    if params['all_wheels_on_track'] and (0.5 * params['track_width'] - params['distance_from_center']) >= 0.05:
        reward = 1.0
    next_object_loc = objects_location[next_object_index]
    distance_closest_object = math.sqrt((agent_x - next_object_loc[0])**2 + (agent_y - next_object_loc[1])**2)
    is_same_lane = params['objects_left_of_center'][next_object_index] == is_left_of_center
    if is_same_lane and distance_closest_object < 5:
        reward *= 0.2
    if params['steps'] > 0 and params['progress'] == 100:
        reward += 100
    return float(reward)
"""


def inputs_at(track, index, *, lateral=0.0, turned=0.0, group_size=1, travelled=0.0):
    """Cars standing at the given centreline points, `lateral` m to the left, `turned` rad off the road."""
    index = np.asarray(index)
    count = len(index)
    lateral, travelled = np.broadcast_to(lateral, count), np.broadcast_to(travelled, count)
    place = np.stack([track.x, track.y], axis=1)[index] + track.normal[index] * lateral[:, None]
    world = SimpleNamespace(
        tracks=[track],
        track_index=np.zeros(count, np.int32),
        group_size=group_size,
        x=place[:, 0],
        y=place[:, 1],
        heading=track.heading[index] + turned,
        vx=np.full(count, 3.0),
        vy=np.full(count, 4.0),
        steer=np.full(count, 0.1),
        s=index * track.spacing,
    )
    flags, zeros = np.zeros(count, np.bool_), np.zeros(count, np.float32)
    return RewardInputs(
        step_time=0.05,
        top_speed=zeros + 50,
        progress_gain=zeros,
        speed=zeros + 3,
        lateral=lateral.astype(np.float32),
        half_width=zeros + 5,
        collided=flags,
        off_track=flags,
        wheels_off=np.zeros(count, np.int32),
        crashed=flags,
        lap_completed=flags,
        action=np.zeros((count, 2), np.float32),
        previous_action=np.zeros((count, 2), np.float32),
        car_length=4.7,
        car_width=2.0,
        world=world,
        travelled=travelled.astype(float),
        episode_steps=np.arange(1, count + 1, dtype=np.int32),
    )


@pytest.fixture(scope="module")
def track():
    return load_track("oval")


def test_every_key_is_there_with_a_plain_value(track):
    params = deepracer_params(inputs_at(track, [10, 200]))[0]
    assert set(params) == set(DEEPRACER_KEYS)
    assert params["speed"] == pytest.approx(5.0)
    assert params["steering_angle"] == pytest.approx(math.degrees(0.1))
    assert params["track_length"] == pytest.approx(track.length)
    assert params["track_width"] == pytest.approx(track.left_width[10] + track.right_width[10])
    assert params["steps"] == 1
    assert all(isinstance(params[key], bool) for key in params if key.startswith(("is_", "all_")))
    assert -180 <= params["heading"] <= 180


def test_waypoints_close_the_loop_and_enclose_the_car(track):
    for index in (0, 10, len(track.x) // 2, len(track.x) - 1):
        params = deepracer_params(inputs_at(track, [index]))[0]
        waypoints, (behind, ahead) = params["waypoints"], params["closest_waypoints"]
        assert waypoints[0] == waypoints[-1]
        assert ahead == behind + 1 < len(waypoints)
        spacing = course_of(track).waypoint_spacing
        for which in (behind, ahead):
            away = math.hypot(waypoints[which][0] - params["x"], waypoints[which][1] - params["y"])
            assert away <= spacing + track.spacing


def test_sides_wheels_and_directions(track):
    edge = float(track.left_width[10])
    laterals = [2.0, -2.0, edge - 0.5]
    rows = deepracer_params(inputs_at(track, [10, 10, 10], lateral=np.array(laterals)))
    assert [row["is_left_of_center"] for row in rows] == [True, False, True]
    assert [row["all_wheels_on_track"] for row in rows] == [True, True, False]
    assert rows[1]["distance_from_center"] == pytest.approx(2.0)
    assert not rows[0]["is_reversed"]
    assert deepracer_params(inputs_at(track, [10], turned=math.pi))[0]["is_reversed"]


def test_progress_is_a_share_of_the_lap_from_where_the_episode_began(track):
    travelled = np.array([0.0, 0.25, 1.5, -0.1]) * track.length
    rows = deepracer_params(inputs_at(track, [5, 5, 5, 5], travelled=travelled))
    assert [row["progress"] for row in rows] == pytest.approx([0.0, 25.0, 50.0, 0.0])
    finished = inputs_at(track, [0], travelled=track.length)
    finished.lap_completed = np.ones(1, np.bool_)
    assert deepracer_params(finished)[0]["progress"] == 100.0


def test_obstacles_and_other_cars_are_objects(track):
    crowded = with_obstacles(track, 3, seed=2)
    rows = deepracer_params(inputs_at(crowded, [10, 60, 20, 30], group_size=2))
    params = rows[0]
    assert len(params["objects_location"]) == 4
    assert params["objects_location"][3] == (rows[1]["x"], rows[1]["y"])
    assert params["objects_speed"][:3] == [0.0] * 3
    assert params["objects_speed"][3] == pytest.approx(5.0)
    behind, ahead = params["closest_objects"]
    gaps = [(distance - 10 * track.spacing) % track.length for distance in params["objects_distance"]]
    assert gaps[ahead] == min(gaps)
    assert gaps[behind] == max(gaps)
    assert deepracer_params(inputs_at(track, [10]))[0]["closest_objects"] == [0, 0]


@pytest.mark.parametrize("text", [FOLLOW_THE_CENTRE, FACE_THE_ROAD, AVOID_OBJECTS])
def test_a_public_style_function_runs_unchanged(tmp_path, track, text):
    file = tmp_path / "reward_function.py"
    file.write_text(text)
    term = Term("deepracer", 2.0, function=load_reward(f"{file}:reward_function"))
    inputs = inputs_at(with_obstacles(track, 2, seed=1), [10, 60, 120])
    total, _ = RewardSet([term], 3).compute(inputs, np.zeros(3, np.bool_))
    assert total.shape == (3,)
    assert (total > 0).all()


def test_facing_the_road_pays_more_than_facing_across_it(tmp_path, track):
    file = tmp_path / "mine.py"
    file.write_text(FACE_THE_ROAD)
    term = load_reward(f"{file}:reward_function")
    assert term(inputs_at(track, [10])) == [1.0]
    assert term(inputs_at(track, [10], turned=0.6)) == [0.5]


def test_a_wrong_one_is_told_its_line_and_the_keys_there_are(tmp_path, track):
    file = tmp_path / "mine.py"
    file.write_text("def reward_function(params):\n    reward = 1\n    return reward * params['progres']\n")
    with pytest.raises(InputError, match=r"mine.py, line 3, in reward_function: KeyError.*Did you mean 'progress'"):
        load_reward(f"{file}:reward_function")(inputs_at(track, [10]))
