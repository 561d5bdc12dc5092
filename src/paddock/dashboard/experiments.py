"""What the start page offers: experiments in groups with time, difficulty and missing extras; rewards, algorithms."""

from __future__ import annotations

import importlib.util
import math
from functools import lru_cache
from typing import Any

from paddock.config.compose import choices, describe
from paddock.config.defaults import bases, chosen_groups, read_yaml
from paddock.core.extras import EXTRAS
from paddock.dashboard.mine import Mine
from paddock.sim.cars.car import CARS

RACING, WORLD_MODELS, IMITATION, CONTROL, IMAGES, GAME = (
    "race", "world_models", "imitation", "control", "images", "trackmania",
)  # fmt: skip
GROUPS = {
    RACING: ("Race", "Cars on a circuit, from standing still to the limit of grip."),
    WORLD_MODELS: ("World models and planning", "Agents that learn to predict, and act or plan in what they predict."),
    IMITATION: ("Imitation and recorded data", "Learn from demonstrations or from recordings, not from trying."),
    CONTROL: ("Classic control", "Small tasks that are learned in a minute: poles, pendulums, landers."),
    IMAGES: ("Games and grids", "Atari, MiniGrid and CarRacing, mostly from pictures."),
    GAME: ("TrackMania", "The game itself, or its stand-in on this machine."),
}
MODELS = {"dreamer", "dreamer_v1", "dreamer_v2", "planet", "tdmpc", "tdmpc2", "world_models", "latent_actor"}
IMITATORS = {"behaviour_cloning", "diffusion_policy", "iql"}
GAMES = {"atari", "minigrid", "carracing"}
RACES = {"racing", "racing_realtime"}
RECOMMENDED = ("racing", "ppo_cartpole", "racing_multi_track", "sac_racing", "dreamer_cartpole", "racing_f1tenth")
# Minutes on two cores, as the experiments' own notes and result pages have them, and how hard each is to get right.
TIMES: dict[str, tuple[float, str]] = {
    "racing": (1.5, "easy"), "racing_f1tenth": (1.5, "easy"), "racing_line": (1.5, "easy"),
    "racing_lidar": (4, "medium"), "racing_obstacles": (4, "medium"), "racing_multi_track": (12, "medium"),
    "racing_camera": (30, "hard"), "racing_realtime": (60, "hard"), "ppo_cartpole": (0.5, "easy"),
    "dqn_cartpole": (1, "easy"), "ppo_pendulum": (1, "easy"), "sac_pendulum": (3, "easy"),
    "redq_pendulum": (5, "medium"), "dreamer_cartpole": (15, "medium"), "sac_racing": (15, "medium"),
    "ppo_recall": (1, "medium"),
}  # fmt: skip
EXTRA_OF = {"atari": "atari", "dmc": "dmc", "minigrid": "minigrid", "carracing": "box2d"}
EXTRA_OF_ID = {"LunarLander": "box2d", "CarRacing": "box2d"}


@lru_cache(maxsize=1)
def shipped_experiments() -> list[dict[str, Any]]:
    """Every shipped experiment, recommended ones first, then by group and name."""
    found = [_describe(name) for name in choices("experiment")]
    order = list(GROUPS)

    def place(one: dict[str, Any]) -> tuple[Any, ...]:
        return order.index(one["group"]), _rank(one["name"]), one["minutes"] or math.inf, one["name"]

    return sorted(found, key=place)


def start_options(mine: Mine | None) -> dict[str, Any]:
    """All that can be chosen for a new run."""
    return {
        "groups": [{"name": name, "title": title, "text": text} for name, (title, text) in GROUPS.items()],
        "experiments": [{**one, **_missing(one)} for one in shipped_experiments()],
        "rewards": _named("reward"),
        "algorithms": _named("workflow"),
        "cars": list(CARS),
        "mine": mine.choices() if mine is not None else None,
    }


def _named(group: str) -> list[dict[str, str]]:
    return [{"name": name, "description": describe(file)} for name, file in choices(group).items() if name != "none"]


def _rank(name: str) -> int:
    return RECOMMENDED.index(name) if name in RECOMMENDED else len(RECOMMENDED)


def _describe(name: str) -> dict[str, Any]:
    said = chosen_groups(name)
    environment, workflow = said.get("environment", "gym"), said.get("workflow", "ppo")
    minutes, difficulty = TIMES.get(name, (None, None))
    return {
        "name": name,
        "description": describe(choices("experiment")[name]),
        "environment": environment,
        "workflow": workflow,
        "reward": said.get("reward"),
        "is_racing": environment in RACES,
        "group": group_of(environment, workflow),
        "minutes": minutes,
        "difficulty": difficulty,
        "is_recommended": name in RECOMMENDED,
        "extra": EXTRA_OF.get(environment) or _extra_of_id(name),
        "track": _value(name, "track"),
        "car": _value(name, "car"),
    }


def group_of(environment: str, workflow: str) -> str:
    """Where an experiment is listed."""
    if environment == "trackmania":
        return GAME
    if workflow in MODELS or environment == "dream":
        return WORLD_MODELS
    if workflow in IMITATORS:
        return IMITATION
    if environment in RACES:
        return RACING
    return IMAGES if environment in GAMES else CONTROL


def _value(name: str, key: str) -> Any:
    """What an experiment, or one that it builds upon, says of its environment; None where it says nothing."""
    content = read_yaml(choices("experiment")[name])
    environment = content.get("environment")
    if isinstance(environment, dict) and key in environment:
        return environment[key]
    return next((value for base in bases(content) if (value := _value(base, key)) is not None), None)


def _extra_of_id(name: str) -> str | None:
    given = str(_value(name, "id") or "")
    return next((extra for start, extra in EXTRA_OF_ID.items() if given.startswith(start)), None)


def _missing(experiment: dict[str, Any]) -> dict[str, Any]:
    """The line that installs what an experiment needs and this machine lacks; null where nothing is missing."""
    extra = experiment["extra"]
    is_there = extra is None or importlib.util.find_spec(EXTRAS[extra][0]) is not None
    return {"install": None if is_there else f"pip install 'paddock[{extra}]'"}
