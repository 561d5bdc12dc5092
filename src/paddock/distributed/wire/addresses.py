"""What a worker or a trainer needs to reach a relay: an invitation with certificates, or this machine's token file.

Both are files of mode 0600 that hold a secret; neither's secret appears in a text of theirs.
"""

from __future__ import annotations

import hmac
import logging
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from paddock.core.errors import InputError
from paddock.core.files import open_for_writing, write_all
from paddock.core.paths import paddock_home
from paddock.core.reading import DamagedError, read_bytes
from paddock.core.system import is_mine, make_private
from paddock.distributed.wire.messages import Role

log = logging.getLogger(__name__)

DEFAULT_PORT = 55580
SERVER_NAME = "paddock-relay"  # in the relay's certificate; addresses may change, this does not
LOCAL_FILE = "local.json"
LARGEST_FILE = 2**16  # bytes
T = TypeVar("T")


def relay_folder() -> Path:
    """Where a relay keeps its certificates and its token: `PADDOCK_HOME/relay`."""
    return paddock_home() / "relay"


class _Secrets(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in an invitation's file."""

    format: Literal[1] = 1
    kind: Literal["paddock relay invitation"] = "paddock relay invitation"
    name: str
    role: Role
    host: str
    port: int
    authority: str
    certificate: str
    key: str
    begins: float
    expires: float


class _Local(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in a token file."""

    format: Literal[1] = 1
    host: Literal["127.0.0.1"] = "127.0.0.1"
    port: int
    token: str


@dataclass(frozen=True)
class Invitation:
    """One peer's way to a relay on another machine. begins, expires: of the certificate, seconds since 1970."""

    name: str
    role: Role
    host: str
    port: int
    authority: str = field(repr=False)
    certificate: str = field(repr=False)
    key: str = field(repr=False)
    begins: float
    expires: float

    @property
    def target(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def read(cls, path: Path) -> Invitation:
        """The invitation in a file; a sentence where it is none."""
        values = _read(path, _Secrets, "an invitation. Make one on the relay's machine: paddock relay invite NAME")
        return cls(**{name: getattr(values, name) for name in cls.__dataclass_fields__})

    def write(self, path: Path) -> None:
        """Write it to a new file that only this user can read."""
        values = _Secrets(**{name: getattr(self, name) for name in self.__dataclass_fields__})
        write_private(path, msgspec.json.format(msgspec.json.encode(values)), is_new=True)


@dataclass(frozen=True)
class LocalAddress:
    """A relay on this machine, reached over the loopback with the token that its file holds."""

    port: int
    token: str = field(repr=False)
    host: str = "127.0.0.1"

    @property
    def target(self) -> str:
        return f"{self.host}:{self.port}"

    @classmethod
    def read(cls, folder: Path | None = None) -> LocalAddress:
        """What a relay that runs on this machine wrote into its folder."""
        path = (folder or relay_folder()) / LOCAL_FILE
        if not path.exists():
            raise InputError(
                f"no relay without certificates runs on this machine: there is no '{path}'. Start one with: paddock "
                "relay. For a relay elsewhere, give its invitation."
            )
        values = _read(path, _Local, "a relay's token file. Start the relay again: paddock relay")
        return cls(port=values.port, token=values.token, host=values.host)

    def write(self, folder: Path) -> Path:
        path = folder / LOCAL_FILE
        values = _Local(port=self.port, token=self.token)
        write_private(path, msgspec.json.encode(values))
        return path


def token_code(token: str, side: Literal["peer", "relay"], challenge: bytes, answer: bytes) -> bytes:
    """What shows that one has the token without sending it. It is of use on one connection only: another program that
    took the port while the relay was down does not learn the token from it."""
    return hmac.digest(token.encode(), f"paddock {side} ".encode() + challenge + answer, "sha256")


def make_private_folder(folder: Path) -> None:
    """The folder of a relay, for its user alone."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.is_symlink():
        raise InputError(f"'{folder}' is a link, not a folder; nothing is written there.")
    status = folder.stat()
    if not is_mine(status):
        raise InputError(f"'{folder}' belongs to another user; keep the relay's secrets in a folder of your own.")
    if stat.S_IMODE(status.st_mode) & 0o077:
        folder.chmod(0o700)


def write_private(path: Path, data: bytes, *, is_new: bool = False) -> None:
    """Write a whole file of mode 0600 so that a reader sees the old or the new one. is_new: refuse to replace one."""
    if is_new and os.path.lexists(path):
        raise InputError(f"'{path}' exists already; give another file, or remove it first.")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = open_for_writing(temporary, os.O_WRONLY | os.O_EXCL, 0o600)
    try:
        try:
            make_private(descriptor)
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _read(path: Path, kind: type[T], what: str) -> T:
    data = read_bytes(path, limit=LARGEST_FILE)
    if path.stat().st_mode & 0o077:
        log.warning("'%s' holds a secret and can be read by others; close it: chmod 600 '%s'", path, path)
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # The parser's own words may quote the file, and with it a key.
        raise DamagedError(path, f"it is not {what}") from None
