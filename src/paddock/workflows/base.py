"""What every algorithm is: pure updates on batches. No loop, no files, no clocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeVar

from paddock.config.schema import TargetSchema
from paddock.rollout.actor import ActorModule
from paddock.rollout.result import CollectResult
from paddock.workflows.context import WorkflowContext

Metrics = dict[str, Any]


class Phase(Protocol):
    """What a workflow may ask of the phase it runs in."""

    @property
    def name(self) -> str: ...

    @property
    def buffer(self) -> str | None: ...


Hook = TypeVar("Hook", bound=Callable[..., Metrics])
NEEDS_BATCH = "needs_batch"


def without_batch(hook: Hook) -> Hook:
    """Marks a hook `name(*, phase) -> metrics` that learns from no batch: a generation of an evolution strategy, say.

    It counts what it does in `context.counters` itself, updates and agent steps included; what it counts as nothing is
    no update. Its metrics are known to `until` at once.
    """
    setattr(hook, NEEDS_BATCH, False)
    return hook


def needs_batch(hook: Any) -> bool:
    """Whether a hook is called with a batch of its phase's buffer."""
    return getattr(hook, NEEDS_BATCH, True)


class Workflow:
    """The base of all algorithms. Subclasses define the updates that their phases name as hooks.

    A hook is a method `name(batch, *, phase) -> metrics`. It is one update, unless it counts its gradient steps itself
    in `context.counters.updates` (and imagined steps in `imagined_steps`). A hook `without_batch` gets the phase alone.
    """

    context: WorkflowContext
    actions: Literal["continuous", "discrete"] | None = None  # What it can choose among; None is either.
    can_pipeline = True  # Whether the next round may be collected while it learns from the last one.
    splits_updates = False  # Whether its updates share their batches by `context.learners`.

    def __init__(self, config: TargetSchema) -> None:
        self.config = config

    @property
    def kind(self) -> str:
        """What a checkpoint has to have been written by to be continued."""
        return self.config.target_

    def initialize(self, context: WorkflowContext) -> None:
        """Called once; bind what is needed from the context."""
        self.context = context

    def actor(self) -> ActorModule:
        """The current policy: what collects, is evaluated and exported."""
        return self.context.controllers.active

    def collect_step(self, step: int, *, phase: Phase) -> CollectResult:
        """Interact for `step` decisions; they go into the phase's buffer."""
        assert phase.buffer is not None, f"phase '{phase.name}' collects but names no buffer"
        return self.context.experience.collect(self.actor(), self.context.buffers[phase.buffer], step)

    def anneal_learning_rates(self) -> None:
        """Every optimizer's, linearly to zero at training.total_steps, for those with the option; before an update."""
        if getattr(self.config, "anneal_learning_rate", False):
            for optimizer in self.context.optimizers.values():
                optimizer.set_learning_rate_fraction(1.0 - self.context.progress)

    def get_state(self) -> dict[str, Any]:
        """What a checkpoint must hold beyond components, optimizers and buffers."""
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        """Put back what `get_state` gave."""
