"""What an experiment would take of the machine's memory, found before any of it is taken.

Buffers' configurations say what they take; networks are built without memory and counted; of environments a few copies
are made and measured.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil
import torch
from gymnasium.vector import VectorEnv
from torch import nn

from paddock.config.schema import TargetSchema, instantiate
from paddock.core.errors import InputError
from paddock.core.seeding import forked_random
from paddock.core.specs import Spec
from paddock.core.system import address_space_limit
from paddock.orchestration.schema import ExperimentConfig

FEW_COPIES = 4_096  # of an environment, which fit anywhere
PROCESS = 20e6  # bytes, at least, of a copy in a process of its own
TRIED_COPIES = 33
OVERHEAD = 1.5  # what the system takes for small pieces of memory, and what a step needs in passing
LEARNED = 5  # times its size is what a parameter takes that an optimizer moves: itself, gradients, two moments
CONTROL_GROUP = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Need:
    """What one part of an experiment takes: the key that its size comes from, that key's value, and bytes."""

    key: str
    value: Any
    size: float


@dataclass(frozen=True)
class Limit:
    """Bytes that may be used, and whose limit that is."""

    size: float
    whose: str


def check_copies(config: ExperimentConfig, make: Callable[[int], VectorEnv]) -> Need:
    """Refuse more environments than fit; what they take. `make` makes a number of copies."""
    count, size = config.environment.num_envs, 0.0
    if getattr(config.environment, "vectorization", None) == "async":
        size = count * PROCESS
    elif count > FEW_COPIES:
        size = count * _bytes_of_a_copy(make)
    need = Need("environment.num_envs", f"{count:,}", size)
    refuse_what_cannot_fit([need])
    return need


def check_parts(config: ExperimentConfig, spec: Spec, copies: Need) -> None:
    """Refuse buffers and networks that do not fit together, beside the copies of the environment."""
    values = config.model_dump(mode="json", by_alias=True)
    refuse_what_cannot_fit([copies, *_buffers(config, values, spec), *_components(config, values, spec)])


def refuse_what_cannot_fit(needs: list[Need]) -> None:
    """Say which key asks for most, if all together ask for more than there is."""
    limit, total = memory_limit(), sum(need.size for need in needs)
    if total <= limit.size:
        return
    largest = max(needs, key=lambda need: need.size)
    others = total - largest.size
    also = f", and everything else {_amount(others)}" if others > 1e8 else ""
    asked = f"{largest.key} = {largest.value}" if largest.value else largest.key
    raise InputError(
        f"{asked} would take {_amount(largest.size)} of memory{also}; {limit.whose} "
        f"{_amount(limit.size)}. Nothing was started; make it smaller."
    )


def memory_limit() -> Limit:
    """The least of what the machine has and what this process may use."""
    limits = [Limit(psutil.virtual_memory().total, "this machine has")]
    for file in CONTROL_GROUP:
        try:
            limits.append(Limit(int(Path(file).read_text()), "this process's control group allows"))
        except (OSError, ValueError):  # It is not there, or says "max".
            continue
    if (allowed := address_space_limit()) is not None:
        left = allowed - psutil.Process().memory_info().vms
        limits.append(Limit(max(left, 0), "this process's limit (ulimit -v) leaves"))
    return min(limits, key=lambda limit: limit.size)


def allocated(key: str, make: Callable[[], Made]) -> Made:
    """What `make` gives; a sentence where the system has no memory for it after all."""
    try:
        return make()
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
            raise
        limit = memory_limit()
        reason = str(error).splitlines()[0]
        raise InputError(f"{key} does not fit into memory: {reason}; {limit.whose} {_amount(limit.size)}.") from error


def _bytes_of_a_copy(make: Callable[[int], VectorEnv]) -> float:
    """Measured on a few copies that have been reset."""
    sizes = []
    for count in (1, 1, TRIED_COPIES):  # Whatever is loaded once is loaded with the first.
        tracemalloc.start()
        env = make(count)
        env.reset(seed=0)
        sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        env.close()
    return OVERHEAD * max(sizes[2] - sizes[1], 0) / (TRIED_COPIES - 1)


def _buffers(config: ExperimentConfig, values: Mapping[str, Any], spec: Spec) -> Iterator[Need]:
    for name, part in config.buffers.items():
        memory = getattr(part, "memory", None)
        if memory is None:
            continue
        own = {
            key: value for key, value in _numbers(values["buffers"][name], f"buffers.{name}") if isinstance(value, int)
        }
        key = max(own, key=lambda each: own[each], default=f"buffers.{name}")
        shared = [other for other, value in _numbers(values) if other.startswith("workflow.") and value == own.get(key)]
        shown = f"{key} ({shared[0]})" if shared else key
        yield Need(shown, f"{own[key]:,}" if key in own else "", memory(spec, config.environment.num_envs))


def _components(config: ExperimentConfig, values: Mapping[str, Any], spec: Spec) -> Iterator[Need]:
    learned = {name for part in config.optimizers.values() for name in getattr(part, "components", [])}
    for name, part in config.components.items():
        sizes = _shapes(part, spec)
        if not sizes:
            continue
        size = sum(numbers * width for _, numbers, width in sizes) * (LEARNED if name in learned else 1)
        widest = max(max(shape, default=1) for shape, _, _ in sizes)
        own = _numbers(values["components"][name], f"components.{name}")
        # A layer is as wide as some number says, or a small multiple of it.
        width, key = max(
            ((value, key) for key, value in own if isinstance(value, int) and value <= widest),
            default=(0, f"components.{name}"),
        )
        yield Need(key, f"{width:,}" if width else "", size)


def _shapes(part: TargetSchema, spec: Spec) -> list[tuple[tuple[int, ...], int, int]]:
    """Shape, numbers and bytes a number of everything that a component would hold; none where only the real thing can
    tell."""
    try:
        with torch.device("meta"), forked_random(0):
            component = instantiate(part, spec)
    except Exception:  # A component that cannot be built without memory is tried with it.
        return []
    if not isinstance(component, nn.Module):
        return []
    held = [*component.parameters(), *component.buffers()]
    return [(tuple(tensor.shape), tensor.numel(), tensor.element_size()) for tensor in held]


def _numbers(values: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number of a configuration with its key; those of a list go by the list's key."""
    if isinstance(values, Mapping):
        for name, value in values.items():
            yield from _numbers(value, f"{path}.{name}" if path else str(name))
    elif isinstance(values, list):
        for value in values:
            yield from _numbers(value, path)
    elif isinstance(values, int | float) and not isinstance(values, bool):
        yield path, values


def _amount(size: float) -> str:
    for unit, bytes_ in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if size >= bytes_:
            return f"{size / bytes_:,.1f} {unit}"
    return f"{size:,.0f} bytes"
