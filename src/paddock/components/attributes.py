"""The state of an object of a person's own, as a tree of arrays: networks, optimizers, tensors and plain values among
its attributes. What it cannot hold (spaces, functions) is what the constructor makes again."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

log = logging.getLogger(__name__)
PLAIN = (bool, int, float, str, type(None))
REMADE = ("Box", "Tuple", "Dict", "device", "partial", "function", "method", "type", "dtype", "ABCMeta")


def get_attributes(thing: Any) -> dict[str, Any]:
    """The state of an object: its own `get_state()`, or what its attributes hold."""
    if hasattr(thing, "get_state") and hasattr(thing, "set_state"):
        return {"own": thing.get_state()}
    found = {}
    for name, value in vars(thing).items():
        encoded = _encoded(value)
        if encoded is not None:
            found[name] = encoded
        elif type(value).__name__ not in REMADE:
            log.warning(
                "%s.%s is a %s, which a checkpoint does not hold; give the class get_state() and set_state(state).",
                *(type(thing).__name__, name, type(value).__name__),
            )
    return {"attributes": found}


def set_attributes(thing: Any, state: dict[str, Any]) -> None:
    """Put back what `get_attributes` gave."""
    if "own" in state:
        thing.set_state(state["own"])
        return
    for name, encoded in state["attributes"].items():
        vars(thing)[name] = _decoded(encoded, vars(thing).get(name))


def _encoded(value: Any) -> dict[str, Any] | None:
    if isinstance(value, nn.Module):
        return {"module": {name: part for name, part in value.state_dict().items() if isinstance(part, Tensor)}}
    if isinstance(value, Optimizer):
        whole = value.state_dict()
        state = {str(number): entries for number, entries in whole["state"].items()}
        return {"optimizer": {"state": state, "param_groups": whole["param_groups"]}}
    if isinstance(value, Tensor):
        return {"tensor": value.detach().clone()}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return {"array": value.copy()}
    if isinstance(value, PLAIN):
        return {"value": value}
    if isinstance(value, list | tuple | dict):
        return _encoded_container(value)
    return None


def _encoded_container(value: Any) -> dict[str, Any] | None:
    if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
        return None
    children = value.values() if isinstance(value, dict) else value
    encoded = [_encoded(child) for child in children]
    if any(child is None for child in encoded):
        return None
    kind = "tuple" if isinstance(value, tuple) else "list"
    return {"dict": dict(zip(value, encoded, strict=True))} if isinstance(value, dict) else {kind: encoded}


def _decoded(encoded: dict[str, Any], now: Any) -> Any:
    """The value; what is a network, an optimizer or a tensor now keeps its identity, others may refer to it."""
    ((kind, value),) = encoded.items()
    if kind == "module":
        now.load_state_dict(value, strict=False)
        return now
    if kind == "optimizer":
        state = {int(number): entries for number, entries in value["state"].items()}
        now.load_state_dict({"state": state, "param_groups": value["param_groups"]})
        return now
    if kind == "tensor" and isinstance(now, Tensor) and now.shape == value.shape:
        with torch.no_grad():
            now.copy_(value)
        return now
    if kind in ("list", "tuple"):
        before = list(now) if isinstance(now, list | tuple) and len(now) == len(value) else [None] * len(value)
        made = [_decoded(child, old) for child, old in zip(value, before, strict=True)]
        return tuple(made) if kind == "tuple" else made
    if kind == "dict":
        old = now if isinstance(now, dict) else {}
        return {name: _decoded(child, old.get(name)) for name, child in value.items()}
    return value
