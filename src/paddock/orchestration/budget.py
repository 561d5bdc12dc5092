"""The memory that an experiment needs, before it starts: for `--print-config`, and for `capacity: auto`."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

from paddock.config.schema import instantiate
from paddock.config.validate import validate
from paddock.core.errors import InputError
from paddock.core.specs import Spec
from paddock.environments.spaces import spec_of
from paddock.orchestration.schema import ExperimentConfig
from paddock.orchestration.sizes import (
    SMALLEST_CAPACITY,
    Limit,
    Need,
    amount,
    buffer_needs,
    capacity_that_fits,
    check_copies,
    computing_needs,
    memory_limit,
)

AUTO = "auto"
TRIED_CAPACITY = 1_000_000  # steps, of which the memory is known before a number that fits is
# Making one of these starts or reaches a game.
NOT_MADE = ("paddock.environments.realtime", "paddock.environments.trackmania", "paddock.racing.realtime")


@dataclass(frozen=True)
class Budget:
    """What every part of an experiment takes, and what there is."""

    needs: list[Need]
    limit: Limit

    @property
    def total(self) -> float:
        return sum(need.size for need in self.needs)

    def lines(self) -> list[str]:
        """One for each part that takes anything, and their sum beside what there is."""
        shown = [need for need in self.needs if need.size > 0]
        keys = [f"{need.key} = {need.value}" if need.value else need.key for need in shown]
        width = max([len(key) for key in keys], default=0)
        rows = [f"{key:<{width}}  {amount(need.size):>9}" for key, need in zip(keys, shown, strict=True)]
        return [*rows, f"needs {amount(self.total)}; {self.limit.whose} {amount(self.limit.size)}"]

    def to_dict(self) -> dict[str, Any]:
        needs = {need.key: round(need.size) for need in self.needs}
        return {"needs": needs, "total": round(self.total), "limit": round(self.limit.size)}


def budget_of(config: ExperimentConfig) -> Budget | None:
    """The memory that an experiment needs; None where its environment cannot be made only to look at it."""
    if config.environment.target_.startswith(NOT_MADE):
        return None
    spec = _spec_of(config)
    copies = check_copies(config, partial(instantiate, config.environment))
    return Budget([copies, *buffer_needs(config, spec), *computing_needs(config, spec)], memory_limit())


def with_capacities(values: Mapping[str, Any], origins: Mapping[str, str]) -> dict[str, Any]:
    """Values of a configuration in which every `capacity: auto` of a buffer is a number that fits into memory.

    Buffers share what the rest leaves. The number becomes part of the run, which resumes with it on any machine.
    """
    settled: dict[str, Any] = deepcopy(dict(values))
    chosen = [part for part in settled["buffers"].values() if isinstance(part, dict) and part.get("capacity") == AUTO]
    if not chosen:
        return settled
    for part in chosen:
        part["capacity"] = TRIED_CAPACITY
    config = validate(settled, ExperimentConfig, origins)
    if config.environment.target_.startswith(NOT_MADE):
        raise InputError("capacity: auto needs an environment that can be made to look at; give a number of steps.")
    spec, copies = _spec_of(config), config.environment.num_envs
    names = [name for name, part in settled["buffers"].items() if part in chosen]
    tried = {name: Need(f"buffers.{name}.capacity", str(TRIED_CAPACITY), _bytes(config, name, spec)) for name in names}
    needs = [*buffer_needs(config, spec), *computing_needs(config, spec)]
    others = sum(need.size for need in needs) - sum(need.size for need in tried.values())
    for name, part in zip(names, chosen, strict=True):
        fits = capacity_that_fits(tried[name], (memory_limit().size - others) / len(chosen))
        if fits is None:
            least = f"{SMALLEST_CAPACITY:,} steps of {copies:,} environments"
            raise InputError(f"{tried[name].key}: auto finds no room for {least}; make the rest smaller.")
        total = config.training.total_steps
        part["capacity"] = min(fits, total) if total else fits  # More than all steps of the run is never filled.
    return settled


def _bytes(config: ExperimentConfig, name: str, spec: Spec) -> float:
    memory = getattr(config.buffers[name], "memory", None)
    if memory is None:
        raise InputError(f"buffers.{name}.capacity: auto is for replay buffers in memory; give a number of steps.")
    return memory(spec, config.environment.num_envs)


def _spec_of(config: ExperimentConfig) -> Spec:
    environment = instantiate(config.environment, 1, None)
    try:
        return spec_of(environment)
    finally:
        environment.close()
