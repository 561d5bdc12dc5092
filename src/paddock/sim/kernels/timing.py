"""The judge: laps, sectors and gates, with crossings interpolated inside the substep.

A lap is measured in net metres since the line. Its gates lie at even distances, the last one is the line itself, and
each must be crossed, in order, with some part of the car above the road; otherwise the lap is not valid.
"""

from __future__ import annotations

import math
from typing import Any

from paddock.sim.kernels.compile import part
from paddock.sim.kernels.road import between, frame_at, place_at
from paddock.sim.layout import (
    BEST_LAP_TIME,
    CUT,
    FLYING_LAP,
    LAP_COMPLETED,
    LAP_COUNT,
    LAP_DISTANCE,
    LAP_KIND,
    LAP_ORIGIN,
    LAP_REJECTED,
    LAP_START,
    LAP_VALID,
    LAST_LAP_TIME,
    NEXT_GATE,
    OUT_LAP,
    ROAD_LEFT,
    ROAD_RIGHT,
    SECTOR_START,
    TIME,
    TRACK_FIRST_POINT,
    TRACK_LENGTH,
    TRACK_POINTS,
    TRACK_SPACING,
)


@part
def crossing(
    gate_s: float, guess: float, x: float, y: float, path: Any, lane: int, substeps: int,
    road: Any, track: Any,
) -> tuple[float, float, float, float]:  # fmt: skip
    """(share of the step at which the gate's line was crossed, lateral m there, left and right width m).

    `path` holds the metres moved since (x, y) after 0, 1, ... substeps: x of substep k at [0, k, lane], y at [1, k,
    lane]. Where the path does not cross the line (a push by a wall moved the car), `guess` is the answer.
    """
    first, count = int(track[TRACK_FIRST_POINT]), int(track[TRACK_POINTS])
    index, fraction = place_at(gate_s, track[TRACK_LENGTH], track[TRACK_SPACING], count)
    gx, gy, tx, ty = frame_at(road, first, count, index, fraction)
    left = between(road, first, count, index, fraction, ROAD_LEFT)
    right = between(road, first, count, index, fraction, ROAD_RIGHT)
    share = guess
    before = (x - gx) * tx + (y - gy) * ty
    for k in range(substeps):
        after = (x + path[0, k + 1, lane] - gx) * tx + (y + path[1, k + 1, lane] - gy) * ty
        if before < 0.0 <= after:
            share = (k + before / (before - after)) / substeps
            break
        before = after
    at = share * substeps
    k = min(int(at), substeps - 1)
    rest = at - k
    px = x + path[0, k, lane] + rest * (path[0, k + 1, lane] - path[0, k, lane])
    py = y + path[1, k, lane] + rest * (path[1, k + 1, lane] - path[1, k, lane])
    return share, (py - gy) * tx - (px - gx) * ty, left, right


@part
def judge(
    n: int, gain: float, time_step: float, gates: int, sectors: int, reach_aside: float,
    x: float, y: float, path: Any, lane: int, substeps: int, road: Any, track: Any,
    doubles: Any, integers: Any, flags: Any, lap_times: Any, lap_kinds: Any, sector_times: Any,
) -> None:  # fmt: skip
    """Take account of the gates within the `gain` net metres that car `n` drove in the step that began at (x, y).

    `reach_aside` is how far the car's corners reach from its centre, m across the road as it is turned now.
    `sector_times` [N, 2, sectors] holds this lap's sectors and those of the last counted lap.
    """
    length = track[TRACK_LENGTH]
    before = doubles[LAP_DISTANCE, n]
    after = before + gain
    for _ in range(gates + 1):
        gate = integers[NEXT_GATE, n]
        place = gate * length / gates
        if after < place or gain <= 0.0:
            break
        guess = min(max((place - before) / gain, 0.0), 1.0)
        gate_s = doubles[LAP_ORIGIN, n] + place
        share, lateral, left, right = crossing(gate_s, guess, x, y, path, lane, substeps, road, track)
        time = doubles[TIME, n] + share * time_step
        if lateral > left + reach_aside or -lateral > right + reach_aside:
            flags[LAP_VALID, n] = False
            flags[CUT, n] = True
        per_sector = gates // sectors
        if gate % per_sector == 0:
            timed = integers[LAP_KIND, n] != OUT_LAP and flags[LAP_VALID, n]
            sector = gate // per_sector - 1
            sector_times[n, 0, sector] = time - doubles[SECTOR_START, n] if timed else math.nan
            doubles[SECTOR_START, n] = time
        if gate == gates:
            _finish_lap(n, time, sectors, doubles, integers, flags, lap_times, lap_kinds, sector_times)
            before -= length
            after -= length
        else:
            integers[NEXT_GATE, n] = gate + 1
    doubles[LAP_DISTANCE, n] = after


@part
def _finish_lap(
    n: int, time: float, sectors: int,
    doubles: Any, integers: Any, flags: Any, lap_times: Any, lap_kinds: Any, sector_times: Any,
) -> None:  # fmt: skip
    if integers[LAP_KIND, n] != OUT_LAP and flags[LAP_VALID, n]:
        lap_time = time - doubles[LAP_START, n]
        slot = integers[LAP_COUNT, n] % lap_times.shape[1]
        lap_times[n, slot] = lap_time
        lap_kinds[n, slot] = integers[LAP_KIND, n]
        doubles[LAST_LAP_TIME, n] = lap_time
        best = doubles[BEST_LAP_TIME, n]
        doubles[BEST_LAP_TIME, n] = lap_time if math.isnan(best) else min(best, lap_time)
        integers[LAP_COUNT, n] += 1
        flags[LAP_COMPLETED, n] = True
        for sector in range(sectors):
            sector_times[n, 1, sector] = sector_times[n, 0, sector]
    elif integers[LAP_KIND, n] != OUT_LAP:
        flags[LAP_REJECTED, n] = True
    for sector in range(sectors):
        sector_times[n, 0, sector] = math.nan
    doubles[LAP_START, n] = time
    integers[LAP_KIND, n] = FLYING_LAP
    integers[NEXT_GATE, n] = 1
    flags[LAP_VALID, n] = True
