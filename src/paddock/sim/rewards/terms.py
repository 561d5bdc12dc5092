"""Rewards as weighted terms: each a small pure function over all cars, logged under its name, reweighted at run time.

Net progress is what pays: every term that pays for moving takes at least as much back for moving back.
A weight is never negative; penalties are negative values. The kernel computes the same terms for all cars in the
launch that drives them (`kernels.episodes`); those here define them, and count beside functions of a person's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.core.errors import InputError, unknown_choice
from paddock.sim import layout

Values = NDArray[np.float32]
Flags = NDArray[np.bool_]
APEX_FLOOR = 0.2


@dataclass
class RewardInputs:
    """What the terms read, all over N cars after a step. Metres, seconds, radians.

    `reference_*` come from the reference lap at each car's place and are only needed by the terms that name it.
    """

    step_time: float  # s
    top_speed: Values  # m/s
    progress_gain: Values  # m along the track in this step, signed
    speed: Values  # m/s, forward speed of the car
    lateral: Values  # m from the centreline, left positive
    half_width: Values  # m, road edge from the centreline on the car's side
    collided: Flags
    off_track: Flags
    wheels_off: NDArray[np.int32]  # corners of the car beyond the road's edge, 0 to 4
    crashed: Flags  # for good: the car will not move again in this episode
    lap_completed: Flags  # a counted lap ended in this step
    action: Values  # [N, 2] steer and throttle of this step
    previous_action: Values  # [N, 2]
    reference_offset: Values | None = None  # m, lateral place of the reference line
    reference_speed: Values | None = None  # m/s
    reference_curvature: Values | None = None  # 1/m
    car_length: float = 0.0  # m
    car_width: float = 0.0  # m
    world: Any = None  # the whole world, for a margin of `wheels_off` and for functions of a person's own
    travelled: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # m, net, in this episode
    episode_steps: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    failed: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))  # ended in this step, and not by its last lap


# --- terms: inputs -> float32 [N] -----------------------------------------------------------------------------------


def progress(inputs: RewardInputs) -> Values:
    """Net metres gained along the track; a metre lost costs what a metre gained pays."""
    return inputs.progress_gain


def finish(inputs: RewardInputs) -> Values:
    """1 when a lap is completed with every gate passed in order."""
    return inputs.lap_completed.astype(np.float32)


def speed(inputs: RewardInputs, full_speed: float | None = None) -> Values:
    """Metres gained, worth more the faster they are driven: up to 1 a metre at `full_speed` (default: top speed).

    A metre lost always costs 1, the most that it can have paid, so no rhythm of going to and fro earns anything.
    """
    full = inputs.top_speed if full_speed is None else np.float32(full_speed)
    pace = np.clip(inputs.speed / full, np.float32(0.0), np.float32(1.0))
    return np.where(inputs.progress_gain > 0, inputs.progress_gain * pace, inputs.progress_gain)


def collision(inputs: RewardInputs) -> Values:
    """-1 for a step with a collision."""
    return -inputs.collided.astype(np.float32)


def off_track(inputs: RewardInputs) -> Values:
    """-1 for every second off the road."""
    return inputs.off_track * np.float32(-inputs.step_time)


def wheels_off(inputs: RewardInputs, margin: float = 0.0) -> Values:
    """Minus the share of the car's corners beyond the edge, for every second: keeps some road in hand.

    With a margin [m] the road is taken to be narrower, and the farthest corner alone counts: from nothing where the
    margin begins to -1 a second at the edge and beyond.
    """
    if margin > 0.0:
        return (inputs.world.near_edge(margin) * np.float32(-inputs.step_time)).astype(np.float32)
    return (inputs.wheels_off * np.float32(-0.25 * inputs.step_time)).astype(np.float32)


def smoothness(inputs: RewardInputs) -> Values:
    """Minus the square of the change of steering, and half the square of the change of throttle."""
    change = inputs.action - inputs.previous_action
    return np.float32(-1.0) * change[:, 0] ** 2 - np.float32(0.5) * change[:, 1] ** 2


def failure(inputs: RewardInputs) -> Values:
    """-1 when the episode ends for any reason other than its last lap; ending early is no way to save time."""
    return -inputs.failed.astype(np.float32)


def time_pressure(inputs: RewardInputs) -> Values:
    """-1 for every second that passes."""
    return np.full(len(inputs.progress_gain), -inputs.step_time, dtype=np.float32)


# --- potentials: inputs -> float32 [N] in [0, 1]; what is paid is their change ----------------------------------------


def apex(inputs: RewardInputs, floor: float = APEX_FLOOR) -> Values:
    """Closeness to the reference line, counted in full in corners and by `floor` on straights."""
    assert inputs.reference_offset is not None
    assert inputs.reference_curvature is not None
    distance = np.abs(inputs.lateral - inputs.reference_offset) / inputs.half_width
    corner = np.minimum(np.abs(inputs.reference_curvature) * inputs.half_width * 20, 1.0)
    importance = floor + (1.0 - floor) * corner
    return (importance * np.maximum(1.0 - distance, 0.0)).astype(np.float32)


def speed_for_curvature(inputs: RewardInputs) -> Values:
    """Closeness of the speed to the reference lap's at this place."""
    assert inputs.reference_speed is not None
    error = np.abs(inputs.speed - inputs.reference_speed) / inputs.reference_speed
    return np.maximum(np.float32(1.0) - error, np.float32(0.0)).astype(np.float32)


