"""Messages with bodies as a stream of pieces of bounded size, and back.

The first piece of a message is `kind, length of the message, size of the body`, the message and, where it fits, the
body. A larger body follows in raw pieces of PIECE bytes, the last one of what is left. The size is checked before
memory is taken.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import numpy as np

from paddock.distributed.wire.link import EMPTY, Buffers, Received
from paddock.distributed.wire.messages import LARGEST_MESSAGE, Message, ProtocolError, decode, encode

PIECE = 2**20  # bytes of a body in one piece
PREFIX = struct.Struct(">4sIQ")
KIND = b"pdk1"
LARGEST_PIECE = PREFIX.size + LARGEST_MESSAGE + PIECE


def pieces(message: Message, body: Buffers = ()) -> Iterator[bytes]:
    """What to send for a message and its body."""
    header = encode(message)
    if len(header) > LARGEST_MESSAGE:
        raise ProtocolError(
            f"a {type(message).__name__} of {len(header):,} bytes is more than the {LARGEST_MESSAGE:,} allowed"
        )
    views = [memoryview(one).cast("B") for one in body]
    size = sum(len(view) for view in views)
    prefix = PREFIX.pack(KIND, len(header), size)
    if size <= PIECE:
        yield b"".join((prefix, header, *views))
        return
    yield prefix + header
    yield from _cut(views)


def _cut(views: list[memoryview]) -> Iterator[bytes]:
    """All of them one after another, in pieces; what is a piece already is not copied."""
    parts: list[memoryview] = []
    room = PIECE
    for view in views:
        start = 0
        while start < len(view):
            part = view[start : start + room]
            start, room = start + len(part), room - len(part)
            parts.append(part)
            if not room:
                yield _joined(parts)
                parts, room = [], PIECE
    if parts:
        yield _joined(parts)


def _joined(parts: list[memoryview]) -> bytes:
    whole = parts[0].obj
    if len(parts) == 1 and isinstance(whole, bytes) and len(whole) == len(parts[0]):
        return whole
    return b"".join(parts)


class Pieces:
    """A body as it arrived, for a relay that passes it on and never looks inside: nothing is copied."""

    def __init__(self) -> None:
        self.parts: list[bytes | memoryview] = []
        self.nbytes = 0

    def add(self, part: bytes | memoryview) -> None:
        self.parts.append(part)
        self.nbytes += len(part)


class _Body:
    """A body that is on its way, into one buffer."""

    def __init__(self, size: int) -> None:
        self.whole = np.empty(size, np.uint8).data  # Takes memory only as it is filled.
        self.nbytes = 0

    def add(self, part: bytes | memoryview) -> None:
        end = self.nbytes + len(part)
        self.whole[self.nbytes : end] = part
        self.nbytes = end


class _Frames:
    """Pieces in, messages out. Raises ProtocolError at the first piece that cannot be part of a stream."""

    def __init__(self, limit: Callable[[Message], int]) -> None:
        """limit: the most bytes that may follow a message; it may also raise a ProtocolError."""
        self._limit = limit
        self._message: Message | None = None  # whose body is on its way
        self._missing = 0  # bytes of it

    def _begin(self, piece: bytes) -> tuple[Message, int, memoryview]:
        """The message that a piece begins with, the size of its body, and what came of that."""
        if len(piece) < PREFIX.size:
            raise ProtocolError(f"a piece of {len(piece)} bytes is too short to begin a message")
        kind, length, size = PREFIX.unpack_from(piece)
        if kind != KIND:
            raise ProtocolError("this is not the beginning of a message of Paddock's relay")
        if length > LARGEST_MESSAGE or PREFIX.size + length > len(piece):
            raise ProtocolError(f"a message of {length:,} bytes was announced in a piece of {len(piece):,}")
        rest = memoryview(piece)[PREFIX.size :]
        message, body = decode(rest[:length]), rest[length:]
        limit = self._limit(message)
        if size > limit:
            raise ProtocolError(
                f"a {type(message).__name__} announced a body of {size:,} bytes, and at most {limit:,} may follow it"
            )
        if len(body) != (size if size <= PIECE else 0):
            raise ProtocolError(f"a body of {size:,} bytes was announced, and {len(body):,} came with its message")
        return message, size, body

    def _continue(self, piece: bytes) -> bool:
        """Whether a piece completes the body. Small pieces are refused: each costs more memory than its bytes."""
        if len(piece) != min(PIECE, self._missing):
            raise ProtocolError(f"{self._missing:,} bytes of a body were missing, and a piece of {len(piece):,} came")
        self._missing -= len(piece)
        return not self._missing


class Assembler(_Frames):
    """Pieces in; messages with their bodies in one buffer out."""

    _body: _Body

    def feed(self, piece: bytes) -> Received | None:
        """The message that this piece completes, if it does."""
        if self._message is None:
            message, size, body = self._begin(piece)
            if size <= PIECE:
                return Received(message, body if size else EMPTY)
            self._message, self._missing, self._body = message, size, _Body(size)
            return None
        is_whole = self._continue(piece)
        self._body.add(piece)
        if not is_whole:
            return None
        whole = Received(self._message, self._body.whole.toreadonly())
        self._message = None
        del self._body
        return whole


class Forwarder(_Frames):
    """Pieces in; messages with their bodies as they came out."""

    _body: Pieces

    def feed(self, piece: bytes) -> tuple[Message, Pieces] | None:
        """The message that this piece completes, if it does."""
        if self._message is None:
            message, size, body = self._begin(piece)
            found = Pieces()
            if size <= PIECE:
                found.add(body)
                return message, found
            self._message, self._missing, self._body = message, size, found
            return None
        is_whole = self._continue(piece)
        self._body.add(piece)
        if not is_whole:
            return None
        message, self._message = self._message, None
        return message, self._body
