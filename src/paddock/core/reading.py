"""Reading files that may be damaged or hostile: regular files only, with limits on size, depth and aliases.

Every function returns what the file holds or raises a DamagedError with a sentence; none hangs on a FIFO, follows a
link or takes more memory than its limits allow.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from paddock.core.errors import InputError
from paddock.core.system import open_file

LARGEST_TEXT = 16 * 2**20  # bytes
LARGEST_JSON = 16 * 2**20  # bytes
LARGEST_YAML = 2**20  # bytes; the longest shipped configuration has 20 kB
DEEPEST = 64  # levels of mappings and sequences
MOST_YAML_NODES = 100_000  # keys and values, with every alias written out

_YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C is ten times as fast
_REASONS = {
    errno.ENOENT: "it does not exist",
    errno.ELOOP: "it is a symbolic link, which is not followed here",
    errno.EISDIR: "it is a directory",
}


class DamagedError(InputError):
    """A file that is not what it should be: missing, unreadable, cut short, of another type, or beyond a limit."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"'{path}' cannot be read: {reason}.")
        self.path, self.reason = path, reason


def read_bytes(path: Path, *, limit: int = LARGEST_TEXT) -> bytes:
    """The content of a regular file of at most `limit` bytes."""
    try:
        with open_regular(path, limit=limit) as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise DamagedError(path, _reason_of(error)) from error
    if len(content) > limit:
        raise DamagedError(path, f"it has more than {limit:,} bytes")
    return content


def open_regular(path: Path, *, limit: int | None = None) -> BinaryIO:
    """A regular file of at most `limit` bytes, open for reading; for files that are too long to be read at once."""
    try:
        descriptor = open_file(path, os.O_RDONLY)
    except OSError as error:
        raise DamagedError(path, _reason_of(error)) from error
    status = os.fstat(descriptor)
    reason = ""
    if not stat.S_ISREG(status.st_mode):
        reason = _REASONS[errno.EISDIR] if stat.S_ISDIR(status.st_mode) else "it is not a regular file"
    elif limit is not None and status.st_size > limit:
        reason = f"it has more than {limit:,} bytes"
    if reason:
        os.close(descriptor)
        raise DamagedError(path, reason)
    return os.fdopen(descriptor, "rb")


def require_regular(*paths: Path) -> None:
    """Refuse what is in the place of a file that is about to be written, unless it is a regular file or nothing."""
    for path in paths:
        if os.path.lexists(path):
            open_regular(path).close()


def read_text(path: Path, *, limit: int = LARGEST_TEXT) -> str:
    """The content of a UTF-8 file."""
    try:
        return read_bytes(path, limit=limit).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DamagedError(path, f"it is not UTF-8 text at byte {error.start}") from error


def read_json(path: Path, *, limit: int = LARGEST_JSON, depth: int = DEEPEST) -> Any:
    """What a JSON file holds."""
    try:
        return parse_json(read_bytes(path, limit=limit), depth=depth)
    except DamagedError:
        raise
    except ValueError as error:
        raise DamagedError(path, str(error)) from error


def parse_json(text: bytes | str, *, depth: int = DEEPEST) -> Any:
    """What a JSON text holds; a ValueError that says why where it is none, or nested too deeply."""
    try:
        values = json.loads(text)
    except RecursionError:
        raise ValueError(f"it is nested deeper than {depth} levels") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 text at byte {error.start}") from error
    except ValueError as error:
        raise ValueError(f"it is not JSON ({error})") from error
    if _is_deeper(values, depth):
        raise ValueError(f"it is nested deeper than {depth} levels")
    return values


def read_yaml(path: Path, *, limit: int = LARGEST_YAML, depth: int = DEEPEST) -> Any:
    """What a YAML file of plain values holds."""
    content = read_bytes(path, limit=limit)
    try:
        reason = _yaml_excess(yaml.parse(content, Loader=_YAML_LOADER), depth)
        if reason:
            raise DamagedError(path, reason)
        return yaml.load(content, Loader=_YAML_LOADER)
    except DamagedError:
        raise
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        # Beyond YAMLErrors, the parser stumbles over tags that do not fit, such as `!!int ""`.
        raise DamagedError(path, f"it is not YAML ({' '.join(str(error).split())})") from error


def _reason_of(error: OSError) -> str:
    return _REASONS.get(error.errno or 0, (error.strerror or str(error)).lower())


def _is_deeper(values: Any, depth: int) -> bool:
    level = [values]
    for _ in range(depth + 1):
        level = [child for value in level for child in _children(value)]
        if not level:
            return False
    return True


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _yaml_excess(events: Iterable[Any], depth: int) -> str:
    """Why a document is too much, before it is built: its depth, or its size once every alias is written out."""
    sizes: dict[str, int] = {}  # of anchored nodes, aliases in them written out
    open_nodes: list[tuple[str | None, int]] = []  # anchor, nodes seen before it
    total = 0
    for event in events:
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, total))
            total += 1
            if len(open_nodes) > depth:
                return f"it is nested deeper than {depth} levels"
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            if anchor is not None:
                sizes[anchor] = total - before
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
            if event.anchor is not None:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                return f"its alias '{event.anchor}' refers to itself or to nothing"
            total += sizes[event.anchor]
        if total > MOST_YAML_NODES:
            return f"it has more than {MOST_YAML_NODES:,} keys and values with its aliases written out"
    return ""
