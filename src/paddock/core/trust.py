"""Files that came from elsewhere are data: the one place that decides what a saved file may cause.

A policy, a run folder or a recording may name Python files, packages, commands, addresses and paths. `dangers` lists
them, `check` refuses the file unless this user signed it when making it, or said `--trust` for exactly this content.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from paddock.core import permission
from paddock.core.errors import InputError
from paddock.core.files import append_line, replace_file
from paddock.core.paths import paddock_home
from paddock.core.permission import UntrustedError
from paddock.core.reading import DamagedError, read_bytes, read_json, read_text
from paddock.core.system import open_file
from paddock.core.user_code import KeptCode, file_digest, package_digest, split_reference

log = logging.getLogger(__name__)

SIGNATURE = "signature.json"
MARK = "signature"  # the key of a signature that stands beside what it signs
KEY, TRUSTED = "signing_key", "trusted.jsonl"
KEY_BYTES = 32
MOST_LISTED, LONGEST_SHOWN = 30, 160
OWN = "paddock"
PLUGINS_VARIABLE = "PADDOCK_PLUGINS"

FILE, PACKAGE, COMMAND, ADDRESS, FOLDER, PATH, LINK = "file", "package", "command", "address", "folder", "path", "link"
SENTENCES = {
    FILE: "runs the Python file",
    PACKAGE: "imports the package of",
    COMMAND: "runs the command",
    ADDRESS: "sends to",
    FOLDER: "writes to the folder",
    PATH: "reaches outside its folder, to",
    LINK: "is a link that leads outside the folder, to",
}
COMMAND_KEYS = ("command", "commands", "cmd", "shell", "exec", "script")
WRITTEN_KEYS = ("folder", "directory")
PYTHON = re.compile(r"\.py[a-z]?(:|$)", re.IGNORECASE)
MODULE = re.compile(r"[^\W\d][\w.]*:(?!//)\S+")
ABSOLUTE = re.compile(r"[/\\~]|[A-Za-z]:[\\/]")
# Texts that look like `module:name` and are data: by the last word of their key.
COLONS = {
    "device": re.compile(r"(cpu|cuda|mps|xpu):\d+"),
    "track": re.compile(r"procedural:.*", re.DOTALL),
    "sources": re.compile(r"minari:.*", re.DOTALL),
    "interface": re.compile(r"paddock(\.\w+)*:\w+"),
    "kind": re.compile(r"paddock\.tmrl\.example_agent:\w+"),
}
LABELS = re.compile(r"(tags\.\d+|name|runs_dir)")  # Keys of a run that are never opened, run or sent to.


@dataclass(frozen=True)
class Danger:
    """Something that a saved file would cause. key: where it stands, dotted; value: as written."""

    key: str
    kind: str
    value: str

    @property
    def package(self) -> str:
        """The top-level package of a `_target_` or of an environment's `module:name`."""
        return re.split(r"[.:]", self.value, maxsplit=1)[0]

    def __str__(self) -> str:
        return f"{_shown(self.key)} {SENTENCES[self.kind]} '{_shown(self.value)}'"


def dangers(values: Any) -> list[Danger]:
    """Everything in the raw values of a saved file that could run, send, or reach outside the file's folder."""
    return list(_found(values, ""))


@dataclass(frozen=True)
class Verdict:
    """found: what a caller is about to use that is more than data. is_saved: whether any of it stood in the file.
    is_trusted: whether the file is this user's own, or trusted by them as a whole."""

    found: list[Danger]
    is_saved: bool
    is_trusted: bool

    @property
    def may_sign(self) -> bool:
        """Whether what stands there now is the user's own word: nothing was there before, or all of it is trusted."""
        return self.is_trusted or not self.is_saved


@contextmanager
def checked(
    folder: Path, values: Any, *, used: Any = None, trusts: bool = False, with_links: bool = False
) -> Iterator[tuple[Verdict, KeptCode]]:
    """`check`, and what it allows inside: nothing of a person's own, or what they registered, or the code that was kept
    with a folder that is trusted. Kept copies go before the originals."""
    verdict = check(folder, values, used=used, trusts=trusts, with_links=with_links)
    if all(danger.kind == LINK for danger in verdict.found):
        with permission.data_only():
            yield verdict, KeptCode.none()
        return
    code, packages = KeptCode.none(), tuple[str, ...]()
    if verdict.is_trusted:
        code = KeptCode.of(folder)
        packages = tuple(danger.package for danger in verdict.found if danger.kind == PACKAGE)
    granted = replace(permission.current(), is_data_only=False, packages=packages)
    with permission.permitting(granted), code.in_use():
        yield verdict, code