TERMS: Mapping[str, Callable[..., Values]] = {
    "progress": progress,
    "finish": finish,
    "speed": speed,
    "collision": collision,
    "off_track": off_track,
    "wheels_off": wheels_off,
    "smoothness": smoothness,
    "failure": failure,
    "time_pressure": time_pressure,
}
POTENTIALS: Mapping[str, Callable[..., Values]] = {"apex": apex, "speed_for_curvature": speed_for_curvature}
NEEDS_REFERENCE = frozenset(POTENTIALS)


@dataclass(frozen=True)
class Term:
    """One line of a reward set: a shipped term by name, or a function of a person's own."""

    name: str
    weight: float
    options: Mapping[str, Any] = field(default_factory=dict)
    function: Callable[..., Values] | None = None  # replaces the shipped one of that name

    def __post_init__(self) -> None:
        if self.function is None and self.name not in TERMS and self.name not in POTENTIALS:
            raise unknown_choice("reward term", self.name, [*TERMS, *POTENTIALS])
        _check_weight(self.name, self.weight)


@dataclass(frozen=True)
class EndRules:
    """When an episode is over for a reason within the task; a rule that is None or False never applies."""

    no_progress_steps: int | None = None  # steps since the car was last further along than ever before
    off_line_distance: float | None = None  # m from the centreline
    collision: bool = False
    off_track: bool = False
    laps: int | None = None  # counted laps in one episode


