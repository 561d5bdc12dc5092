"""What a person writes to connect a robot or a game: rtgym's interface, and loading one by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from paddock.config.schema import load_target
from paddock.core.errors import InputError, PaddockError
from paddock.environments.calls import EnvironmentAway

METHODS = (
    "get_observation_space",
    "get_action_space",
    "get_default_action",
    "reset",
    "send_control",
    "get_obs_rew_terminated_info",
)
LAST_ACTIONS = "last_actions"


class InterfaceError(PaddockError):
    """An interface gave what does not fit its spaces, or does not come back."""


class InterfaceAway(InterfaceError, EnvironmentAway):
    """An interface that has not come back in time, and may still do so."""


class Interface(Protocol):
    """rtgym's methods. `wait()`, `render()` and `close()` are optional, and so are two of Paddock's own:
    `observation_names`, a name for each entry of an observation, and `use_clock(clock)`, called once before all else,
    for worlds that can live in virtual time."""

    def get_observation_space(self) -> spaces.Tuple:
        """A Box for each entry of an observation."""

    def get_action_space(self) -> spaces.Box: ...

    def get_default_action(self) -> NDArray[Any]:
        """What is sent while an episode begins."""

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[list[Any], dict]:
        """Begin an episode, and give its first observation; may take seconds."""

    def send_control(self, control: NDArray[Any] | None) -> None:
        """Apply an action, and come back at once."""

    def get_obs_rew_terminated_info(self) -> tuple[list[Any], float, bool, dict]:
        """Read the sensors once."""


def dotted(name: str) -> str:
    """`module:Class` as a dotted name."""
    return name.replace(":", ".")


def load_interface(name: str) -> Any:
    """What makes the interface that `module:Class` names, by the rules of a `_target_`."""
    return load_target(dotted(name))


def check_interface(interface: Any, name: str) -> None:
    """Refuse what lacks a method, or has spaces that no agent here can use."""
    missing = [method for method in METHODS if not callable(getattr(interface, method, None))]
    if missing:
        raise InputError(
            f"environment.interface '{name}' has no {', no '.join(missing)}; an interface needs the methods "
            f"{', '.join(METHODS)}."
        )


def check_spaces(observation: Any, action: Any, name: str) -> None:
    """Refuse spaces that are not a Tuple of Boxes and a Box of floats."""
    entries = observation.spaces if isinstance(observation, spaces.Tuple) else ()
    if not entries or not all(isinstance(entry, spaces.Box) for entry in entries):
        raise InputError(
            f"environment.interface '{name}' observes {observation}; get_observation_space has to give a "
            "gymnasium.spaces.Tuple of Boxes."
        )
    if not isinstance(action, spaces.Box) or not np.issubdtype(action.dtype, np.floating):
        raise InputError(
            f"environment.interface '{name}' acts by {action}; get_action_space has to give a Box of floats."
        )


def part_names(given: Sequence[str] | None, interface: Any, count: int) -> list[str]:
    """Names for the entries of an observation: those given, else the interface's own, else `part_0`, `part_1`, ..."""
    if given is None:
        given = getattr(interface, "observation_names", None)
    if given is None:
        return [f"part_{number}" for number in range(count)]
    names = [str(one) for one in given]
    if len(names) != count or len({*names, LAST_ACTIONS}) != count + 1:
        raise InputError(
            f"the names of the observation's parts are {names}; the interface observes {count} entries, and each needs "
            f"a name of its own other than '{LAST_ACTIONS}'. Set environment.observation_names."
        )
    return names
