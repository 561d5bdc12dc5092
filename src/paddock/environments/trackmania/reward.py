"""Rewards along a trajectory: TMRL's own rule to the bit, and weighted terms over net progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from paddock.config.schema import Schema
from paddock.core.errors import InputError, unknown_choice
from paddock.environments.trackmania.packets import Packet
from paddock.environments.trackmania.progress import ExactProgress, NetProgress, WalkSettings
from paddock.environments.trackmania.trajectory import SPACING, Trajectory

POINTS_PER_REWARD = 100.0  # a point is 0.1 m, so that a metre pays 0.1
LATERAL_GRIP = 30.0  # m/s2 that the target speed counts on in bends
BRAKING = 15.0  # m/s2 that the target speed counts on before them
IMPACT = 80.0  # m/s2: brakes are weaker, so a car that slows down faster has hit something
LINE_WIDTH = 8.0  # m from the trajectory at which closeness to it is worth nothing

Rule = Literal["trackmania", "trackmania_exact"]
Combination = Literal["path", "path_speed", "path_collision", "all", "time_optimal", "racing_line"]


class TrackManiaRewardConfig(Schema):
    """Names of TMRL's REWARD_CONFIG in small letters, and the weights of terms for the rule `trackmania`."""

    rule: Rule = "trackmania"
    combination: Combination = "path"
    weights: dict[str, float] = Field(default_factory=dict)
    end_of_track: float = 100.0
    constant_penalty: float = 0.0
    check_forward: int = Field(default=500, ge=1)
    check_backward: int = Field(default=10, ge=1)
    failure_countdown: int = Field(default=10, ge=0)
    min_steps: int = Field(default=70, ge=0)
    max_stray: float = Field(default=100.0, gt=0)
    full_speed: float = Field(default=80.0, gt=0)  # m/s at which the term `speed` pays in full

    @model_validator(mode="after")
    def _check(self) -> TrackManiaRewardConfig:
        if self.rule == "trackmania_exact" and (self.combination != "path" or self.weights):
            raise ValueError("trackmania_exact is TMRL's rule alone: combination and weights belong to rule=trackmania")
        return self

    def walk_settings(self) -> WalkSettings:
        """The rules of the walk along the trajectory."""
        return WalkSettings(**{field.name: getattr(self, field.name) for field in fields(WalkSettings)})


@dataclass
class StepInputs:
    """What the terms read after a step. gained: m along the trajectory, net. distance: m from it."""

    gained: float
    speed: float
    step_time: float
    distance: float
    target_speed: float
    full_speed: float
    has_collided: bool
    is_finished: bool
    has_failed: bool


def progress(step: StepInputs) -> float:
    """Net metres; a metre lost costs what a metre gained pays."""
    return step.gained


def speed(step: StepInputs) -> float:
    """Metres gained, worth more the faster they are driven; a metre lost costs the most that one can pay."""
    pace = min(max(step.speed / step.full_speed, 0.0), 1.0)
    return step.gained * pace if step.gained > 0 else step.gained


def collision(step: StepInputs) -> float:
    """-1 for a step with a collision."""
    return -float(step.has_collided)


def time_pressure(step: StepInputs) -> float:
    """Minus the seconds of the step."""
    return -step.step_time


def failure(step: StepInputs) -> float:
    """-1 for an episode that fails."""
    return -float(step.has_failed)


def line(step: StepInputs) -> float:
    """Closeness to the trajectory, from 0 to 1; what is paid is its change."""
    return max(0.0, 1.0 - step.distance / LINE_WIDTH)


def speed_for_curvature(step: StepInputs) -> float:
    """Closeness of the speed to the target at this point, from 0 to 1; what is paid is its change."""
    return max(0.0, 1.0 - abs(step.speed - step.target_speed) / step.target_speed)


TERMS: Mapping[str, Callable[[StepInputs], float]] = {
    "progress": progress,
    "speed": speed,
    "collision": collision,
    "time_pressure": time_pressure,
    "failure": failure,
}
POTENTIALS: Mapping[str, Callable[[StepInputs], float]] = {"line": line, "speed_for_curvature": speed_for_curvature}
COMBINATIONS: Mapping[str, Mapping[str, float]] = {
    "path": {"progress": 0.1},
    "path_speed": {"progress": 0.1, "speed": 0.1},
    "path_collision": {"progress": 0.1, "collision": 1.0},
    "all": {"progress": 0.1, "speed": 0.1, "collision": 1.0},
    "time_optimal": {"progress": 0.1, "time_pressure": 1.0, "speed_for_curvature": 2.0},
    "racing_line": {"progress": 0.1, "line": 2.0, "speed_for_curvature": 4.0},
}


