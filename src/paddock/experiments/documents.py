"""What the files of a run hold, checked as they are read: every later reader may rely on the types that stand here.

A file that cannot be read or does not fit is a DamagedError with a sentence. Keys that are not listed are left alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec

from paddock.config.renamed import METRICS
from paddock.core.reading import DamagedError, open_regular, parse_json, read_json, read_yaml

LARGEST_LOG = 4 * 2**30  # bytes
LONGEST_LINE = 2**20  # bytes of a line in a log

Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Whole = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
Section = dict[str, Any] | None


class _Evaluation(msgspec.Struct):
    metric: str = ""


class _Training(msgspec.Struct):
    total_steps: Count | None = None
    phases: list[dict[str, Any]] | dict[str, Any] | None = None


class _Config(msgspec.Struct):
    name: str | None = None
    tags: list[str] | None = None
    seed: Whole | None = None
    environment: Section = None
    workflow: Section = None
    components: Section = None
    buffers: Section = None
    optimizers: Section = None
    controllers: Section = None
    reward: Section = None
    evaluation: _Evaluation | None = None
    training: _Training | None = None
    logging: Section = None
    checkpoint: Section = None
    monitoring: Section = None


class _Git(msgspec.Struct):
    commit: str | None = None
    dirty: bool = False


class _Origin(msgspec.Struct):
    experiment: str | None = None
    user: str | None = None
    preset: str | None = None
    overrides: list[str] = msgspec.field(default_factory=list)


class _Manifest(msgspec.Struct):
    id: str = ""
    status: str = ""
    created: str = ""
    ended: str | None = None
    seed: Whole | None = None
    agent_steps: Count | None = None
    seconds: Seconds | None = None
    config_hash: str = ""
    command: list[str] = msgspec.field(default_factory=list)
    pid: Count | None = None
    host: str | None = None
    git: _Git | None = None
    versions: dict[str, str] | None = None
    hardware: Section = None
    origin: _Origin | None = None
    error: str | None = None


class _Labels(msgspec.Struct):
    tags: list[str] = msgspec.field(default_factory=list)
    pinned: bool = False
    note: str = ""
    name: str | None = None


def read_config(file: Path) -> dict[str, Any]:
    """A run's configuration."""
    return checked(file, read_yaml(file), _Config)


def read_manifest(file: Path) -> dict[str, Any]:
    """A run's manifest; empty where there is none yet."""
    return checked(file, read_json(file), _Manifest) if os.path.lexists(file) else {}


def read_labels(file: Path) -> dict[str, Any]:
    """`tags`, `pinned`, a `note`, and the `name` that a person gave to the run later, or None."""
    return msgspec.structs.asdict(msgspec.convert(checked(file, read_json(file), _Labels), _Labels))


def checked(file: Path, values: Any, shape: Any) -> dict[str, Any]:
    """The values of a file, if they have the shape that its readers rely on."""
    if not isinstance(values, dict):
        raise DamagedError(file, f"it holds a {type(values).__name__} in place of keys and values")
    try:
        msgspec.convert(values, shape)
    except msgspec.ValidationError as error:
        raise DamagedError(file, _reason(error)) from error
    if (place := _not_text(values)) is not None:
        raise DamagedError(file, f"'{place}' is not text")
    return values


@dataclass(frozen=True)
class LogState:
    """How whole a log is. skipped: lines that cannot be read; first: the number of the first of them, where that is
    known; is_torn: whether the file ends within a line, as a kill leaves it."""

    skipped: int = 0
    first: int | None = None
    is_torn: bool = False
    is_empty: bool = True

    def damage(self, file: Path) -> list[str]:
        """A sentence about lines that were left out; none where there are no such lines."""
        if not self.skipped:
            return []
        noun, verb = ("line", "is") if self.skipped == 1 else ("lines", "are")
        place = "" if self.first is None else f", the first is line {self.first:,}"
        return [f"'{file}' has {self.skipped:,} {noun} that cannot be read and {verb} left out{place}."]