def check(folder: Path, values: Any, *, used: Any = None, trusts: bool = False, with_links: bool = False) -> Verdict:
    """Refuse what came from elsewhere and is more than data.

    values: all that the folder's file holds; used: the part that this caller will act upon, by default all of it. What
    stands in `used` and not in `values` was typed by the person, who need not be asked about it.
    trusts: the person said so; it is remembered for this content. with_links: links that lead outside count, too.
    """
    everything = dangers(values) + (_links_outside(folder) if with_links else [])
    needed = everything if used is None else dangers(used) + [one for one in everything if one.kind == LINK]
    saved = [one for one in everything if one in needed]
    if not saved:
        return Verdict(needed, is_saved=False, is_trusted=False)
    print_of_it = fingerprint(folder, everything)
    if _is_signed(folder, print_of_it) or _is_remembered(print_of_it):
        return Verdict(needed, is_saved=True, is_trusted=True)
    refused = [one for one in everything if not _is_harmless(one, folder)]
    if trusts:
        _remember(folder, print_of_it)
    elif any(one in saved for one in refused):
        raise UntrustedError(_refusal(folder, refused))
    return Verdict(needed, is_saved=True, is_trusted=trusts)


def sign(folder: Path, values: Any) -> None:
    """Mark what this user made on this machine as their own work; there is nothing to sign where nothing could run."""
    found = dangers(values)
    if not found or permission.is_data_only():
        return
    try:
        signature = _signature(fingerprint(folder, found))
        replace_file(folder / SIGNATURE, json.dumps({"format": 1, "signature": signature}).encode())
    except OSError as error:
        log.warning("'%s' cannot be signed (%s); using it later will need --trust.", folder, error)


def mark(values: Mapping[str, Any]) -> str:
    """A signature of plain values themselves, for those that are acted upon whether or not they hold a danger."""
    return _signature(hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest())


def is_marked(values: Mapping[str, Any], given: Any) -> bool:
    """Whether `given` is what `mark` made of these values for this user."""
    return isinstance(given, str) and hmac.compare_digest(given.encode(), mark(values).encode())


def fingerprint(folder: Path, found: Sequence[Danger]) -> str:
    """The same for the same dangers and the same bytes of code, wherever the folder lies."""
    code = KeptCode.of(folder)
    listed = sorted((one.key, one.kind, one.value, _digest(one, code)) for one in found)
    return hashlib.sha256(json.dumps([listed, code.digests()]).encode()).hexdigest()


# --- what is dangerous ---


def _found(value: Any, key: str) -> Iterator[Danger]:
    if isinstance(value, Mapping):
        for name, child in value.items():
            name = _text(name)
            if _leads_away(name):
                yield Danger(key or name, PATH, name)
            yield from _found(child, f"{key}.{name}" if key else name)
    elif isinstance(value, list | tuple | set | frozenset):
        for number, child in enumerate(value):
            yield from _found(child, f"{key}.{number}")
    elif isinstance(value, str | bytes | bytearray) and not LABELS.fullmatch(key):
        yield from _in_text(_text(value), key)


def _in_text(text: str, key: str) -> Iterator[Danger]:
    words = [word for word in key.split(".") if not word.isdigit()]
    last = words[-1] if words else ""
    if last == "_target_":
        if re.split(r"[.:]", text, maxsplit=1)[0] != OWN:
            yield Danger(key, PACKAGE, text)
    elif last in COMMAND_KEYS:
        yield Danger(key, COMMAND, text)
    elif "://" in text or last == "webhook" or (last == "wandb" and text == "online"):
        yield Danger(key, ADDRESS, "Weights & Biases" if last == "wandb" else text)
    elif PYTHON.search(text):
        yield Danger(key, FILE, text)
    elif last in WRITTEN_KEYS:
        yield Danger(key, FOLDER, text)
    elif _leads_away(text):
        yield Danger(key, PATH, text)
    elif MODULE.fullmatch(text) and not (last in COLONS and COLONS[last].fullmatch(text)):
        yield Danger(key, PACKAGE, text)


def _leads_away(text: str) -> bool:
    return ABSOLUTE.match(text) is not None or ".." in re.split(r"[\\/]", text)


def _text(value: Any) -> str:
    """As a schema would read it: YAML also has bytes, which become text there."""
    return bytes(value).decode("utf-8", "replace") if isinstance(value, bytes | bytearray) else str(value)