@dataclass(frozen=True)
class StepReward:
    """reward: of the step. terms: what each term gave of it. share: of the trajectory, from 0 to 1."""

    reward: float
    has_failed: bool
    is_lost: bool
    share: float
    terms: Mapping[str, float]


class TrajectoryReward:
    """The reward of an episode, step by step."""

    def __init__(self, trajectory: Trajectory, config: TrackManiaRewardConfig, step_time: float) -> None:
        self.trajectory, self.config, self._step_time = trajectory, config, step_time
        points, walk = trajectory.points, config.walk_settings()
        self.is_exact = config.rule == "trackmania_exact"
        self._progress = ExactProgress(points, walk) if self.is_exact else NetProgress(points, walk)
        self.weights = dict.fromkeys([*TERMS, *POTENTIALS], 0.0)
        for name, weight in {**COMBINATIONS[config.combination], **config.weights}.items():
            self.set_weight(name, weight)
        self._target = target_speeds(trajectory)
        self._potentials: dict[str, float] = {}
        self._speed: float | None = None

    def set_weight(self, name: str, weight: float) -> None:
        """Change what a term is worth; it counts from the next step."""
        if name not in self.weights:
            raise unknown_choice("reward term", name, self.weights)
        if not (np.isfinite(weight) and weight >= 0):
            raise InputError(f"the weight of reward term '{name}' is {weight}; it must be a finite number, 0 or more.")
        self.weights[name] = float(weight)

    def reset(self) -> None:
        """A new episode begins."""
        self._progress.reset()
        self._potentials, self._speed = {}, None

    def step(self, packet: Packet, has_rumbled: bool = False) -> StepReward:
        """What a step that ends with this packet is worth."""
        position = np.array(packet.position, np.float64)
        gained, has_failed = self._progress.advance(position)
        finish = self.config.end_of_track if packet.is_finished else 0.0
        has_failed = has_failed and not packet.is_finished
        if self.is_exact:
            terms = {"progress": gained / POINTS_PER_REWARD}
        else:
            terms = self._terms(self._inputs(packet, gained, has_failed, has_rumbled))
        # TMRL keeps rewards in single precision.
        reward = float(np.float32(sum(terms.values()) + finish + self.config.constant_penalty))
        share = self._progress.index / len(self.trajectory)
        return StepReward(reward, has_failed, self._progress.is_lost, share, {**terms, "finish": finish})

    def _inputs(self, packet: Packet, gained: int, has_failed: bool, has_rumbled: bool) -> StepInputs:
        slowed = 0.0 if self._speed is None else (self._speed - packet.speed) / self._step_time
        self._speed = packet.speed
        index = self._progress.index
        return StepInputs(
            gained=gained * SPACING,
            speed=packet.speed,
            step_time=self._step_time,
            distance=float(np.linalg.norm(self.trajectory.points[index] - np.array(packet.position))),
            target_speed=float(self._target[index]),
            full_speed=self.config.full_speed,
            has_collided=has_rumbled or slowed > IMPACT,
            is_finished=packet.is_finished,
            has_failed=has_failed,
        )

    def _terms(self, step: StepInputs) -> dict[str, float]:
        """By name. A potential counts 0 where the episode has ended, so that no way of ending earns from it."""
        given = {name: self.weights[name] * term(step) for name, term in TERMS.items() if self.weights[name]}
        is_over = step.is_finished or step.has_failed
        for name, potential in POTENTIALS.items():
            if not self.weights[name]:
                self._potentials.pop(name, None)
                continue
            value = 0.0 if is_over else potential(step)
            given[name] = self.weights[name] * (value - self._potentials.get(name, value))
            self._potentials[name] = value
        return given

    @property
    def share(self) -> float:
        """Of the trajectory that lies behind, 0 to 1: index over number of points."""
        return self._progress.index / len(self.trajectory)


def target_speeds(trajectory: Trajectory) -> np.ndarray:
    """[N] m/s: what bends allow at each point, and what can still be braked down from before them."""
    squared = LATERAL_GRIP / np.maximum(trajectory.curvature, 1e-3)
    for index in range(len(squared) - 2, -1, -1):
        squared[index] = min(squared[index], squared[index + 1] + 2.0 * BRAKING * SPACING)
    return np.sqrt(squared)
