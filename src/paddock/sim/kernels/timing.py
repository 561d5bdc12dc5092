"""Lap timing: laps, sectors and gates, with crossings interpolated inside the substep.

A lap is measured in net metres since the line. Its gates lie at even distances, the last one is the line itself, and
each must be crossed, in order, with some part of the car above the road; otherwise the lap is not valid.
"""

from __future__ import annotations

import math

from paddock.sim import layout as L
from paddock.sim.kernels.compile import part
from paddock.sim.kernels.records import Cars, Doubles, Laps, Rules, Singles
from paddock.sim.kernels.road import between, frame_at, place_at


@part
def crossing(
    gate_s: float,
    guess: float,
    x: float,
    y: float,
    path: Singles,
    lane: int,
    substeps: int,
    road: Singles,
    track: Doubles,
) -> tuple[float, float, float, float]:
    """(share of the step at which the gate's line was crossed, lateral m there, left and right width m).

    `path` holds the metres moved since (x, y) after 0, 1, ... substeps: x of substep k at [0, k, lane], y at [1, k,
    lane]. Where the path does not cross the line (a push by a wall moved the car), `guess` is the answer.
    """
    first, count = int(track[L.TRACK_FIRST_POINT]), int(track[L.TRACK_POINTS])
    index, fraction = place_at(gate_s, track[L.TRACK_LENGTH], track[L.TRACK_SPACING], count)
    gx, gy, tx, ty = frame_at(road, first, count, index, fraction)
    left = between(road, first, count, index, fraction, L.ROAD_LEFT)
    right = between(road, first, count, index, fraction, L.ROAD_RIGHT)
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
def time_gates(
    n: int, gain: float, reach_aside: float, x: float, y: float, path: Singles, lane: int,
    road: Singles, track: Doubles, rules: Rules, cars: Cars, laps: Laps,
) -> None:  # fmt: skip
    """Time the gates within the `gain` net metres that car `n` drove in the step that began at (x, y).

    `reach_aside` is how far the car's corners reach from its centre, m across the road as it is turned now.
    """
    options, time_step = rules.options, rules.numbers[L.NUMBER_TIME_STEP]
    gates, sectors, substeps = options[L.OPTION_GATES], options[L.OPTION_SECTORS], options[L.OPTION_SUBSTEPS]
    doubles, integers, flags = cars.doubles, cars.integers, cars.flags
    length = track[L.TRACK_LENGTH]
    before = doubles[L.LAP_DISTANCE, n]
    after = before + gain
    for _ in range(gates + 1):
        gate = integers[L.NEXT_GATE, n]
        place = gate * length / gates
        if after < place or gain <= 0.0:
            break
        guess = min(max((place - before) / gain, 0.0), 1.0)
        gate_s = doubles[L.LAP_ORIGIN, n] + place
        share, lateral, left, right = crossing(gate_s, guess, x, y, path, lane, substeps, road, track)
        time = doubles[L.TIME, n] + share * time_step
        if lateral > left + reach_aside or -lateral > right + reach_aside:
            flags[L.LAP_VALID, n] = False
            flags[L.CUT, n] = True
        per_sector = gates // sectors
        if gate % per_sector == 0:
            timed = integers[L.LAP_KIND, n] != L.OUT_LAP and flags[L.LAP_VALID, n]
            sector = gate // per_sector - 1
            laps.sectors[n, 0, sector] = time - doubles[L.SECTOR_START, n] if timed else math.nan
            doubles[L.SECTOR_START, n] = time
        if gate == gates:
            _finish_lap(n, time, cars, laps)
            before -= length
            after -= length
        else:
            integers[L.NEXT_GATE, n] = gate + 1
    doubles[L.LAP_DISTANCE, n] = after


@part
def _finish_lap(n: int, time: float, cars: Cars, laps: Laps) -> None:
    doubles, integers, flags, sectors = cars.doubles, cars.integers, cars.flags, laps.sectors
    if integers[L.LAP_KIND, n] != L.OUT_LAP and flags[L.LAP_VALID, n]:
        lap_time = time - doubles[L.LAP_START, n]
        slot = integers[L.LAP_COUNT, n] % laps.times.shape[1]
        laps.times[n, slot] = lap_time
        laps.kinds[n, slot] = integers[L.LAP_KIND, n]
        doubles[L.LAST_LAP_TIME, n] = lap_time
        best = doubles[L.BEST_LAP_TIME, n]
        doubles[L.BEST_LAP_TIME, n] = lap_time if math.isnan(best) else min(best, lap_time)
        integers[L.LAP_COUNT, n] += 1
        flags[L.LAP_COMPLETED, n] = True
        for sector in range(sectors.shape[2]):
            sectors[n, 1, sector] = sectors[n, 0, sector]
    elif integers[L.LAP_KIND, n] != L.OUT_LAP:
        flags[L.LAP_REJECTED, n] = True
    for sector in range(sectors.shape[2]):
        sectors[n, 0, sector] = math.nan
    doubles[L.LAP_START, n] = time
    integers[L.LAP_KIND, n] = L.FLYING_LAP
    integers[L.NEXT_GATE, n] = 1
    flags[L.LAP_VALID, n] = True
