"""Experience kept for later: a folder of rows (see `rows.py`) with the Spec that they fit, without pickle.

`recording.json` says what they are; `rows-<number>` are files of whole episodes, one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from paddock.buffers.rows import RowBuilder, Rows
from paddock.config.schema import TargetSchema
from paddock.core.errors import InputError
from paddock.core.files import replace_file
from paddock.core.specs import Spec
from paddock.core.trees import load_tree, save_tree

FORMAT = 1
DESCRIPTION = "recording.json"


class RecordingConfig(TargetSchema):
    """Where a recording goes, and how many rows make a file."""

    folder: str
    rows_per_file: int = Field(default=10_000, ge=1)


class RecordingBuffer:
    """Takes what a collector gives and writes whole episodes; nothing is sampled from it.

    It goes on where a checkpoint was made: episodes that were written after it are removed.
    """

    def __init__(self, config: RecordingConfig, spec: Spec, num_envs: int) -> None:
        self.config = config
        self.folder = Path(config.folder)
        self._builder = RowBuilder(spec, num_envs)
        self._running: list[list[Rows]] = [[] for _ in range(num_envs)]
        self._ended: list[Rows] = []
        self._files = 0
        write_description(self.folder, spec)

    def add(self, transition: Mapping[str, Any]) -> None:
        """Store one step of all copies."""
        for copies, rows in self._builder.build(transition):
            for at, copy in enumerate(copies):
                one = {name: np.array(values[at]) for name, values in rows.items()}
                self._running[copy].append(one)
                if one["terminated"] or one["truncated"]:
                    self._ended.append(joined(self._running[copy]))
                    self._running[copy] = []
        if sum(len(rows["reward"]) for rows in self._ended) >= self.config.rows_per_file:
            self.flush()

    def flush(self) -> None:
        """Write the episodes that have ended."""
        if self._ended:
            rows = {name: np.concatenate([one[name] for one in self._ended]) for name in self._ended[0]}
            save_tree(self.folder, file_name(self._files), rows)
            self._files += 1
            self._ended = []

    def can_sample(self) -> bool:
        return False

    def sample(self) -> Any:
        raise InputError("a recording is only written; read it with paddock.buffers.offline.OfflineBuffer.")

    def mark_discontinuity(self) -> None:
        """Unfinished episodes cannot be finished any more."""
        self._builder.restart()
        self._running = [[] for _ in self._running]

    def get_state(self) -> dict[str, Any]:
        self.flush()
        running = [joined(rows) if rows else {} for rows in self._running]
        return {"files": self._files, "builder": self._builder.get_state(), "running": running}

    def set_state(self, state: dict[str, Any]) -> None:
        self._files = state["files"]
        self._builder.set_state(state["builder"])
        self._running = [_split(rows) for rows in state["running"]]
        self._ended = []
        for file in self.folder.glob("rows-*"):
            if file.stem >= file_name(self._files):
                file.unlink()


def write_description(folder: Path, spec: Spec) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / DESCRIPTION, json.dumps({"format": FORMAT, "spec": spec.to_dict()}, indent=1).encode())


def read_recording(folder: Path) -> tuple[Spec, Iterator[Rows]]:
    """What a recording's rows look like, and the rows of one file after the other."""
    try:
        description = json.loads((folder / DESCRIPTION).read_bytes())
        if description["format"] != FORMAT:
            raise InputError(f"recording '{folder}' has format {description['format']}; this Paddock reads {FORMAT}.")
        spec = Spec.from_dict(description["spec"])
    except (OSError, ValueError, KeyError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"'{folder}' is not a recording: its {DESCRIPTION} cannot be read.") from error
    files = sorted(folder.glob("rows-*.json"))
    return spec, (load_tree(folder, file.stem) for file in files)


def file_name(number: int) -> str:
    return f"rows-{number:09d}"


def joined(rows: list[Rows]) -> Rows:
    """Single rows as arrays [N, ...]."""
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def _split(rows: Rows) -> list[Rows]:
    return [{name: values[at] for name, values in rows.items()} for at in range(len(rows.get("reward", ())))]
