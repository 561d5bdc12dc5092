"""Phases: a finite state machine, declared in YAML, that says what the orchestrator does next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from paddock.config.phases import hooks_by_name
from paddock.config.schema import Schema
from paddock.core.cadence import Every, Ratio
from paddock.core.conditions import parse_condition
from paddock.core.errors import InputError

COLLECT, EVALUATE = "collect", "evaluate"


class HookConfig(Schema):
    """A hook and when it is due. Without a cadence it runs once a cycle.

    at_most: of a hook with a ratio, how often it runs in one cycle; the rest stays owed. While something is owed,
    `collect` takes what has arrived and does not wait, so that learning is not held up by slow workers.

    name: its key in the phase; hook: the workflow's method, where that is not the name (a hook that comes twice).
    """

    name: str = Field(exclude=True)
    hook: str | None = None
    steps: int | None = Field(default=None, ge=1)
    ratio: float | None = Field(default=None, gt=0)
    every_steps: int | None = Field(default=None, ge=1)
    every_updates: int | None = Field(default=None, ge=1)
    at_most: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _check(self) -> HookConfig:
        cadences = [self.steps, self.ratio, self.every_steps, self.every_updates]
        if sum(value is not None for value in cadences) > 1:
            raise ValueError("takes one cadence of steps, ratio, every_steps, every_updates")
        if (self.method == COLLECT) != (self.steps is not None):
            raise ValueError("steps is for collect, and collect needs it: write `collect: {steps: 64}`")
        if self.at_most is not None and self.ratio is None:
            raise ValueError("at_most limits how many of the updates that are owed are done in a cycle; give a ratio")
        return self

    @property
    def method(self) -> str:
        """What is called: a method of the workflow, `collect` or `evaluate`."""
        return self.hook or self.name


class PhaseConfig(Schema):
    """One phase: what happens in it, in which order, and when it is over. Its name is its key among the phases."""

    name: str = Field(exclude=True)
    type: Literal["online", "offline", "evolution", "eval_only"] = "online"
    buffer: str | None = None
    controller: str | None = None
    duration_steps: int | None = Field(default=None, ge=1)
    duration_updates: int | None = Field(default=None, ge=1)
    duration_cycles: int | None = Field(default=None, ge=1)
    until: str | None = None
    freeze: list[str] = Field(default_factory=list)
    reward: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    workflow_hooks: dict[str, HookConfig] = Field(min_length=1)

    @field_validator("workflow_hooks", mode="before")
    @classmethod
    def _name_hooks(cls, hooks: Any) -> Any:
        return with_names(hooks_by_name(hooks))

    @field_validator("until")
    @classmethod
    def _parses(cls, text: str | None) -> str | None:
        if text is not None:
            parse_condition(text)
        return text

    @model_validator(mode="after")
    def _check(self) -> PhaseConfig:
        hooks = self.workflow_hooks.values()
        names = [hook.method for hook in hooks]
        if self.type == "online" and COLLECT not in names:
            raise ValueError("an online phase has to collect; make it offline, or add `collect: {steps: 64}`")
        if self.type != "online" and COLLECT in names:
            raise ValueError(f"an {self.type} phase cannot collect; make it online")
        if self.type == "eval_only" and set(names) != {EVALUATE}:
            raise ValueError("an eval_only phase has no hook but evaluate")
        if self.type in ("online", "offline") and self.buffer is None:
            raise ValueError("has to name the buffer it collects into or learns from")
        counts_steps = self.duration_steps or any(hook.ratio or hook.every_steps for hook in hooks)
        if self.type in ("offline", "eval_only") and counts_steps:
            raise ValueError("counts environment steps without collecting any; count updates or cycles instead")
        if self.type in ("offline", "evolution") and all(hook.every_updates or hook.every_steps for hook in hooks):
            raise ValueError("never does anything: one of its hooks has to run every cycle")
        return self

    @property
    def has_end(self) -> bool:
        durations = [self.duration_steps, self.duration_updates, self.duration_cycles, self.until]
        return any(value is not None for value in durations) or self.type == "eval_only"


def with_names(entries: Any) -> Any:
    """Entries by name, each with its name in the field `name`."""
    if not isinstance(entries, Mapping):
        return entries
    return {name: {**one, "name": name} if isinstance(one, Mapping) else one for name, one in entries.items()}


@dataclass(frozen=True)
class Action:
    """What to do next: a hook, in a phase; `steps` for collecting."""

    phase: PhaseConfig
    hook: str
    steps: int = 0


class PhaseScheduler:
    """Walks through the phases. A phase ends with the cycle in which its duration or condition is fulfilled."""

    def __init__(self, phases: list[PhaseConfig], metrics: Mapping[str, float]) -> None:
        """`metrics` is the live mapping of latest values that `until` conditions look at."""
        self._phases = phases
        self._metrics = metrics
        self._index = self._hook = self._steps = self._updates = self._cycles = 0
        self._has_acted = False
        self._in_turn = 0  # how often the current hook ran in this cycle
        self._is_cut = self._is_behind = False  # whether more was owed than `at_most`: in this cycle, in the last one
        self._hooks: list[HookConfig] = []
        self._cadences: list[Every | Ratio | None] = []
        self._enter(0)

    def current_phase(self) -> PhaseConfig | None:
        """The phase under way; None when all are over."""
        return self._phases[self._index] if self._index < len(self._phases) else None

    @property
    def is_at_cycle_start(self) -> bool:
        """Whether nothing of the current cycle has been done yet."""
        return not self._has_acted

    @property
    def is_at_phase_start(self) -> bool:
        """Whether nothing of the current phase has been done yet."""
        return self._cycles == 0 and not self._has_acted

    def next_action(self) -> Action | None:
        """What to do next, or None when every phase is over. Asking twice gives the same answer."""
        while (phase := self.current_phase()) is not None:
            if self._hook == 0 and self._cycles and self._is_over(phase):
                self._enter(self._index + 1)
            elif self._hook == len(self._hooks):
                self._is_behind, self._is_cut = self._is_cut, False
                self._hook = 0
                self._cycles += 1
                self._has_acted = False
            elif self._is_due(self._hook):
                hook = self._hooks[self._hook]
                return Action(phase, hook.method, 0 if self._is_behind else hook.steps or 0)
            else:
                self._next_hook()
        return None

    def advance(self, action: Action, *, steps: int = 0, updates: int = 0) -> None:
        """Tell what `action` came to."""
        self._has_acted = True
        self._steps += steps
        self._updates += updates
        cadence = self._cadences[self._hook]
        for other in self._cadences:
            if isinstance(other, Ratio):
                other.add(steps)
        if isinstance(cadence, Ratio):
            cadence.pay()  # It stays the hook's turn while more is owed.
            self._in_turn += 1
        else:
            if isinstance(cadence, Every):
                cadence(self._counted(self._hook))
            self._next_hook()

    def skip(self) -> None:
        """Give up the current hook's turn in this cycle; what is owed stays owed."""
        self._next_hook()

    def get_state(self) -> dict[str, Any]:
        phase = self.current_phase()
        return {
            "phase": phase.name if phase else None,
            "index": self._index,
            "hook": self._hook,
            "hooks": self._hook_names(),
            "steps": self._steps,
            "updates": self._updates,
            "cycles": self._cycles,
            "has_acted": self._has_acted,
            "in_turn": self._in_turn,
            "is_cut": self._is_cut,
            "is_behind": self._is_behind,
            "cadences": [cadence.get_state() if cadence else None for cadence in self._cadences],
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self._enter(state["index"])
        saved_hooks, hooks = state.get("hooks"), self._hook_names()
        if saved_hooks is not None and saved_hooks != hooks:
            raise InputError(
                f"phase '{state['phase']}' has the hooks {', '.join(hooks)}; its checkpoint was written with "
                f"{', '.join(saved_hooks)}. Their order counts: put them back in config.yaml."
            )
        self._hook, self._has_acted = state["hook"], state["has_acted"]
        self._steps, self._updates, self._cycles = state["steps"], state["updates"], state["cycles"]
        self._in_turn = state.get("in_turn", 0)  # Not in checkpoints of before, as the next two.
        self._is_cut, self._is_behind = state.get("is_cut", False), state.get("is_behind", False)
        for cadence, saved in zip(self._cadences, state["cadences"], strict=True):
            if cadence is not None:
                cadence.set_state(saved)

    def _enter(self, index: int) -> None:
        self._index = index
        self._hook = self._steps = self._updates = self._cycles = self._in_turn = 0
        self._has_acted = self._is_cut = self._is_behind = False
        phase = self.current_phase()
        self._hooks = list(phase.workflow_hooks.values()) if phase else []
        self._cadences = [_cadence(hook) for hook in self._hooks]

    def _hook_names(self) -> list[str]:
        phase = self.current_phase()
        return list(phase.workflow_hooks) if phase else []

    def _is_due(self, index: int) -> bool:
        cadence = self._cadences[index]
        if isinstance(cadence, Ratio):
            most = self._hooks[index].at_most
            return cadence.owed > 0 and (most is None or self._in_turn < most)
        if isinstance(cadence, Every):
            return self._counted(index) // cadence.period > cadence.passed
        return True

    def _next_hook(self) -> None:
        cadence, most = self._cadences[self._hook], self._hooks[self._hook].at_most
        if isinstance(cadence, Ratio) and cadence.owed > 0 and most is not None and self._in_turn >= most:
            self._is_cut = True
        self._hook += 1
        self._in_turn = 0

    def _counted(self, index: int) -> int:
        return self._steps if self._hooks[index].every_steps else self._updates

    def _is_over(self, phase: PhaseConfig) -> bool:
        durations = [
            (phase.duration_steps, self._steps),
            (phase.duration_updates, self._updates),
            (phase.duration_cycles, self._cycles),
        ]
        if any(limit is not None and count >= limit for limit, count in durations):
            return True
        if phase.until is not None and parse_condition(phase.until).holds(self._metrics):
            return True
        return phase.type == "eval_only" and not any(limit for limit, _ in durations) and phase.until is None


def _cadence(hook: HookConfig) -> Every | Ratio | None:
    if hook.ratio is not None:
        return Ratio(hook.ratio)
    period = hook.every_steps or hook.every_updates
    return Every(period) if period else None
