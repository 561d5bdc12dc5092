"""Named arrays as raw bytes with a header, and back: what a chunk's or a policy's body is made of.

The header names every array with its dtype, shape and place. A receiver checks it against the layout that it expects,
and the sizes against the body that came, before it takes memory; then arrays are views of the body, not copies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta, Struct

from paddock.core.lazy import require
from paddock.distributed.wire.messages import ITEM_SIZES, LARGEST_WEIGHTS, MOST_AXES, ProtocolError

ALIGNMENT = 16  # bytes
MOST_ARRAYS = 4_096
ZSTD = "zstd"
LEVEL = 1
TESTED = 2**16  # bytes from the middle of a body that tell whether compressing pays
PAYS_BELOW = 0.8  # of the size
TEST_EVERY = 64  # bodies


class _Entry(Struct, frozen=True, array_like=True):
    name: Annotated[str, Meta(max_length=256)]
    dtype: Annotated[str, Meta(max_length=16)]
    shape: Annotated[list[Annotated[int, Meta(ge=0, le=2**40)]], Meta(max_length=MOST_AXES)]
    offset: Annotated[int, Meta(ge=0, le=LARGEST_WEIGHTS)]


class _Header(Struct, frozen=True, array_like=True):
    """size: of the arrays together, uncompressed."""

    size: Annotated[int, Meta(ge=0, le=LARGEST_WEIGHTS)]
    entries: Annotated[list[_Entry], Meta(max_length=MOST_ARRAYS)]
    compression: Literal["", "zstd"] = ""


class Field(NamedTuple):
    """What a receiver expects of one array. A length of None can be any; the same letter is the same length."""

    dtype: str
    shape: Sequence[int | str | None]


Layout = Mapping[str, Field]

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Header)


class Packed(NamedTuple):
    header: bytes
    body: list[memoryview]

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.body)


class Packer:
    """Packs arrays of one stream. It compresses while that pays, which it tries out now and then on a sample."""

    def __init__(self, *, compress: bool = True) -> None:
        self._compress = compress
        self._count = 0
        self._pays = False

    def pack(self, arrays: Mapping[str, np.ndarray]) -> Packed:
        """The header and the body of these arrays. They must not change until the body was sent."""
        header, parts = _laid_out(arrays)
        if not self._compress or header.size < 512:
            return Packed(_encoder.encode(header), parts)
        if self._count % TEST_EVERY == 0:
            self._pays = _pays(arrays)
        self._count += 1
        if not self._pays:
            return Packed(_encoder.encode(header), parts)
        small = _compressor().compress(b"".join(parts))
        return Packed(_encoder.encode(msgspec.structs.replace(header, compression=ZSTD)), [memoryview(small)])


def pack(arrays: Mapping[str, np.ndarray]) -> Packed:
    """As a Packer that does not compress."""
    return Packer(compress=False).pack(arrays)


def unpack(
    header: bytes,
    body: memoryview,
    expected: Layout | None = None,
    *,
    limit: int = LARGEST_WEIGHTS,
    finite: bool = False,
) -> dict[str, np.ndarray]:
    """The arrays, read-only. Raises ProtocolError where they are not the expected ones, or where one of them has a NaN
    or an infinite number although all must be `finite`. limit: bytes of all of them, uncompressed."""
    described = _checked_header(header, limit)
    if expected is not None:
        _check_layout(described, expected)
    data = _decompressed(described, body)
    arrays = {}
    for entry in described.entries:
        flat = np.frombuffer(data, _dtype(entry.dtype), math.prod(entry.shape), entry.offset)
        arrays[entry.name] = flat.reshape(entry.shape)
        arrays[entry.name].flags.writeable = False
    if finite:
        for name, array in arrays.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise ProtocolError(f"the array '{_shown(name)}' has a NaN or an infinite number in it")
    return arrays


def _laid_out(arrays: Mapping[str, np.ndarray]) -> tuple[_Header, list[memoryview]]:
    entries, parts, offset = [], [], 0
    for name, given in arrays.items():
        if given.dtype.name not in ITEM_SIZES:
            raise ProtocolError(f"the array '{name}' has the dtype {given.dtype.name}, which does not travel")
        array = np.ascontiguousarray(given, _dtype(given.dtype.name))
        padding = -offset % ALIGNMENT
        if padding:
            parts.append(memoryview(bytes(padding)))
        entries.append(_Entry(name, given.dtype.name, list(given.shape), offset + padding))
        if array.nbytes:
            parts.append(array.data.cast("B"))
        offset += padding + array.nbytes
    return _Header(offset, entries), parts


def _pays(arrays: Mapping[str, np.ndarray]) -> bool:
    """Whether the largest array's middle shrinks enough."""
    largest = np.ascontiguousarray(max(arrays.values(), key=lambda array: array.nbytes))
    view = largest.reshape(-1).data.cast("B")
    start = max(0, (len(view) - TESTED) // 2)
    sample = view[start : start + TESTED]
    return len(_compressor().compress(sample)) < PAYS_BELOW * len(sample)


def _checked_header(header: bytes, limit: int) -> _Header:
    try:
        described = _decoder.decode(header)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"the header of the arrays cannot be read ({error})") from error
    if described.size > limit:
        raise ProtocolError(f"arrays of {described.size:,} bytes were announced, at most {limit:,} are allowed")
    names, end = set(), 0
    for entry in described.entries:
        shown = _shown(entry.name)
        if entry.dtype not in ITEM_SIZES:
            raise ProtocolError(f"the array '{shown}' has the dtype '{_shown(entry.dtype)}', which does not travel")
        if entry.name in names:
            raise ProtocolError(f"the array '{shown}' was sent twice")
        if entry.offset != end + -end % ALIGNMENT:
            raise ProtocolError(f"the array '{shown}' does not lie behind the one before it")
        names.add(entry.name)
        end = entry.offset + math.prod(entry.shape) * ITEM_SIZES[entry.dtype]
    if end != described.size:
        raise ProtocolError(f"the arrays need {end:,} bytes, and {described.size:,} were announced")
    return described


