"""What opens the server: a token that is made at every start, and the files in which its owner finds it."""

from __future__ import annotations

import hmac
import html
import json
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import psutil

from paddock.core.errors import InputError
from paddock.core.paths import paddock_home
from paddock.core.reading import DamagedError, read_bytes, read_json
from paddock.core.system import is_mine, open_file

FOLDER, KEY = "dashboard", "key"
KEY_BYTES = 32
LARGEST = 4096  # bytes of a file in the folder
REDIRECT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
<title>Paddock</title>
<p><a href="{address}">Open the pit wall</a></p>
</html>
"""


class Access:
    """The words of one start of the server.

    token: opens the server. Every start makes a new one, so that one which was seen is worth nothing later.
    challenge: public, and another one at every start as well. A page that was let in before the server was restarted
    answers it with the key that it was given for its host; the answer is worth nothing to another server that has
    taken the port meanwhile, which a cookie that outlives the server would not be.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.token = secrets.token_urlsafe(24)
        self.challenge = secrets.token_urlsafe(24)

    def is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode("utf-8", "replace"), self.token.encode())

    def page_key(self, host: str) -> str:
        """What a page that was opened at this host proves later that it was let in with."""
        return _digest(self._key, host)

    def is_proof(self, host: str, given: str) -> bool:
        """Whether a page of this host has answered the challenge."""
        expected = _digest(self.page_key(host).encode(), self.challenge)
        return secrets.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def open_access() -> Access:
    """Words for a server of this user; the key that pages come back with is kept in PADDOCK_HOME."""
    try:
        return Access(_user_key(_folder()))
    except OSError as error:
        raise InputError(
            f"the dashboard keeps its token in '{paddock_home() / FOLDER}', which cannot be written: "
            f"{error.strerror or error}. Set PADDOCK_HOME to a folder of your own."
        ) from error


@contextmanager
def published(access: Access, address: str, port: int) -> Iterator[Path]:
    """Leave the token where only this user can read it, for as long as the server runs.

    address: with the token in it. Gives the page that leads there: a browser gets its name as an argument, which
    every user of the machine can see, and never the token.
    """
    folder = _folder()
    _remove_left_over(folder)
    facts, page = folder / f"{port}.json", folder / f"{port}.html"
    plain = address.partition("?")[0]
    values = {"address": plain, "token": access.token, "pid": os.getpid(), "machine": socket.gethostname()}
    write_private(facts, json.dumps(values).encode())
    write_private(page, REDIRECT.format(address=html.escape(address)).encode())
    try:
        yield page
    finally:
        if _owner(facts) == (os.getpid(), socket.gethostname()):
            facts.unlink(missing_ok=True)
            page.unlink(missing_ok=True)


def write_private(file: Path, content: bytes) -> None:
    """Replace a file by one that no other user could ever read."""
    fresh = file.with_name(f".{file.name}-{secrets.token_hex(4)}")
    descriptor = open_file(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
        os.replace(fresh, file)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def _folder() -> Path:
    folder = paddock_home().absolute() / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    facts = folder.stat()
    if not is_mine(facts):
        raise InputError(
            f"'{folder}' belongs to another user: they could read the dashboard's token there. "
            "Set PADDOCK_HOME to a folder of your own."
        )
    if facts.st_mode & 0o077:
        folder.chmod(0o700)
    return folder


def _user_key(folder: Path) -> bytes:
    file = folder / KEY
    with suppress(DamagedError, OSError):
        key = read_bytes(file, limit=KEY_BYTES)
        if len(key) == KEY_BYTES and not file.stat().st_mode & 0o077:
            return key
    key = secrets.token_bytes(KEY_BYTES)
    write_private(file, key)
    return key


def _remove_left_over(folder: Path) -> None:
    """Files of servers that were killed; a home may be shared with machines whose processes are not seen from here."""
    for facts in folder.glob("*.json"):
        process, machine = _owner(facts)
        if machine in (None, socket.gethostname()) and not psutil.pid_exists(process):
            facts.unlink(missing_ok=True)
            facts.with_suffix(".html").unlink(missing_ok=True)


def _owner(facts: Path) -> tuple[int, str | None]:
    """Process and machine of the server that wrote a file; (-1, None) where it makes no sense."""
    try:
        values = read_json(facts, limit=LARGEST)
        return int(values["pid"]), str(values["machine"])
    except (DamagedError, KeyError, TypeError, ValueError):
        return -1, None


def _digest(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode("utf-8", "replace"), sha256).hexdigest()
