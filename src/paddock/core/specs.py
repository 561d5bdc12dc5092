"""What an environment's observations and actions look like, as plain data that travels without the environment."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np

from paddock.core.errors import InputError


class ArraySpec(msgspec.Struct, frozen=True, kw_only=True):
    """One array. `choices` is set for a discrete quantity (the dtype is then an integer)."""

    shape: tuple[int, ...]
    dtype: str
    low: float | list[Any] | None = None
    high: float | list[Any] | None = None
    choices: int | None = None

    @property
    def size(self) -> int:
        """Numbers in one such array."""
        return math.prod(self.shape)

    @property
    def is_discrete(self) -> bool:
        return self.choices is not None

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Low and high as arrays of the full shape; infinite where there is none."""
        low = -np.inf if self.low is None else self.low
        high = np.inf if self.high is None else self.high
        dtype = np.float32 if self.is_discrete else self.dtype
        return (
            np.broadcast_to(np.asarray(low, dtype), self.shape),
            np.broadcast_to(np.asarray(high, dtype), self.shape),
        )


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """The spaces of an environment. A plain observation has the single name `observation`."""

    observation: dict[str, ArraySpec]
    action: ArraySpec
    is_dict: bool = False

    def only(self, parts: list[str] | None) -> Spec:
        """These spaces with no more than the named parts of the observation; None for all of them."""
        if parts is None:
            return self
        if unknown := [name for name in parts if name not in self.observation]:
            raise InputError(
                f"the observation has no part {', '.join(unknown)}. Its parts are: {', '.join(self.observation)}."
            )
        return msgspec.structs.replace(self, observation={name: self.observation[name] for name in parts})

    def to_dict(self) -> dict[str, Any]:
        return msgspec.to_builtins(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Spec:
        return msgspec.convert(values, cls)