def _check_layout(described: _Header, expected: Layout) -> None:
    found = {entry.name: entry for entry in described.entries}
    if found.keys() != expected.keys():
        missing, extra = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
        raise ProtocolError(
            f"the arrays are not the expected ones: {_listed(missing)} missing, {_listed(extra)} unknown"
        )
    lengths: dict[str, int] = {}
    for name, field in expected.items():
        entry = found[name]
        if entry.dtype != field.dtype:
            raise ProtocolError(f"the array '{name}' has the dtype {_shown(entry.dtype)}, expected {field.dtype}")
        if len(entry.shape) != len(field.shape) or not all(map(_fits(lengths), entry.shape, field.shape)):
            wanted = [lengths.get(one, one) if isinstance(one, str) else one for one in field.shape]
            raise ProtocolError(f"the array '{name}' has the shape {entry.shape}, expected {wanted}")


def _fits(lengths: dict[str, int]) -> Any:
    def fits(length: int, wanted: int | str | None) -> bool:
        if isinstance(wanted, str):
            return lengths.setdefault(wanted, length) == length
        return wanted is None or length == wanted

    return fits


def _decompressed(described: _Header, body: memoryview) -> memoryview | bytes:
    if not described.compression:
        if body.nbytes != described.size:
            raise ProtocolError(f"a body of {body.nbytes:,} bytes came for arrays of {described.size:,}")
        return body
    zstandard = require("zstandard", extra="relay", purpose="Reading what a worker compressed")
    try:
        # The size inside the frame is the sender's word, and memory is taken by it: it must be the announced one.
        inside = zstandard.get_frame_parameters(body).content_size
        if inside != described.size:
            raise ProtocolError(f"the body unpacks to another size than the {described.size:,} bytes announced")
        return zstandard.ZstdDecompressor().decompress(body, max_output_size=described.size)
    except zstandard.ZstdError as error:
        raise ProtocolError("the body cannot be decompressed") from error


@cache
def _compressor() -> Any:
    zstandard = require("zstandard", extra="relay", purpose="Compressing what a worker sends")
    return zstandard.ZstdCompressor(level=LEVEL, write_content_size=True)


@cache
def _dtype(name: str) -> np.dtype:
    return np.dtype(name).newbyteorder("<")


def _shown(name: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in name[:60])


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(_shown, names[:8])) or "none"
