"""The episodes of a step in the launch that drives it: rewards, ends, observations, returns, and beginning anew.

The terms are those of `sim.rewards.terms`, number for number. An observation is one vector of
readings, each times its scale. What every car runs through is inlined: handing over the records costs more than the
arithmetic.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paddock.sim import layout as L
from paddock.sim.kernels.compile import inline, part
from paddock.sim.kernels.edge import near_edge
from paddock.sim.kernels.math import ONE, ZERO, clip
from paddock.sim.kernels.records import Bytes, Cars, Episodes, Results, Roads, Rules, Sensors, Singles

F32 = np.float32
HALF = F32(0.5)
TWENTY = F32(20.0)
LEAST_PROGRESS = 1e-3  # m


@inline
def judge(n: int, cars: Cars, episodes: Episodes) -> tuple[bool, bool]:
    """(whether the episode of car `n` failed, whether it ended) in this step; counts its metres, steps and laps."""
    options, metres, counts, flags = episodes.options, episodes.metres, episodes.counts, cars.flags
    travelled = metres[0, n] + np.float64(cars.singles[L.PROGRESS_GAIN, n])
    is_further = travelled > metres[1, n] + LEAST_PROGRESS
    metres[0, n] = travelled
    metres[1, n] = max(metres[1, n], travelled)
    counts[0, n] += 1
    counts[1, n] = 0 if is_further else counts[1, n] + 1
    counts[2, n] += 1 if flags[L.LAP_COMPLETED, n] else 0
    failed = flags[L.CRASHED, n]
    failed = failed or (options[L.EPISODE_IDLE] > 0 and counts[1, n] >= options[L.EPISODE_IDLE])
    failed = failed or abs(cars.singles[L.LATERAL, n]) > F32(episodes.off_line)
    failed = failed or (options[L.EPISODE_COLLISION] > 0 and flags[L.COLLIDED, n])
    failed = failed or (options[L.EPISODE_OFF_TRACK] > 0 and flags[L.OFF_TRACK, n])
    finished = options[L.EPISODE_LAPS] > 0 and counts[2, n] >= options[L.EPISODE_LAPS]
    return failed and not finished, failed or finished


@inline
def potential_of(term: int, option: float, n: int, cars: Cars, episodes: Episodes) -> Any:
    """A potential at the place of car `n`, float32."""
    singles, integers = cars.singles, cars.integers
    row = episodes.reference_rows[integers[L.TRACK, n]] + integers[L.INDEX, n]
    if term == L.TERM_APEX:
        lateral = singles[L.LATERAL, n]
        half_width = singles[L.LEFT_WIDTH, n] if lateral > ZERO else singles[L.RIGHT_WIDTH, n]
        distance = abs(lateral - episodes.reference[row, 0]) / half_width
        corner = min(abs(episodes.reference[row, 2]) * half_width * TWENTY, ONE)
        importance = F32(option) + F32(1.0 - option) * corner
        return importance * max(ONE - distance, ZERO)
    speed = episodes.reference[row, 1]
    return max(ONE - abs(singles[L.VX, n] - speed) / speed, ZERO)


@inline
def value_of(term: int, option: float, n: int, failed: bool, cars: Cars, roads: Roads, episodes: Episodes) -> Any:
    """What a term that is no potential gives car `n` before its weight, float32."""
    singles, flags, commands = cars.singles, cars.flags, episodes.commands
    gain = singles[L.PROGRESS_GAIN, n]
    value = gain
    if term == L.TERM_FINISH:
        value = F32(flags[L.LAP_COMPLETED, n])
    elif term == L.TERM_SPEED:
        pace = clip(singles[L.VX, n] / F32(option), ZERO, ONE)
        value = gain * pace if gain > ZERO else gain
    elif term == L.TERM_COLLISION:
        value = -F32(flags[L.COLLIDED, n])
    elif term == L.TERM_OFF_TRACK:
        value = F32(flags[L.OFF_TRACK, n]) * F32(-episodes.step_time)
    elif term == L.TERM_WHEELS_OFF:
        value = F32(cars.integers[L.WHEELS_OFF, n]) * F32(-0.25 * episodes.step_time)
        if option > 0.0:
            value = near_edge(n, option, cars, roads) * F32(-episodes.step_time)
    elif term == L.TERM_SMOOTHNESS:
        steer = commands[1, n, 0] - commands[0, n, 0]
        throttle = commands[1, n, 1] - commands[0, n, 1]
        value = -(steer * steer) - HALF * (throttle * throttle)
    elif term == L.TERM_FAILURE:
        value = -F32(failed)
    elif term == L.TERM_TIME_PRESSURE:
        value = F32(-episodes.step_time)
    return value


@inline
def score(n: int, failed: bool, ended: bool, cars: Cars, roads: Roads, episodes: Episodes, results: Results) -> None:
    """Write the reward of car `n` and what each term gave of it. A potential is zero where the episode has ended."""
    total = ZERO
    for k in range(episodes.weights.shape[0]):
        weight, given = episodes.weights[k], ZERO
        term, option = episodes.terms[k], episodes.term_options[k]
        if weight != 0.0 and term >= L.TERM_APEX:
            potential = ZERO if ended else potential_of(term, option, n, cars, episodes)
            change = potential - episodes.potential[k, n] if episodes.potential_known[k, n] else ZERO
            episodes.potential[k, n] = potential
            episodes.potential_known[k, n] = True
            given = change * F32(weight)
        elif weight != 0.0:
            given = value_of(term, option, n, failed, cars, roads, episodes) * F32(weight)
        results.singles[L.RESULT_TERMS + k, n] = given
        total = total + given
    results.singles[L.RESULT_REWARD, n] = total


@inline
def report(n: int, ended: bool, cars: Cars, episodes: Episodes, results: Results) -> bool:
    """Write what became of car `n` in this step; whether its episode is over."""
    limit, completed = episodes.options[L.EPISODE_LIMIT], cars.flags[L.LAP_COMPLETED, n]
    is_cut = limit > 0 and cars.integers[L.STEPS, n] >= limit and not ended
    results.doubles[L.RESULT_LAP_TIME, n] = cars.doubles[L.LAST_LAP_TIME, n] if completed else 0.0
    results.doubles[L.RESULT_PROGRESS, n] = cars.doubles[L.DISTANCE, n]
    results.doubles[L.RESULT_BEST_LAP_TIME, n] = cars.doubles[L.BEST_LAP_TIME, n]
    results.singles[L.RESULT_SPEED, n] = cars.singles[L.VX, n]
    results.integers[L.RESULT_STEPS, n] = cars.integers[L.STEPS, n]
    results.integers[L.RESULT_LAPS, n] = cars.integers[L.LAP_COUNT, n]
    results.flags[L.RESULT_TERMINATED, n] = ended
    results.flags[L.RESULT_TRUNCATED, n] = is_cut
    results.flags[L.RESULT_DONE, n] = ended or is_cut
    results.flags[L.RESULT_LAP_COMPLETED, n] = completed
    results.flags[L.RESULT_OFF_TRACK, n] = cars.flags[L.OFF_TRACK, n]
    results.flags[L.RESULT_COLLIDED, n] = cars.flags[L.COLLIDED, n]
    return ended or is_cut


@inline
def add_up(n: int, e: int, episodes: Episodes, results: Results) -> None:
    """Count the step of car `n` to the returns of environment `e`, and its action to the last ones."""
    returns, singles, last, actions = episodes.returns, results.singles, episodes.last_actions, episodes.actions
    returns[0, e] += np.float64(singles[L.RESULT_REWARD, n])
    for k in range(episodes.weights.shape[0]):
        returns[1 + k, e] += np.float64(singles[L.RESULT_TERMS + k, n])
    if episodes.options[L.EPISODE_SHIFTS] > 0 and last.shape[1] > 0:
        for age in range(last.shape[1] - 1, 0, -1):
            for a in range(last.shape[2]):
                last[e, age, a] = last[e, age - 1, a]
        for a in range(last.shape[2]):
            last[e, 0, a] = actions[e, a]


@inline
def copy_scaled(reading: Singles, scale: Singles, out: Singles) -> None:
    """Slices of one length: a loop from 0 over them becomes vector instructions."""
    for k in range(reading.shape[0]):
        out[k] = reading[k] * scale[k]


@inline
def copy_readings(n: int, readings: Singles, newest: int, at: int, size: int, episodes: Episodes, row: Singles) -> None:
    """Write `size` readings from the `newest` on, times their scale, into `row` from `at` on."""
    width = readings.shape[2]
    for age in range(size // width):
        copy_scaled(readings[n, newest + age], episodes.scale[at : at + width], row[at : at + width])
        at += width


@inline
def clip_to_range(low: Singles, out: Singles) -> None:
    for k in range(out.shape[0]):
        out[k] = clip(out[k], low[k], ONE)


@inline
def observe(n: int, e: int, cars: Cars, roads: Roads, sensors: Sensors, episodes: Episodes, out: Singles) -> None:
    """Write the observation of car `n` into row `e` of `out`."""
    row, parts, at = out[e], episodes.parts, 0
    for k in range(parts.shape[0]):
        source, newest, column, size = parts[k, 0], parts[k, 1], parts[k, 2], parts[k, 3]
        if source == L.PART_TELEMETRY:
            row[at] = clip(sensors.telemetry[n, newest, column] * episodes.scale[at], episodes.low[at], ONE)
        elif source == L.PART_RAYS:
            copy_readings(n, sensors.rays, newest, at, size, episodes, row)
        elif source == L.PART_COURSE:
            copy_readings(n, sensors.course, newest, at, size, episodes, row)
            clip_to_range(episodes.low[at : at + size], row[at : at + size])
        elif source == L.PART_ACTIONS:
            last = episodes.last_actions
            for age in range(last.shape[1]):
                for a in range(last.shape[2]):
                    row[at + age * last.shape[2] + a] = last[e, age, a]
        else:
            length = roads.tracks[cars.integers[L.TRACK, n], L.TRACK_LENGTH]
            angle = 2.0 * math.pi * cars.doubles[L.S, n] / length
            for circle in range(size // 2):
                row[at + 2 * circle] = math.cos(angle)
                row[at + 2 * circle + 1] = math.sin(angle)
                angle *= 2.0
        at += size


@part
def end_episode(n: int, e: int, episodes: Episodes, results: Results) -> None:
    """Keep the last observation and the returns of environment `e`, and forget the episode."""
    for k in range(results.observation.shape[1]):
        results.final_observation[e, k] = results.observation[e, k]
    for k in range(episodes.returns.shape[0]):
        results.final_returns[k, e] = episodes.returns[k, e]
        episodes.returns[k, e] = 0.0
    for k in range(episodes.weights.shape[0]):
        episodes.potential_known[k, n] = False
    for k in range(2):
        episodes.metres[k, n] = 0.0
        episodes.commands[k, n, 0] = episodes.commands[k, n, 1] = ZERO
    for k in range(3):
        episodes.counts[k, n] = 0
    for age in range(episodes.last_actions.shape[1]):
        for a in range(episodes.last_actions.shape[2]):
            episodes.last_actions[e, age, a] = ZERO


@part
def begin_episode(n: int, cars: Cars, episodes: Episodes) -> None:
    """Note the potentials where car `n` starts, so that its first step counts too."""
    for k in range(episodes.weights.shape[0]):
        if episodes.terms[k] >= L.TERM_APEX and episodes.weights[k] > 0.0:
            episodes.potential[k, n] = potential_of(episodes.terms[k], episodes.term_options[k], n, cars, episodes)
            episodes.potential_known[k, n] = True


@part
def follow_episodes(
    start: int, stop: int, modes: Bytes,
    rules: Rules, cars: Cars, roads: Roads, sensors: Sensors, episodes: Episodes, results: Results,
) -> bool:  # fmt: skip
    """The episodes of the cars `start` to `stop` after a step, and of those that began anew; whether any is to begin.

    Where episodes restart, `modes` says afterwards which cars are to be reset: the others are left alone.
    """
    options, group = episodes.options, rules.options[L.OPTION_GROUP]
    if options[L.EPISODE_SCORES] == 0:
        return False
    observes, restarts = options[L.EPISODE_OBSERVES] > 0, options[L.EPISODE_RESTARTS] > 0
    begins = False
    for n in range(start, stop):
        e, is_learning = n // group, n % group == 0
        is_over = False
        if modes[n] == L.STEP_CAR:
            failed, ended = judge(n, cars, episodes)
            score(n, failed, ended, cars, roads, episodes, results)
            is_over = report(n, ended, cars, episodes, results)
            if is_learning:
                add_up(n, e, episodes, results)
        elif modes[n] == L.RESET_CAR:
            begin_episode(n, cars, episodes)
        if observes and is_learning and modes[n] != L.SKIP_CAR:
            observe(n, e, cars, roads, sensors, episodes, results.observation)
        if restarts and is_over:
            end_episode(n, e, episodes, results)
            begins = True
        if restarts:
            modes[n] = L.RESET_CAR if is_over else L.SKIP_CAR
    return begins
