"""Observations as tuples, in a given order, as rtgym and TMRL have them; and the spaces of a Spec.

The action buffer, one flat part here, is one entry for each action there: oldest first, newest last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec

LAST_ACTIONS = "last_actions"


def order_of(spec: Spec, given: Sequence[str] | None) -> list[str]:
    """Names of the parts in the tuple's order: as given, else as the Spec has them with the action buffer last."""
    if given is None:
        return sorted(spec.observation, key=lambda name: name == LAST_ACTIONS)
    spec.only(list(given))
    return list(given)


def as_tuple(observation: Mapping[str, Any], spec: Spec, order: Sequence[str]) -> tuple[Any, ...]:
    """Parts [..., *shape], NumPy's or torch's, as a tuple of them; the action buffer as one entry for each action."""
    entries: list[Any] = []
    for name in order:
        part, count = observation[name], _actions_in(name, spec)
        if not count:
            entries.append(part)
            continue
        lead = part.shape[: part.ndim - 1]
        split = part.reshape(*lead, count, *spec.action.shape)
        entries += [split[(..., index, *[slice(None)] * len(spec.action.shape))] for index in range(count)]
    return tuple(entries)


def as_parts(entries: Sequence[Any], spec: Spec, order: Sequence[str]) -> dict[str, np.ndarray]:
    """A tuple as parts by name, the other way round."""
    left, parts = list(entries), {}
    for name in order:
        count = _actions_in(name, spec)
        taken, left = left[: count or 1], left[count or 1 :]
        if len(taken) < (count or 1):
            break
        flat = np.concatenate([np.asarray(one).reshape(-1) for one in taken]) if count else np.asarray(taken[0])
        parts[name] = flat.reshape(spec.observation[name].shape)
    if left or len(parts) < len(order):
        raise InputError(f"the observation has {len(entries)} entries; this policy reads {', '.join(order)}.")
    return parts


def observation_space(spec: Spec, order: Sequence[str]) -> spaces.Tuple:
    """The space of the tuple."""
    boxes: list[spaces.Box] = []
    for name in order:
        count = _actions_in(name, spec)
        boxes += [box(spec.action)] * count if count else [box(spec.observation[name])]
    return spaces.Tuple(boxes)


def box(part: ArraySpec) -> spaces.Box:
    """The space of one array."""
    low, high = part.bounds()
    return spaces.Box(low, high, part.shape, np.dtype(part.dtype))


def _actions_in(name: str, spec: Spec) -> int:
    """How many actions a part is the buffer of; 0 for all other parts."""
    size = spec.observation[name].size
    return size // spec.action.size if name == LAST_ACTIONS and size % spec.action.size == 0 else 0
