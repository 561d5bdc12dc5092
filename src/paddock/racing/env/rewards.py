"""Reward sets as configuration: their schema, the shipped ones by name, and how one becomes a `RewardSet`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import yaml
from pydantic import Field

from paddock.config.compose import choices
from paddock.config.schema import Schema
from paddock.core.errors import InputError, unknown_choice
from paddock.sim.rewards.custom import load_reward
from paddock.sim.rewards.terms import POTENTIALS, TERMS, EndRules, RewardSet, Term

COMBINATIONS: dict[str, frozenset[str] | None] = {
    "path": frozenset({"progress", "finish"}),
    "path_speed": frozenset({"progress", "finish", "speed"}),
    "path_collision": frozenset({"progress", "finish", "collision"}),
    "all": None,
}


class Weighted(Schema):
    """A term that has only a weight."""

    weight: float = Field(default=0.0, ge=0.0)


class SpeedTerm(Weighted):
    full_speed: float | None = Field(default=None, gt=0.0)


class WheelsOffTerm(Weighted):
    margin: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)


class ApexTerm(Weighted):
    floor: float = Field(default=0.2, ge=0.0, le=1.0)


class CustomTerm(Weighted):
    """A function of a person's own: `path/to/file.py:function`."""

    weight: float = Field(default=1.0, ge=0.0)
    function: str
    style: Literal["auto", "car", "batched", "deepracer"] = "auto"


class Ends(Schema):
    """When an episode ends for a reason within the task."""

    no_progress_steps: int | None = Field(default=100, ge=1)
    off_line_distance: float | None = Field(default=None, gt=0.0)
    collision: bool = False
    off_track: bool = False
    laps: int | None = Field(default=None, ge=1)


class RewardConfig(Schema):
    """Weights and options of every term, functions of a person's own by name, and the rules that end an episode.

    Two entries are for training and not for the world: `gamma`, how far ahead the set has to be seen (null leaves
    that to the algorithm), and `phases`, the weights that change when a phase begins, by the phase's name.
    """

    gamma: float | None = Field(default=None, gt=0.0, lt=1.0)
    combination: Literal["path", "path_speed", "path_collision", "all"] = "all"
    progress: Weighted = Weighted()
    finish: Weighted = Weighted()
    speed: SpeedTerm = SpeedTerm()
    collision: Weighted = Weighted()
    off_track: Weighted = Weighted()
    wheels_off: WheelsOffTerm = WheelsOffTerm()
    smoothness: Weighted = Weighted()
    failure: Weighted = Weighted()
    time_pressure: Weighted = Weighted()
    apex: ApexTerm = ApexTerm()
    speed_for_curvature: Weighted = Weighted()
    custom: dict[str, CustomTerm] = Field(default_factory=dict)
    ends: Ends = Ends()
    phases: dict[str, dict[str, Annotated[float, Field(ge=0.0)]]] = Field(default_factory=dict)


def reward_config(given: Any) -> Any:
    """A reward as people write it: a shipped set's name, `file.py:function`, or a mapping, which passes through."""
    if not isinstance(given, str):
        return {} if given is None else given
    if ".py:" in given:
        name = given.rpartition(":")[2]
        return {"custom": {name: {"function": given}}}
    files = choices("reward")
    if given not in files:
        raise unknown_choice("reward", given, files)
    return yaml.safe_load(files[given].read_text(encoding="utf-8")) or {}


def build_rewards(config: RewardConfig, num_cars: int, scale: float = 1.0) -> RewardSet:
    """The reward set that `config` describes. Terms left out by the combination stay, with weight 0, to be set live.

    scale: of the roads; the margin of `wheels_off` is given for one of full size.
    """
    counted = COMBINATIONS[config.combination]
    terms = []
    for name in (*TERMS, *POTENTIALS):
        options = getattr(config, name).model_dump()
        weight = options.pop("weight")
        if "margin" in options:
            options["margin"] *= scale
        if counted is not None and name not in counted:
            weight = 0.0
        terms.append(Term(name, weight, options))
    for name, custom in config.custom.items():
        if name in TERMS or name in POTENTIALS:
            raise InputError(f"reward.custom.{name}: '{name}' is the name of a shipped term; choose another.")
        terms.append(Term(name, custom.weight, function=load_reward(custom.function, custom.style)))
    return RewardSet(terms, num_cars, EndRules(**config.ends.model_dump()))
