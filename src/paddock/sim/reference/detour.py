"""A line past the obstacles of a road: the road is narrowed to what they leave free, and a line found within that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from paddock.sim.cars.car import CarParameters
from paddock.sim.reference.lap import line_margin
from paddock.sim.reference.line import racing_line
from paddock.sim.reference.polish import polished_line
from paddock.sim.reference.speed_profile import grip_envelope
from paddock.sim.tracks.track import Array, Track

TAPER = 0.2  # m per m: how the narrowed road widens again before and behind an obstacle


def line_past_obstacles(track: Track, car: CarParameters, offset: Array, clearance: float) -> Array:
    """[M] m: a line that keeps `clearance` m more from obstacles than from edges; `offset` [M] m where there are none.

    An obstacle is passed on the side on which `offset` lies, if the car fits there, or else on the wider one.
    """
    if not len(track.obstacles):
        return offset
    road, margin = _free_road(track, car, offset, clearance), line_margin(car)
    return polished_line(road, racing_line(road, margin), margin, grip_envelope(car))


def _free_road(track: Track, car: CarParameters, offset: Array, clearance: float) -> Track:
    left_edge, right_edge = track.left_width.copy(), -track.right_width
    for x, y, radius in track.obstacles:
        apart = np.stack([x - track.x, y - track.y], axis=1)
        nearest = int(np.argmin(np.sum(apart**2, axis=1)))
        lateral = float(apart[nearest] @ track.normal[nearest])
        keep_off = radius + clearance
        room_left = left_edge[nearest] - lateral - keep_off
        room_right = lateral - keep_off - right_edge[nearest]
        needed = 2.0 * line_margin(car)
        passes_left = bool(offset[nearest] > lateral)
        if (room_left if passes_left else room_right) < needed:
            passes_left = bool(room_left > room_right)
        along = np.abs(track.s - track.s[nearest])
        along = np.minimum(along, track.length - along)
        widening = TAPER * np.maximum(along - radius - 0.5 * car.length, 0.0)
        if passes_left:
            right_edge = np.maximum(right_edge, lateral + keep_off - widening)
        else:
            left_edge = np.minimum(left_edge, lateral - keep_off + widening)
    return replace(track, left_width=left_edge, right_width=-right_edge)
