"""A policy's parameters on their way from the trainer to its workers: safetensors, and what a worker has to know.

A worker builds its networks from its own configuration; what arrives are numbers for them and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from paddock.core.errors import PaddockError
from paddock.rollout.actor import EXTRA_STATE, ActorModule


class PolicyHeader(msgspec.Struct, frozen=True):
    """Which controller acts, whether it samples, the reward weights that were changed while training, and the trainer's
    environment (`comparing.environment_values`)."""

    controller: str
    environment: dict[str, Any]
    explores: bool = True
    reward_weights: dict[str, float] = {}


class UnfitWeights(PaddockError):
    """Weights that this worker's networks cannot take."""


def pack(actor: ActorModule, header: PolicyHeader) -> tuple[bytes, bytes]:
    """Header and body of a message that carries the actor's weights as they are now."""
    tensors = {
        name: value.detach().cpu().contiguous()
        for name, value in actor.state_dict().items()
        if isinstance(value, Tensor) and not name.endswith(EXTRA_STATE)
    }
    return msgspec.msgpack.encode(header), save(_without_sharing(tensors))


def read_header(header: bytes) -> PolicyHeader:
    """What stands beside the weights."""
    try:
        return msgspec.msgpack.decode(header, type=PolicyHeader)
    except msgspec.DecodeError as error:
        raise UnfitWeights(f"the trainer's weights come without a readable header ({error}).") from error


def unpack_into(actor: ActorModule, body: memoryview) -> None:
    """Put the weights into an actor of the same networks; otherwise nothing is changed, and a sentence says why."""
    try:
        tensors = load(bytes(body))
    except SafetensorError as error:
        raise UnfitWeights(f"the trainer's weights cannot be read: {error}.") from error
    here = {name: value for name, value in actor.state_dict().items() if isinstance(value, Tensor)}
    expected = {name: value for name, value in here.items() if not name.endswith(EXTRA_STATE)}
    if (difference := _difference(expected, tensors)) is not None:
        raise UnfitWeights(
            f"the trainer's weights do not fit this worker's networks: {difference}. Start both with the same "
            "experiment and the same options."
        )
    with torch.no_grad():
        for name, value in expected.items():
            value.copy_(tensors[name])


def _difference(expected: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> str | None:
    for name in sorted(expected.keys() | given.keys()):
        if name not in given:
            return f"'{name}' is missing"
        if name not in expected:
            return f"'{name}' is not in them"
        if (ours := tuple(expected[name].shape)) != (theirs := tuple(given[name].shape)):
            return f"'{name}' is {theirs} there and {ours} here"
    return None


def _without_sharing(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Parts that two names share are written twice: safetensors refuses tensors in the same memory."""
    seen: set[int] = set()
    separate = {}
    for name, value in tensors.items():
        separate[name] = value.clone() if value.data_ptr() in seen else value
        seen.add(value.data_ptr())
    return separate
