"""A checkpoint's seal: what it holds, file by file, when it was written, and a digest of the seal itself."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paddock.core.errors import InputError
from paddock.core.files import write_synced

FORMAT = 2  # Format 1 had neither a number nor a digest; it is still read.
SEAL = "checkpoint.json"
NAME = re.compile(r"step-(\d+)(?:-(\d+))?")
Seal = dict[str, Any]


class UnknownFormatError(InputError):
    """A whole checkpoint that another version of Paddock wrote."""


def write_seal(folder: Path, values: Mapping[str, Any]) -> None:
    """Seal a folder with these values. `number` counts the checkpoints of a run, over all its resumes."""
    seal = {"format": FORMAT, **values}
    write_synced(folder / SEAL, json.dumps({**seal, "digest": _digest(seal)}, indent=1).encode())


def read_seal(folder: Path) -> Seal:
    """The seal of a checkpoint, as it was written."""
    try:
        seal = json.loads((folder / SEAL).read_bytes())
        if (seal["format"] != 1 or "digest" in seal) and seal.pop("digest") != _digest(seal):
            raise InputError(f"checkpoint '{folder}' is damaged: {SEAL} is not what was written.")
        if seal["format"] not in (1, FORMAT):
            raise UnknownFormatError(
                f"checkpoint '{folder}' has format {seal['format']}; this Paddock reads 1 to {FORMAT}. "
                "Go on with the Paddock that wrote it, or a newer one."
            )
        return {"number": 0, "score": None, **seal, "files": dict(seal["files"])}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"checkpoint '{folder}' cannot be read: {error}.") from error


def place_in_time(folder: Path, seal: Seal | None) -> tuple[bool, int, int, int]:
    """What checkpoints are sorted by, oldest first: the seal's number, and the name for those of format 1.

    Where the seal cannot be read a checkpoint stands last: it may be the newest, and is not passed over silently.
    """
    match = NAME.fullmatch(folder.name)
    assert match is not None
    number = 0 if seal is None else int(seal["number"])
    return seal is None, number, int(match[1]), int(match[2] or 1)


def _digest(seal: Mapping[str, Any]) -> str:
    text = json.dumps({name: value for name, value in seal.items() if name != "digest"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