class RewardSet:
    """Weighted terms over N cars, with the little memory they need; exact to save and to restore."""

    def __init__(self, terms: list[Term], num_cars: int, ends: EndRules | None = None) -> None:
        names = [term.name for term in terms]
        if len(set(names)) != len(names):
            raise InputError(f"a reward set names each term once; given: {', '.join(names)}.")
        self.names = tuple(names)
        self.ends = ends or EndRules()
        self.num_cars = num_cars
        self._terms = tuple(terms)
        self._reads_reference = [index for index, name in enumerate(names) if name in NEEDS_REFERENCE]
        self._weights = np.array([term.weight for term in terms], dtype=np.float64)
        self._potential = np.zeros((len(terms), num_cars), dtype=np.float32)
        self._potential_known = np.zeros((len(terms), num_cars), dtype=np.bool_)
        self._metres = np.zeros((2, num_cars), dtype=np.float64)
        self._travelled, self._furthest = self._metres  # m, net, since the episode began
        self._counts = np.zeros((3, num_cars), dtype=np.int32)
        self._steps, self._idle_steps, self._laps = self._counts
        self._own = [index for index, term in enumerate(terms) if term.function is not None]
        self._look_at_weights()

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each term as it is now."""
        return {name: float(weight) for name, weight in zip(self.names, self._weights, strict=True)}

    def for_kernel(self, top_speed: float) -> dict[str, Any]:
        """The terms, the ends and what is remembered of the episodes, by the names of `kernels.records.Episodes`.

        Weights and memory are this set's own arrays, so that each sees what the other writes; options that are none of
        the ends stay zero. top_speed: m/s, the full speed of the term `speed` unless it has another.
        """
        ends, options = self.ends, np.zeros(layout.EPISODE_COUNT, np.int64)
        options[layout.EPISODE_IDLE] = ends.no_progress_steps or 0
        options[layout.EPISODE_LAPS] = ends.laps or 0
        options[layout.EPISODE_COLLISION] = ends.collision
        options[layout.EPISODE_OFF_TRACK] = ends.off_track
        numbers = np.zeros(len(self._terms))
        for index, term in enumerate(self._terms):
            if term.name == "speed":
                full_speed = term.options.get("full_speed")
                numbers[index] = top_speed if full_speed is None else full_speed
            elif term.name == "apex":
                numbers[index] = term.options.get("floor", APEX_FLOOR)
            elif term.name == "wheels_off":
                numbers[index] = term.options.get("margin", 0.0)
        known = [layout.OWN_TERM if term.function else layout.TERM_NAMES.index(term.name) for term in self._terms]
        return {
            "options": options,
            "off_line": np.inf if ends.off_line_distance is None else float(ends.off_line_distance),
            "terms": np.array(known, np.int64),
            "term_options": numbers,
            "weights": self._weights,
            "potential": self._potential,
            "potential_known": self._potential_known,
            "metres": self._metres,
            "counts": self._counts,
        }

    def set_weight(self, name: str, value: float) -> None:
        """Change a weight while things run; it counts from the next step."""
        if name not in self.names:
            raise unknown_choice("reward term", name, self.names)
        _check_weight(name, value)
        index = self.names.index(name)
        if self._weights[index] == 0.0:
            self._potential_known[index] = False
        self._weights[index] = value
        self._look_at_weights()

    def reset(self, mask: Flags) -> None:
        """Forget the episodes of the cars in `mask` [N]."""
        self._potential_known[:, mask] = False
        self._travelled[mask] = 0.0
        self._furthest[mask] = 0.0
        self._steps[mask] = 0
        self._idle_steps[mask] = 0
        self._laps[mask] = 0

    def start(self, inputs: RewardInputs, mask: Flags) -> None:
        """Note where the cars in `mask` [N] stand as their episodes begin, so that their first step counts too."""
        for index, term in enumerate(self._terms):
            if term.name in POTENTIALS and self._weights[index] > 0:
                value = POTENTIALS[term.name](inputs, **term.options)
                self._potential[index, mask] = value[mask]
                self._potential_known[index, mask] = True

    def terminated(self, inputs: RewardInputs) -> Flags:
        """Which episodes end with this step, [N]. Call once a step, before `compute`."""
        self._travelled += inputs.progress_gain
        further = self._travelled > self._furthest + 1e-3
        np.maximum(self._furthest, self._travelled, out=self._furthest)
        self._steps += 1
        self._idle_steps += 1
        self._idle_steps[further] = 0
        self._laps += inputs.lap_completed
        inputs.travelled, inputs.episode_steps = self._travelled, self._steps
        inputs.failed = self._failed(inputs)
        if self.ends.laps is None:
            return inputs.failed
        finished = self._laps >= self.ends.laps
        inputs.failed &= ~finished
        return inputs.failed | finished

    def _failed(self, inputs: RewardInputs) -> Flags:
        ends, over = self.ends, inputs.crashed.copy()
        if ends.no_progress_steps is not None:
            over |= self._idle_steps >= ends.no_progress_steps
        if ends.off_line_distance is not None:
            over |= np.abs(inputs.lateral) > ends.off_line_distance
        if ends.collision:
            over |= inputs.collided
        if ends.off_track:
            over |= inputs.off_track
        return over

    def compute(self, inputs: RewardInputs, terminated: Flags) -> tuple[Values, Values]:
        """The reward [N] and what each term gave of it [terms, N], in the order of `names`.

        A potential is zero where the episode has ended, which leaves the best way to drive unchanged
        (Ng, Harada and Russell 1999).
        """
        parts = np.zeros((len(self._terms), self.num_cars), dtype=np.float32)
        for index in np.flatnonzero(self._weights).tolist():
            term, weight = self._terms[index], np.float32(self._weights[index])
            if term.function is not None:
                value = term.function(inputs, **term.options)
            elif term.name in TERMS:
                value = TERMS[term.name](inputs, **term.options)
            else:
                value = self._change_of_potential(index, term, inputs, terminated)
            np.multiply(value, weight, out=parts[index])
        return parts.sum(axis=0), parts

    def _change_of_potential(self, index: int, term: Term, inputs: RewardInputs, terminated: Flags) -> Values:
        potential = POTENTIALS[term.name](inputs, **term.options)
        potential[terminated] = 0.0
        change = np.where(self._potential_known[index], potential - self._potential[index], np.float32(0.0))
        self._potential[index] = potential
        self._potential_known[index] = True
        return change

    def get_state(self) -> dict[str, Any]:
        """Everything that `set_state` needs to go on exactly, weights included."""
        return {name: getattr(self, f"_{name}").copy() for name in STATE}

    def set_state(self, state: Mapping[str, Any]) -> None:
        for name in STATE:
            getattr(self, f"_{name}")[...] = state[name]
        self._look_at_weights()

    def _look_at_weights(self) -> None:
        """`needs_reference`: a term that counts reads the reference lap; `is_shipped`: none that counts is a person's
        own, so that the world's kernel can compute them all."""
        self.needs_reference = any(self._weights[index] > 0 for index in self._reads_reference)
        self.is_shipped = not any(self._weights[index] > 0 for index in self._own)


STATE = ("weights", "potential", "potential_known", "travelled", "furthest", "steps", "idle_steps", "laps")


def _check_weight(name: str, weight: float) -> None:
    if not (np.isfinite(weight) and weight >= 0):
        raise InputError(
            f"the weight of reward term '{name}' is {weight}; it must be a finite number, 0 or more "
            "(penalties are negative by themselves)."
        )
