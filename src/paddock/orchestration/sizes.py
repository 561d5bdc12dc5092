"""What an experiment would take of the machine's memory, found before any of it is taken.

Buffers' configurations say what they take; networks are built without memory and counted; of environments a few copies
are made and measured.
"""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil
import torch
from gymnasium.vector import VectorEnv
from torch import nn

from paddock.components.devices import choose_device
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
ROOM = 0.8  # of what is there, for what is chosen here
SMALLEST_CAPACITY = 1_000  # steps; fewer are no replay
KEPT = 2  # numbers for every output of a layer: before and after its activation
POOLED = 4  # pixels become one in the first convolution, at least
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
    held, computed = [copies, *buffer_needs(config, spec)], computing_needs(config, spec)
    device = choose_device(config.device)
    if device.type == "cuda":
        refuse_what_cannot_fit(computed, Limit(torch.cuda.mem_get_info(device)[0], f"{device} has free"))
    else:
        held += computed
    refuse_what_cannot_fit(held)


def buffer_needs(config: ExperimentConfig, spec: Spec) -> list[Need]:
    """What the buffers take of the machine's memory."""
    return list(_buffers(config, config.model_dump(mode="json", by_alias=True), spec))


def computing_needs(config: ExperimentConfig, spec: Spec) -> list[Need]:
    """What networks, optimizers and a batch's activations take, wherever it is computed."""
    values = config.model_dump(mode="json", by_alias=True)
    return [*_components(config, values, spec), _activations(config, values, spec)]


def refuse_what_cannot_fit(needs: list[Need], limit: Limit | None = None) -> None:
    """Say which key asks for most, if all together ask for more than there is, and what would fit of it."""
    limit, total = limit or memory_limit(), sum(need.size for need in needs)
    if total <= limit.size:
        return
    largest = max(needs, key=lambda need: need.size)
    others = total - largest.size
    also = f", and everything else {amount(others)}" if others > 1e8 else ""
    asked = f"{largest.key} = {largest.value}" if largest.value else largest.key
    fits = capacity_that_fits(largest, limit.size - others)
    advice = f"{largest.key}={fits:_} fits" if fits else "make it smaller"
    raise InputError(
        f"{asked} would take {amount(largest.size)} of memory{also}; {limit.whose} "
        f"{amount(limit.size)}. Nothing was started; {advice}."
    )


def capacity_that_fits(need: Need, available: float) -> int | None:
    """The capacity of a buffer that takes no more than most of `available` bytes, in two digits; None where there is
    none, or where the key is no capacity."""
    if not need.key.endswith(".capacity") or need.size <= 0:
        return None
    exact = int(int(need.value.replace(",", "")) * ROOM * available / need.size)
    digits = max(len(str(exact)) - 2, 0)
    return exact // 10**digits * 10**digits if exact >= SMALLEST_CAPACITY else None


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
        raise InputError(f"{key} does not fit into memory: {reason}; {limit.whose} {amount(limit.size)}.") from error


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


def _activations(config: ExperimentConfig, values: Mapping[str, Any], spec: Spec) -> Need:
    """Of the rows that are in one backward pass, imagined ones included: from the shapes of layers, at most."""
    learned = {name for part in config.optimizers.values() for name in getattr(part, "components", [])}
    pixels = max((math.prod(part.shape[:2]) for part in spec.observation.values() if len(part.shape) == 3), default=0)
    numbers = 0.0
    for name in learned & config.components.keys():
        for shape, _, width in _shapes(config.components[name], spec):
            numbers += KEPT * _outputs(shape, pixels) * width
    batches = [(part.get("batch_size") or 0) * (part.get("length") or 1) for part in values["buffers"].values()]
    workflow = values["workflow"]
    rows = max([*batches, workflow.get("minibatch_size") or 0]) * (1 + (workflow.get("horizon") or 0))
    return Need("activations of a batch", "", numbers * rows / (config.learners * config.updates.accumulate))


def _outputs(shape: tuple[int, ...], pixels: int) -> float:
    """Numbers that a layer with such a weight gives for a row: matrices, several of them, convolutions."""
    if len(shape) == 2:
        return shape[0]
    if len(shape) == 3:
        return shape[0] * shape[-1]
    return shape[0] * pixels / POOLED if len(shape) == 4 else 0


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


def amount(size: float) -> str:
    """Bytes for people."""
    for unit, bytes_ in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if size >= bytes_:
            return f"{size / bytes_:,.1f} {unit}"
    return f"{size:,.0f} bytes"