class LineReader:
    """The whole lines of an open file, with their ends; an endless one comes as an empty line.

    position: where the last whole line ended. is_torn: whether something follows it.
    """

    def __init__(self, opened: BinaryIO, position: int = 0) -> None:
        opened.seek(position)
        self._opened = opened
        self.position, self.is_torn = position, False

    def __iter__(self) -> Iterator[bytes]:
        while line := self._opened.readline(LONGEST_LINE):
            length = len(line)
            while not line.endswith(b"\n"):
                more = self._opened.readline(LONGEST_LINE)
                if not more:
                    self.is_torn = True
                    return
                length += len(more)
                line = line + more if length <= LONGEST_LINE else more
            self.position += length
            yield line if length <= LONGEST_LINE else b""


def read_lines(file: Path, parse: Callable[[bytes], dict[str, Any]]) -> tuple[list[dict[str, Any]], LogState]:
    """The lines of a log that `parse` takes, and how whole the log is; nothing where there is no file."""
    if not os.path.lexists(file):
        return [], LogState()
    rows, skipped, first = [], 0, None
    with open_regular(file, limit=LARGEST_LOG) as opened:
        reader = LineReader(opened)
        for number, line in enumerate(reader, start=1):
            try:
                rows.append(parse(line))
            except CutShort:
                continue
            except (ValueError, RecursionError):
                skipped, first = skipped + 1, first or number
    return rows, LogState(skipped, first, reader.is_torn, is_empty=not (rows or skipped or reader.is_torn))


class CutShort(ValueError):
    """A line that a kill cut short and the next writer closed off: nothing is wrong with the file."""


def parse_point(line: bytes) -> dict[str, Any]:
    """A logged point: numbers by name, with `agent_steps` and `seconds`."""
    row = _decode_point(line)
    msgspec.convert(row, _Point)
    return {METRICS.get(name, name): value for name, value in row.items()}


def parse_event(line: bytes) -> dict[str, Any]:
    """An event: its `time`, what it is, and whatever belongs to it."""
    if line.startswith(b"{") and not line.rstrip().endswith(b"}") and line.isascii():
        raise CutShort
    row = parse_json(line)
    msgspec.convert(row, _Event)
    if _not_text(row) is not None:
        raise ValueError("it is not text")
    return row


class _Point(msgspec.Struct):
    agent_steps: Count
    seconds: Seconds


class _Event(msgspec.Struct):
    time: str
    event: str
    agent_steps: Count | None = None
    phase: str | None = None


_decode_point = msgspec.json.Decoder(dict[str, int | float | str | None]).decode


def _reason(error: Exception) -> str:
    """msgspec's sentence, ``Expected `int`, got `str` - at `$.seed` ``, in our words."""
    what, _, place = str(error).replace("`", "").partition(" - at ")
    what = what.replace("object", "keys and values").replace(" | null", " or nothing")
    key = place.removeprefix("$").removeprefix(".")
    return f"'{key}' does not fit: {what[:1].lower()}{what[1:]}" if key else f"{what[:1].lower()}{what[1:]}"


def _not_text(values: Any, place: str = "") -> str | None:
    """Where a key or a value is not text that can be written anywhere."""
    if isinstance(values, str):
        return None if is_text(values) else place
    if isinstance(values, dict):
        for key, value in values.items():
            here = f"{place}.{key}" if place else str(key)
            if not isinstance(key, str) or _not_text(key) is not None:
                return here
            if (found := _not_text(value, here)) is not None:
                return found
    elif isinstance(values, list):
        for number, value in enumerate(values):
            if (found := _not_text(value, f"{place}.{number}")) is not None:
                return found
    return None


def is_text(text: str) -> bool:
    """Whether a string can be written anywhere: names of files, and escapes in JSON, may hold lone surrogates."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
