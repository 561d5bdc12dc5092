"""How near a car is to the edge of the road, for rewards that take the road to be narrower than it is."""

from __future__ import annotations

import math

import numpy as np

from paddock.sim import layout as L
from paddock.sim.cars.car import PARAMETER_INDEX
from paddock.sim.kernels.compile import kernel, part
from paddock.sim.kernels.math import cosine, sine
from paddock.sim.kernels.records import Cars, Roads, Singles
from paddock.sim.kernels.road import edge_excess

LENGTH = PARAMETER_INDEX["length"]
WIDTH = PARAMETER_INDEX["width"]
F32 = np.float32


@part
def near_edge(n: int, margin: float, cars: Cars, roads: Roads) -> np.float32:
    """How far the farthest corner of car `n` is through the last `margin` m of road: 0 before, 1 from the edge on."""
    doubles, singles, track = cars.doubles, cars.singles, roads.tracks[cars.integers[L.TRACK, n]]
    half_length, half_width = 0.5 * cars.parameters[n, LENGTH], 0.5 * cars.parameters[n, WIDTH]
    lateral, askew = singles[L.LATERAL, n], singles[L.HEADING_ERROR, n]
    aside = half_width * abs(math.cos(askew)) + half_length * abs(math.sin(askew))
    # A corner is no farther out than that on a straight road; a fifth of the body is more than a bend adds.
    slack = margin + 0.2 * (half_length + half_width)
    if max(lateral - singles[L.LEFT_WIDTH, n], -lateral - singles[L.RIGHT_WIDTH, n]) + aside <= -slack:
        return F32(0.0)
    first, count = int(track[L.TRACK_FIRST_POINT]), int(track[L.TRACK_POINTS])
    reach = int(half_length / track[L.TRACK_SPACING]) + 3
    cos, sin = cosine(singles[L.HEADING, n]), sine(singles[L.HEADING, n])
    index, farthest = np.int64(cars.integers[L.INDEX, n]), -math.inf
    for corner in range(4):
        forward = half_length if corner < 2 else -half_length
        sideways = half_width if corner % 2 == 0 else -half_width
        x = doubles[L.X, n] + (forward * cos - sideways * sin)
        y = doubles[L.Y, n] + (forward * sin + sideways * cos)
        excess, _, _ = edge_excess(roads.points, first, count, index, reach, x, y)
        farthest = max(farthest, excess)
    return F32(min(max(1.0 + farthest / margin, 0.0), 1.0))


@kernel()
def measure_near_edge(margin: float, cars: Cars, roads: Roads, out: Singles) -> None:
    """`near_edge` of every car."""
    for n in range(out.shape[0]):
        out[n] = near_edge(n, margin, cars, roads)