def _links_outside(folder: Path) -> list[Danger]:
    """Links of a run that lead out of it, and what is neither a file, a folder nor a link."""
    root = folder.resolve()
    found = []
    for parent, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = Path(parent, name)
            try:
                mode = path.lstat().st_mode
                target = os.readlink(path) if stat.S_ISLNK(mode) else None
            except FileNotFoundError:  # A run that goes on removes old checkpoints meanwhile.
                continue
            if target is not None:
                if not _resolved(path).is_relative_to(root):
                    found.append(Danger(str(path.relative_to(root)), LINK, target))
            elif not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise UntrustedError(f"'{path}' is neither a file nor a folder; remove it, then try again.")
    return found


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # A link that leads to itself leads nowhere.
        return Path("/")


def _is_harmless(danger: Danger, folder: Path) -> bool:
    """Whether the person allowed it anyway: a package given as a plugin, or a place inside the folder itself."""
    if danger.kind == PACKAGE:
        return danger.package in plugins()
    if danger.kind in (FOLDER, PATH):
        place, root = Path(danger.value).resolve(), folder.resolve()
        return place.is_relative_to(root) or place.is_relative_to(root.parent / ".replay")
    return False


def plugins() -> list[str]:
    """Packages that the person registered: `--plugin`, or PADDOCK_PLUGINS."""
    return [name.strip() for name in os.environ.get(PLUGINS_VARIABLE, "").split(",") if name.strip()]


def _digest(danger: Danger, code: KeptCode) -> str | None:
    """Of the bytes that would run, where they can be found."""
    if danger.kind == FILE:
        file = split_reference(danger.value)[0]
        return code.digest_of_file(file) or file_digest(_resolved(Path(file)))
    if danger.kind == PACKAGE:
        return code.digest_of_package(danger.package) or package_digest(danger.package)
    return None


def _refusal(folder: Path, found: Sequence[Danger]) -> str:
    by_meaning = list({(one.kind, one.value): one for one in reversed(found)}.values())[::-1]
    lines = [f"  - {one}" for one in by_meaning[:MOST_LISTED]]
    if len(by_meaning) > MOST_LISTED:
        lines.append(f"  - and {len(by_meaning) - MOST_LISTED} more")
    return (
        f"'{folder}' does not carry your signature, and it is more than data:\n"
        + "\n".join(lines)
        + "\nNothing of this was done. If you know what it does and want it, add --trust on the command line, or "
        "trust=True in Python; that is remembered for exactly this content."
    )


def _shown(text: str) -> str:
    """One line without control characters, which could paint over the list."""
    plain = "".join(character if character.isprintable() else "?" for character in text)
    return plain if len(plain) <= LONGEST_SHOWN else plain[: LONGEST_SHOWN - 3] + "..."


# --- who made it, who trusted it ---


def _is_signed(folder: Path, print_of_it: str) -> bool:
    try:
        given = read_json(folder / SIGNATURE)
        return hmac.compare_digest(str(given["signature"]), _signature(print_of_it))
    except (DamagedError, KeyError, TypeError, OSError):
        return False


def _signature(print_of_it: str) -> str:
    return hmac.new(_key(), b"paddock 1\n" + print_of_it.encode(), hashlib.sha256).hexdigest()


def _key() -> bytes:
    """This user's key; made at the first use, readable by nobody else."""
    file = paddock_home() / KEY
    if not file.exists():
        _make_key(file)
    key = read_bytes(file, limit=4_096)
    if len(key) < KEY_BYTES:
        raise InputError(f"the signing key '{file}' is damaged; delete it, and a new one is made.")
    return key


def _make_key(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{KEY}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = open_file(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(secrets.token_bytes(KEY_BYTES))
        try:
            os.link(temporary, file)  # Of two processes that make one at once, the first wins.
        except FileExistsError:
            pass
        except OSError:  # No hard links on this file system.
            temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def _remember(folder: Path, print_of_it: str) -> None:
    told = {"fingerprint": print_of_it, "folder": str(folder.resolve()), "time": datetime.now(UTC).isoformat()}
    home = paddock_home()
    home.mkdir(parents=True, exist_ok=True)
    append_line(home / TRUSTED, json.dumps(told).encode())


def _is_remembered(print_of_it: str) -> bool:
    try:
        lines = read_text(paddock_home() / TRUSTED).splitlines()
        return any(json.loads(line)["fingerprint"] == print_of_it for line in lines if print_of_it in line)
    except (DamagedError, ValueError, KeyError, TypeError):
        return False
