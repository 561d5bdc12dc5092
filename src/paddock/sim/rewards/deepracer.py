"""The `params` dictionary that AWS DeepRacer hands to `reward_function(params)`, filled from the racing world."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.sim.rewards.terms import RewardInputs
from paddock.sim.tracks.track import Track, wrap_angle

DEEPRACER_KEYS = (
    "all_wheels_on_track",
    "x",
    "y",
    "closest_objects",
    "closest_waypoints",
    "distance_from_center",
    "is_crashed",
    "is_left_of_center",
    "is_offtrack",
    "is_reversed",
    "heading",
    "objects_distance",
    "objects_heading",
    "objects_left_of_center",
    "objects_location",
    "objects_speed",
    "progress",
    "speed",
    "steering_angle",
    "steps",
    "track_length",
    "track_width",
    "waypoints",
)
WAYPOINTS_PER_WIDTH = 4.0  # as dense as on DeepRacer's own tracks


@dataclass(frozen=True)
class Course:
    """What of a track never changes, in DeepRacer's terms."""

    waypoints: list[tuple[float, float]]  # the first again at the end
    waypoint_spacing: float  # m
    object_locations: list[tuple[float, float]]
    object_distances: list[float]  # m from the start line
    object_sides: list[bool]  # left of the centreline


@lru_cache(maxsize=64)
def course_of(track: Track) -> Course:
    """Waypoints and obstacles of a track."""
    width = track.mean_width
    count = min(max(round(track.length / (width / WAYPOINTS_PER_WIDTH)), 8), len(track.x))
    index = np.arange(count) * len(track.x) // count
    waypoints = list(zip(track.x[index].tolist(), track.y[index].tolist(), strict=True))
    waypoints.append(waypoints[0])
    away = np.hypot(track.obstacles[:, :1] - track.x, track.obstacles[:, 1:2] - track.y)  # [K, M]
    nearest = away.argmin(axis=1) if len(away) else np.zeros(0, dtype=int)
    left = ((track.obstacles[:, :2] - np.stack([track.x, track.y], axis=1)[nearest]) * track.normal[nearest]).sum(1)
    return Course(
        waypoints=waypoints,
        waypoint_spacing=track.length / count,
        object_locations=[(float(x), float(y)) for x, y in track.obstacles[:, :2]],
        object_distances=(nearest * track.spacing).tolist(),
        object_sides=(left > 0).tolist(),
    )


def deepracer_params(inputs: RewardInputs) -> list[dict[str, Any]]:
    """One dictionary with every key of `DEEPRACER_KEYS` for each of the N cars."""
    world = inputs.world
    tracks: list[Track] = list(world.tracks)
    which = np.asarray(world.track_index)
    heading = wrap_angle(np.asarray(world.heading, dtype=np.float64))
    place = (np.asarray(world.s) / np.array([track.spacing for track in tracks])[which]).astype(np.int64)
    road = _road_at(tracks, which, place)
    off_axis = wrap_angle(heading - road[:, 0])
    lengths = np.array([track.length for track in tracks])[which]
    share = np.mod(inputs.travelled, lengths) / lengths * 100.0
    share = np.where(inputs.lap_completed, 100.0, np.where(inputs.travelled < 0, 0.0, share))
    columns: dict[str, Any] = {
        "all_wheels_on_track": _wheels_on_road(inputs, off_axis, road[:, 1], road[:, 2]),
        "x": world.x,
        "y": world.y,
        "distance_from_center": np.abs(inputs.lateral),
        "is_crashed": inputs.collided,
        "is_left_of_center": inputs.lateral > 0,
        "is_offtrack": inputs.off_track,
        "is_reversed": np.cos(off_axis) < 0,
        "heading": np.degrees(heading),
        "progress": share,
        "speed": np.hypot(world.vx, world.vy),
        "steering_angle": np.degrees(world.steer),
        "steps": inputs.episode_steps,
        "track_length": lengths,
        "track_width": road[:, 1] + road[:, 2],
    }
    listed = {key: np.asarray(value).tolist() for key, value in columns.items()}
    rows = [dict(zip(listed, row, strict=True)) for row in zip(*listed.values(), strict=True)]
    distances = np.asarray(world.s, dtype=float).tolist()
    for car, params in enumerate(rows):
        course = course_of(tracks[int(which[car])])
        _add_waypoints(params, course, distances[car])
        _add_objects(params, course, distances, rows, car, int(getattr(world, "group_size", 1)))
    return rows


def _road_at(tracks: list[Track], which: NDArray[Any], place: NDArray[Any]) -> NDArray[np.float64]:
    """Heading, left and right width of the road at each car, [N, 3]."""
    road = np.empty((len(which), 3))
    for index, track in enumerate(tracks):
        mine = which == index
        at = place[mine] % len(track.x)
        road[mine] = np.stack([track.heading[at], track.left_width[at], track.right_width[at]], axis=1)
    return road


def _wheels_on_road(
    inputs: RewardInputs, off_axis: NDArray[np.float64], left: NDArray[np.float64], right: NDArray[np.float64]
) -> NDArray[np.bool_]:
    reach = np.abs(np.sin(off_axis)) * inputs.car_length / 2 + np.abs(np.cos(off_axis)) * inputs.car_width / 2
    return (inputs.lateral + reach <= left) & (inputs.lateral - reach >= -right)


def _add_waypoints(params: dict[str, Any], course: Course, distance: float) -> None:
    count = len(course.waypoints) - 1
    behind = int(distance / course.waypoint_spacing) % count
    params["closest_waypoints"] = [behind, behind + 1]
    params["waypoints"] = course.waypoints


def _add_objects(
    params: dict[str, Any],
    course: Course,
    distances: list[float],
    rows: list[dict[str, Any]],
    car: int,
    group_size: int,
) -> None:
    first = car - car % group_size
    others = [index for index in range(first, first + group_size) if index != car]
    still = len(course.object_locations)
    along = course.object_distances + [distances[index] for index in others]
    params["objects_distance"] = along
    params["objects_heading"] = [0.0] * still + [rows[index]["heading"] for index in others]
    params["objects_left_of_center"] = course.object_sides + [rows[i]["is_left_of_center"] for i in others]
    params["objects_location"] = course.object_locations + [(rows[i]["x"], rows[i]["y"]) for i in others]
    params["objects_speed"] = [0.0] * still + [rows[index]["speed"] for index in others]
    params["closest_objects"] = _closest(along, distances[car], params["track_length"])


def _closest(along: list[float], here: float, length: float) -> list[int]:
    """Index of the nearest object behind and of the nearest ahead, along the track; [0, 0] without objects."""
    if not along:
        return [0, 0]
    ahead = [math.fmod(distance - here + length, length) for distance in along]
    return [max(range(len(ahead)), key=ahead.__getitem__), min(range(len(ahead)), key=ahead.__getitem__)]
