"""The words of the control channel: frames of a length and msgpack, and the file in a run's folder that says where the
channel is. Both ends use this; nothing of learning is in here."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Annotated, Any

import msgspec

from paddock.core.reading import read_json

FILE = "channel.json"
TOKEN = "[A-Za-z0-9_-]{32}"
LENGTH = 4  # bytes, big endian, before each frame
LARGEST_REQUEST = 64 * 1024  # bytes of a frame that a run takes
LARGEST_ADDRESS = 4096  # bytes of the file
LARGEST_FRAME = 8 * 1024 * 1024  # bytes of a frame that a run sends: a scene, a picture
encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, Any]).decode


class FrameError(Exception):
    """Bytes that are no frame; whoever sent them is hung up on."""


class Address(msgspec.Struct, frozen=True):
    """Where a run listens, on this machine only, and the word it wants to hear first."""

    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]
    token: Annotated[str, msgspec.Meta(pattern=rf"\A{TOKEN}\Z")]
    pid: Annotated[int, msgspec.Meta(ge=1)]


def new_token() -> str:
    """A word that nobody guesses."""
    return secrets.token_urlsafe(24)


def pack(message: dict[str, Any]) -> bytes:
    """One message as a frame."""
    body = encode(message)
    return len(body).to_bytes(LENGTH, "big") + body


class Unpacker:
    """Takes bytes as they come and gives the messages that are complete."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._bytes = bytearray()

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        self._bytes += data
        messages = []
        while len(self._bytes) >= LENGTH:
            length = int.from_bytes(self._bytes[:LENGTH], "big")
            if length > self._largest:
                raise FrameError(f"a frame of {length} bytes; at most {self._largest} are taken")
            if len(self._bytes) < LENGTH + length:
                break
            messages.append(decode(bytes(self._bytes[LENGTH : LENGTH + length])))
            del self._bytes[: LENGTH + length]
        return messages


def decode(body: bytes) -> dict[str, Any]:
    """The message of a frame."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FrameError(str(error)) from error


def write_address(folder: Path, address: Address) -> None:
    """Leave the address where only this user can read it."""
    file = folder / FILE
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(msgspec.json.encode(address))


def read_address(folder: Path) -> Address | None:
    """Where the run in `folder` says that it listens; None when it does not, or the file makes no sense."""
    try:
        return msgspec.convert(read_json(folder / FILE, limit=LARGEST_ADDRESS), Address)
    except ValueError:  # Damaged files and values of other types alike.
        return None
