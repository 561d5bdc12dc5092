"""Where transitions come from: the contract between whatever steps environments and the workflows that learn.

Shapes: N environments in parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from paddock.core.specs import Spec
from paddock.rollout.actor import ActorModule
from paddock.rollout.result import CollectResult

Arrays = Mapping[str, np.ndarray]


class TransitionSink(Protocol):
    """Where transitions go: any buffer."""

    def add(self, transition: dict[str, Any]) -> Arrays | None:
        """Take one step of all environments. Arrays are only borrowed; copy what is kept.

        `observation` and `next_observation`: parts [N, ...]; `action` [N, ...] in the policy's own range; `reward` [N];
        `terminated`, `truncated`, `valid`, `is_first`: bool [N]. Where episodes ended and were reset in the same step,
        `final_rows` [K] names them and `final_observation` holds their true last parts [K, ...].

        A sink that keeps whole rows may return the place where it wrote `next_observation`: parts [N, ...] that stay
        as they are until the next `add`. The actor then reads them there, and they come back as the `observation` of
        the next transition, so that an observation is written once.
        """


class Experience(Protocol):
    """A policy times environments gives transitions. A workflow cannot tell where the environments are.

    `Collector` is the local one.
    """

    @property
    def spec(self) -> Spec:
        """What is observed and what can be done; without the N in front."""

    @property
    def num_envs(self) -> int:
        """N."""

    @property
    def is_exact(self) -> bool:
        """Whether `get_state` holds the environments' state, so that a resumed run is bit-identical."""

    def collect(self, actor: ActorModule, sink: TransitionSink, steps: int) -> CollectResult:
        """Take at least `steps` decisions over all environments together, each vector step of [N] into the sink."""

    def get_state(self) -> dict[str, Any]:
        """What a checkpoint has to hold in order to go on; a tree of arrays."""

    def set_state(self, state: dict[str, Any], *, agent_steps: int) -> None:
        """Go on from what `get_state` gave; where it is not exact, with fresh episodes."""

    def close(self) -> None:
        """Close the environments."""

    # What a running process is asked for from outside.

    explores: bool
    """Whether actions are sampled; else the most likely one is taken."""

    after_step: Callable[[], None] | None
    """Called after every vector step, where set: for viewers."""

    @property
    def steps_under_way(self) -> int:
        """Decisions taken in a collection that has not ended yet; safe to read from another thread."""

    @property
    def view(self) -> Any | None:
        """What a viewer sees of the environments (`paddock.control.broadcast.View`); None where there is nothing."""

    @property
    def time_step(self) -> float:
        """Seconds of one step of the environments."""

    @property
    def reward_weights(self) -> dict[str, float]:
        """The weight of each reward term by name; empty where the environments have none."""

    def set_reward_weight(self, name: str, weight: float) -> None:
        """Weigh a term of `reward_weights` anew from the next step on."""
