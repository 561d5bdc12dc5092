"""What takes the place of NumPy's and torch's functions in a pickle: arrays whose sizes are checked against the bytes
that are there, before anything is made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from paddock.tmrl.pickles import Name, RefusedPickleError, Rules

MOST_AXES = 32
NUMPY_CORES = ("numpy.core", "numpy._core")  # before and since NumPy 2
NUMBERS = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1")
STORAGES = {
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}


class PickledType:
    """A NumPy type of plain numbers."""

    def __init__(self, code: Any, *_: Any) -> None:
        self.code, self.order = code if isinstance(code, str) else "", "="

    def build(self, state: Any) -> None:
        self.order = state[1] if isinstance(state, tuple) and isinstance(state[1], str) else ""

    @property
    def dtype(self) -> np.dtype:
        if self.code not in NUMBERS or self.order not in ("<", "=", "|"):
            raise RefusedPickleError(f"it has an array of type '{self.order[:2]}{self.code[:20]}', which is not read")
        return np.dtype(self.code)


class PickledArray:
    """A NumPy array; its numbers come with `build`."""

    def __init__(self, *_: Any) -> None:
        self.array = np.zeros(0)

    def build(self, state: Any) -> None:
        _, shape, kind, is_fortran, data = state
        self.array = array_of(data, kind, shape, "F" if is_fortran else "C")


def array_of(data: Any, kind: Any, shape: Any, order: str) -> np.ndarray:
    """The array of these bytes, if they are as many as type and shape say."""
    if not isinstance(data, bytes | bytearray) or not isinstance(kind, PickledType) or not _is_shape(shape):
        raise RefusedPickleError("it has an array that is not made of plain numbers")
    dtype, size = kind.dtype, math.prod(shape)
    if size * dtype.itemsize != len(data):
        raise RefusedPickleError(f"it has an array of shape {_short(shape)} with {len(data):,} bytes of numbers")
    # A view: a pickle may use the same bytes any number of times.
    return np.frombuffer(data, dtype).reshape(shape, order=order)  # type: ignore[call-overload]


def _from_buffer(data: Any, kind: Any, shape: Any, order: Any) -> PickledArray:
    made = PickledArray()
    made.array = array_of(data, kind, shape, "F" if order == "F" else "C")
    return made


def _scalar(kind: Any, data: Any) -> Any:
    return array_of(data, kind, (), "C").item()


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    """Python 3 writes bytes this way in old protocols."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise RefusedPickleError("it encodes text in a way that no file of data needs")
    return text.encode("latin-1")


NUMPY_CALLS: Mapping[str, Any] = {
    "numpy.dtype": PickledType,
    "_codecs.encode": _encode,
    **{f"{core}.multiarray._reconstruct": PickledArray for core in NUMPY_CORES},
    **{f"{core}.multiarray.scalar": _scalar for core in NUMPY_CORES},
    **{f"{core}.numeric._frombuffer": _from_buffer for core in NUMPY_CORES},
}
ARRAY_RULES = Rules(NUMPY_CALLS, frozenset({"numpy.ndarray"}), purpose="an array of numbers")


@dataclass
class Storage:
    """The numbers below tensors of one type; None while they are not known yet."""

    dtype: torch.dtype
    count: int
    numbers: Tensor | None = None

    def fill(self, data: bytes) -> None:
        """Take the bytes of `count` numbers."""
        assert len(data) == self.count * self.dtype.itemsize
        empty = torch.zeros(0, dtype=self.dtype)
        self.numbers = torch.frombuffer(bytearray(data), dtype=self.dtype) if data else empty


def storage_type(name: Any) -> torch.dtype:
    """The type of numbers in a storage, by the class that a pickle names."""
    path = name.path if isinstance(name, Name) else ""
    kind = path.removeprefix("torch.")
    if kind not in STORAGES:
        raise RefusedPickleError(f"it has tensors in a '{path[:60]}', which is not read")
    return STORAGES[kind]


def rebuild_tensor(storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> Tensor:
    """The tensor over a part of a storage; refused where it reaches beyond it."""
    if not isinstance(storage, Storage) or not _is_shape(size) or not _is_shape(stride) or len(size) != len(stride):
        raise RefusedPickleError("it has a tensor without numbers")
    if not isinstance(offset, int) or offset < 0:
        raise RefusedPickleError("it has a tensor without a place for its numbers")
    count, last = math.prod(size), offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if count and (last >= storage.count or count > storage.count):
        raise RefusedPickleError(f"it has a tensor of shape {_short(size)} over {storage.count:,} numbers")
    if not count or storage.numbers is None:
        return torch.zeros(0 if count else size, dtype=storage.dtype)
    return storage.numbers.as_strided(size, stride, offset)  # A view: many tensors may lie over the same numbers.


def rebuild_parameter(data: Any, *_: Any) -> Tensor:
    """A parameter is its tensor here."""
    if not isinstance(data, Tensor):
        raise RefusedPickleError("it has a parameter without numbers")
    return data


def _empty_dictionary() -> dict[Any, Any]:
    """Its entries follow; a call with entries would copy them each time."""
    return {}


TENSOR_CALLS: Mapping[str, Any] = {
    "collections.OrderedDict": _empty_dictionary,
    "torch._utils._rebuild_tensor": rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": rebuild_tensor,
    "torch._utils._rebuild_parameter": rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": rebuild_parameter,
}
STORAGE_NAMES = frozenset(f"torch.{name}" for name in STORAGES)
TENSOR_RULES = Rules(TENSOR_CALLS, STORAGE_NAMES, purpose="a dictionary of tensors")


def _is_shape(value: Any) -> bool:
    is_listed = isinstance(value, tuple | list) and len(value) <= MOST_AXES
    return is_listed and all(type(n) is int and 0 <= n < 2**48 for n in value)


def _short(shape: Any) -> str:
    return str(tuple(shape))[:60]
