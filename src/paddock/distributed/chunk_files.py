"""A chunk as spool and journal keep it: a small header that msgspec reads, and a raw body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from paddock.distributed.disk import Buffer


@dataclass(frozen=True)
class OutgoingChunk:
    """What a worker hands over: consecutive vector steps.

    steps: transitions in it. version: of the weights that acted last. header, body: as `wire.arrays` packs them; the
    body's pieces must not be changed afterwards, they are written and sent without a copy.
    """

    steps: int
    version: int
    header: bytes
    body: Sequence[Buffer]

    @property
    def size(self) -> int:
        """Bytes of header and body."""
        return len(self.header) + sum(memoryview(piece).nbytes for piece in self.body)


@dataclass(frozen=True)
class StoredChunk:
    """A chunk with its name: worker and sequence."""

    worker: str
    sequence: int
    steps: int
    version: int
    header: bytes
    body: memoryview

    @property
    def size(self) -> int:
        """Bytes of header and body."""
        return len(self.header) + self.body.nbytes


class ChunkHeader(msgspec.Struct, frozen=True, array_like=True):
    """The header of a record that holds a chunk."""

    worker: str
    sequence: int
    steps: int
    version: int
    header: bytes


_decoder = msgspec.msgpack.Decoder(ChunkHeader)
encode_header = msgspec.msgpack.Encoder().encode
decode_header = _decoder.decode
