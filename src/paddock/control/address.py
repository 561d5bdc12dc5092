"""Where a run can be reached: the file in its folder that names the port of its channel and the token it wants."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Annotated

import msgspec

from paddock.core.reading import read_json

FILE = "channel.json"
TOKEN = "[A-Za-z0-9_-]{32}"
LARGEST_ADDRESS = 4096  # bytes of the file


class Address(msgspec.Struct, frozen=True):
    """Where a run listens, on this machine only, and the token that a viewer has to send."""

    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]
    token: Annotated[str, msgspec.Meta(pattern=rf"\A{TOKEN}\Z")]
    pid: Annotated[int, msgspec.Meta(ge=1)]

    @property
    def headers(self) -> dict[str, str]:
        """What a viewer sends with its handshake."""
        return {"Authorization": f"Bearer {self.token}"}


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(24)


def write_address(folder: Path, address: Address) -> None:
    """Write the address to a file that only this user can read."""
    file = folder / FILE
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(msgspec.json.encode(address))


def read_address(folder: Path) -> Address | None:
    """The address in `folder`; None where there is none, or where the file cannot be one."""
    try:
        return msgspec.convert(read_json(folder / FILE, limit=LARGEST_ADDRESS), Address)
    except ValueError:  # Damaged files and values of other types alike.
        return None
