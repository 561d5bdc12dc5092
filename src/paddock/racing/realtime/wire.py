"""Messages between the agent's process and the world's: msgpack mappings, each behind its length."""

from __future__ import annotations

import socket
import struct
from typing import Any

import msgspec
import numpy as np

from paddock.core.errors import PaddockError

LARGEST = 64 * 2**20  # bytes of one message; a picture of a thousand pixels on a side takes 3 MB
ARRAY = "array"
_LENGTH = struct.Struct("<I")


class WireError(PaddockError):
    """A message that is none."""


class Wire:
    """One connection; arrays travel as their type, shape and bytes."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, message: dict[str, Any]) -> None:
        data = msgspec.msgpack.encode(message, enc_hook=_packed)
        self.connection.sendall(_LENGTH.pack(len(data)) + data)

    def receive(self) -> dict[str, Any]:
        """The next message. Raises an OSError where the connection has ended."""
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        if length > LARGEST:
            raise WireError(f"a message of the racing world's process has {length:,} bytes; allowed: {LARGEST:,}.")
        try:
            message = msgspec.msgpack.decode(self._read(length))
        except msgspec.DecodeError as error:
            raise WireError(f"a message of the racing world's process is damaged: {error}.") from error
        if not isinstance(message, dict):
            raise WireError("a message of the racing world's process is no mapping.")
        return _unpacked(message)

    def close(self) -> None:
        self.connection.close()

    def _read(self, size: int) -> bytes:
        chunks, left = [], size
        while left:
            chunk = self.connection.recv(min(left, 2**20))
            if not chunk:
                raise ConnectionResetError("the connection has ended")
            chunks.append(chunk)
            left -= len(chunk)
        return b"".join(chunks)


def _packed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {ARRAY: [value.dtype.str, list(value.shape), np.ascontiguousarray(value).tobytes()]}
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be sent")


def _unpacked(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {ARRAY}:
            kind, shape, data = value[ARRAY]
            return np.frombuffer(data, np.dtype(kind)).reshape(shape).copy()
        return {name: _unpacked(one) for name, one in value.items()}
    return [_unpacked(one) for one in value] if isinstance(value, list) else value
