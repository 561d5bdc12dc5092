"""Checkpoints: written aside, synced, hashed, renamed. A kill at any instant leaves the previous one whole."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from paddock.buffers.segments import OnDisk, Segmented
from paddock.config.schema import Schema
from paddock.core.errors import InputError, PaddockError
from paddock.core.files import write_synced
from paddock.core.trees import load_tree, save_tree
from paddock.experiments.run import now

FORMAT = 1
SEAL = "checkpoint.json"
PINNED = "pinned"
_NAME = re.compile(r"step-\d+(-\d+)?")
log = logging.getLogger(__name__)


class CheckpointConfig(Schema):
    """When to save and what to keep."""

    every_steps: int | None = Field(default=None, ge=1)
    every_seconds: float | None = Field(default=None, gt=0)
    keep_last: int = Field(default=2, ge=1)
    keep_best: int = Field(default=1, ge=0)
    pin_every_steps: int | None = Field(default=None, ge=1)
    keep_policies: int = Field(default=20, ge=0)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read and found whole."""

    path: Path
    info: dict[str, Any]
    state: dict[str, Any]


class CheckpointStore:
    """The `checkpoints/` folder of a run."""

    def __init__(self, folder: Path, config: CheckpointConfig) -> None:
        self.folder = folder
        self.config = config

    def save(
        self,
        state: Mapping[str, Any],
        buffers: Mapping[str, Any],
        *,
        agent_steps: int,
        info: Mapping[str, Any],
        score: float | None,
    ) -> Path:
        """Write a checkpoint and thin out the old ones. `score` is the evaluation that it is ranked by."""
        final = self._free_name(agent_steps)
        temporary = self.folder / f".partial-{os.getpid()}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            save_tree(temporary, "state", dict(state))
            known: dict[str, str] = {}
            for name, buffer in buffers.items():
                known |= self._save_buffer(temporary / "buffers" / name, name, buffer)
            seal = {
                "format": FORMAT,
                "agent_steps": agent_steps,
                "created": now(),
                "score": score,
                **info,
                "files": {
                    (path := str(file.relative_to(temporary))): known.get(path) or _digest(file)
                    for file in _files(temporary)
                },
            }
            write_synced(temporary / SEAL, json.dumps(seal, indent=1).encode())
            _sync_folder(temporary)
            temporary.rename(final)
            _sync_folder(self.folder)
        except OSError as error:
            shutil.rmtree(temporary, ignore_errors=True)
            raise PaddockError(
                f"the checkpoint at step {agent_steps} could not be written to '{self.folder}': {error.strerror}. "
                "Earlier checkpoints are untouched; make room or choose another runs_dir, then resume."
            ) from error
        if self._is_to_be_pinned(agent_steps):
            (final / PINNED).touch()
        self._point("latest", final)
        self._thin_out()
        return final

    def load(self) -> Checkpoint | None:
        """The newest checkpoint that is whole, None if there never was one; a damaged one is passed over aloud."""
        found = self.all()
        if not found:
            return None
        for path in reversed(found):
            try:
                return read_checkpoint(path)
            except InputError as error:
                log.warning("%s Falling back to the checkpoint before it.", error)
        raise InputError(f"none of the {len(found)} checkpoints in '{self.folder}' can be read.")

    def load_buffer(self, checkpoint: Checkpoint, name: str, buffer: Any) -> None:
        """Fill a buffer from a checkpoint."""
        folder = checkpoint.path / "buffers" / name
        buffer.set_state(load_tree(folder, "state"))
        if isinstance(buffer, Segmented):
            for file in sorted(folder.glob("rows-*.json")):
                if isinstance(buffer, OnDisk) and not file.stem.endswith("-open"):
                    buffer.adopt_segment(folder, file.stem)
                else:
                    buffer.load_segment(load_tree(folder, file.stem))

    def all(self) -> list[Path]:
        """Every checkpoint, oldest first."""
        return sorted(path for path in self.folder.glob("step-*") if _NAME.fullmatch(path.name))

    def best(self) -> Path | None:
        """The checkpoint with the best evaluation."""
        scored = [(score, path) for path in self.all() if (score := _score(path)) is not None]
        return max(scored)[1] if scored else None

    def _save_buffer(self, folder: Path, name: str, buffer: Any) -> dict[str, str]:
        """Sealed segments that the checkpoint before holds already are linked, not written or hashed again.

        Returns the known hashes of linked files.
        """
        folder.mkdir(parents=True)
        save_tree(folder, "state", buffer.get_state())
        if not isinstance(buffer, Segmented):
            return {}
        existing = self.all()
        hashes = _hashes(existing[-1]) if existing else {}
        known: dict[str, str] = {}
        for segment in buffer.segments():
            files = [f"buffers/{name}/{segment.name}{suffix}" for suffix in (".json", ".safetensors")]
            is_saved = segment.is_sealed and all(file in hashes for file in files)
            if is_saved and _link(existing[-1] / "buffers" / name, folder, segment.name):
                known |= {file: hashes[file] for file in files}
            elif segment.folder is None or not _link(segment.folder, folder, segment.name):
                save_tree(folder, segment.name, segment.read())
        return known

    def _free_name(self, agent_steps: int) -> Path:
        """`step-<n>`; a later checkpoint of the same step (after an update, say) gets a number behind it."""
        path = self.folder / f"step-{agent_steps:012d}"
        again = 2
        while path.exists():
            path = self.folder / f"step-{agent_steps:012d}-{again:03d}"
            again += 1
        return path

    def _is_to_be_pinned(self, agent_steps: int) -> bool:
        period = self.config.pin_every_steps
        if period is None:
            return False
        pinned = [path for path in self.all() if (path / PINNED).exists()]
        last = int(pinned[-1].name.split("-")[1]) if pinned else 0
        return agent_steps // period > last // period

    def _thin_out(self) -> None:
        paths = self.all()
        scored = sorted((path for path in paths if _score(path) is not None), key=_rank, reverse=True)
        best = scored[: self.config.keep_best]
        if best:
            self._point("best", best[0])
        keep = {*paths[-self.config.keep_last :], *best}
        for path in paths:
            if path not in keep and not (path / PINNED).exists():
                shutil.rmtree(path, ignore_errors=True)
        for leftover in self.folder.glob(".partial-*"):
            shutil.rmtree(leftover, ignore_errors=True)

    def _point(self, name: str, target: Path) -> None:
        link = self.folder / f".{name}-{os.getpid()}"
        link.unlink(missing_ok=True)
        link.symlink_to(target.name)
        link.replace(self.folder / name)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint, after making sure that every byte is as it was written."""
    try:
        seal = json.loads((path / SEAL).read_bytes())
        if seal["format"] != FORMAT:
            raise InputError(f"checkpoint '{path}' has format {seal['format']}; this Paddock reads {FORMAT}.")
        for name, digest in seal["files"].items():
            if _digest(path / name) != digest:
                raise InputError(f"checkpoint '{path}' is damaged: {name} is not what was written.")
        return Checkpoint(path, seal, load_tree(path, "state"))
    except (OSError, ValueError, KeyError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"checkpoint '{path}' cannot be read: {error}.") from error


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


def _hashes(path: Path) -> dict[str, str]:
    """What a checkpoint says of its files; nothing where that cannot be read."""
    try:
        return json.loads((path / SEAL).read_bytes())["files"]
    except (OSError, ValueError, KeyError):
        return {}


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _link(source: Path, target: Path, name: str) -> bool:
    files = [f"{name}.json", f"{name}.safetensors"]
    if not all((source / file).is_file() for file in files):
        return False
    for file in files:
        try:
            os.link(source / file, target / file)
        except OSError:  # No hard links on this file system.
            shutil.copy2(source / file, target / file)
    return True


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _score(path: Path) -> float | None:
    try:
        return json.loads((path / SEAL).read_bytes())["score"]
    except (OSError, ValueError, KeyError):
        return None


def _rank(path: Path) -> tuple[float, str]:
    score = _score(path)
    assert score is not None
    return score, path.name
