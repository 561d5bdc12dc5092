"""Where transitions come from: the contract between whatever steps environments and the workflows that learn.

Shapes: N environments in parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from gymnasium.vector import VectorEnv

from paddock.config.schema import TargetSchema
from paddock.core.specs import Spec
from paddock.rollout.actor import ActorModule
from paddock.rollout.controllers import ControllerManager
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


class WholeEpisodes(Protocol):
    """An experience that can also run one whole episode in every environment, from starts that are given by a seed;
    what evolution strategies need. `Collector` is one."""

    def run_episodes(self, actor: ActorModule, *, seed: int, starts: int, max_steps: int) -> EpisodeReturns:
        """One episode in each of the N environments, of at most `max_steps` decisions; environment i begins as
        environment i + `starts` does. What was under way is broken off."""


@dataclass(frozen=True)
class EpisodeReturns:
    """Of one episode in each environment: returns and lengths [N], and the decisions and simulator ticks taken."""

    returns: np.ndarray
    lengths: np.ndarray
    steps: int
    env_frames: int


@dataclass(frozen=True)
class WorkerState:
    """A worker elsewhere, as of its last report; None where it has not reported a number.

    version_lag: versions of the weights behind the newest. idle_share: of its time, waiting. round_trip: s to the relay
    and back. episode_return, episode_length: means of the episodes that ended last. test_return: of its newest test
    episode. pause: why it does not collect, empty where it does.
    """

    name: str
    host: str
    is_connected: bool
    version_lag: float | None = None
    steps_per_second: float | None = None
    idle_share: float | None = None
    round_trip: float | None = None
    episode_return: float | None = None
    episode_length: float | None = None
    test_return: float | None = None
    pause: str = ""


@runtime_checkable
class StepsSink(Protocol):
    """A sink that takes consecutive vector steps at once; a column may hold several environments in turn."""

    def add_steps(self, steps: Mapping[str, Any]) -> None:
        """Take a chunk (`paddock.rollout.chunks`); the same as `add` of each of its steps."""

    def mark_discontinuity(self) -> None:
        """What comes next does not follow what was added last."""


class Experience(Protocol):
    """A policy times environments gives transitions. A workflow cannot tell where the environments are.

    `Collector` is the local one, `paddock.distributed.experience.RelayExperience` takes what workers send.
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

    @property
    def inexact(self) -> Sequence[str]:
        """Sentences about what happened so far that a repetition of the run would not repeat; for checkpoints."""

    def collect(self, actor: ActorModule, sink: TransitionSink, steps: int) -> CollectResult:
        """Take at least `steps` decisions over all environments together, each vector step of [N] into the sink.

        Where the environments are elsewhere and nothing arrives for a while, the result says so with 0 steps; asked for
        0 steps, it takes what is there.
        """

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
    """Called after every vector step, where set: for viewers. Another thread sets and removes it: read it once."""

    @property
    def steps_under_way(self) -> int:
        """Decisions taken in a collection that has not ended yet; safe to read from another thread."""

    @property
    def view(self) -> Any | None:
        """What a viewer sees of the environments (`paddock.control.broadcast.View`); None where there is nothing."""

    @property
    def workers(self) -> Sequence[WorkerState]:
        """Who collects elsewhere, connected ones first; empty where the environments are in this process. Safe to read
        from another thread."""

    @property
    def time_step(self) -> float:
        """Seconds of one step of the environments."""

    @property
    def reward_weights(self) -> dict[str, float]:
        """The weight of each reward term by name; empty where the environments have none."""

    def set_reward_weight(self, name: str, weight: float) -> None:
        """Weigh a term of `reward_weights` anew from the next step on."""


class ExperienceConfig(TargetSchema):
    """What every kind of experience says of itself before it is made."""

    def copies(self, num_envs: int) -> int:
        """How many environments this process needs of the experiment's `num_envs`; one at least, to see its Spec."""
        return num_envs

    def columns(self, num_envs: int, buffers: Iterable[TargetSchema]) -> int:
        """N: how many environments side by side the buffers are made for."""
        return num_envs


@dataclass(frozen=True)
class ExperienceParts:
    """What an experience is made of.

    environment: as many copies as `ExperienceConfig.copies` asked for; the experience closes it. experiment: the whole
    configuration. updates: gradient steps so far.
    """

    environment: VectorEnv
    spec: Spec
    columns: int
    seed: int
    run: Path
    experiment: Any
    controllers: ControllerManager
    updates: Callable[[], int]
