"""Checkpoints: written aside, synced, hashed, renamed. A kill at any instant leaves the previous one whole."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from paddock.buffers.segments import OnDisk, Segmented
from paddock.config.schema import Schema
from paddock.core.clock import now
from paddock.core.errors import InputError, PaddockError
from paddock.core.system import sync_folder
from paddock.core.trees import load_tree, save_tree
from paddock.orchestration.seal import NAME, Seal, UnknownFormatError, place_in_time, read_seal, write_seal

PINNED = "pinned"
LATEST, BEST = "latest", "best"
NO_LINKS = (errno.EPERM, errno.EINVAL, errno.ENOTSUP)  # of file systems without links, and of Windows
PARTIAL, REMOVED = ".partial-", ".removed-"
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
        self._source: Path | None = None  # what the state came from or was saved to: known to be whole
        self._damaged: set[Path] = set()

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
        existing = self.all()
        final = self._free_name(agent_steps)
        temporary = self.folder / f"{PARTIAL}{os.getpid()}"
        try:
            self.folder.mkdir(exist_ok=True)  # Never the run's own folder: if that is gone, it was moved or deleted.
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            save_tree(temporary, "state", dict(state))
            known: dict[str, str] = {}
            for name, buffer in buffers.items():
                known |= _save_buffer(temporary / "buffers" / name, name, buffer, self._source)
            values = {
                "number": 1 + max((int(seal["number"]) for one in existing if (seal := _seal_of(one))), default=0),
                "agent_steps": agent_steps,
                "created": now(),
                "score": score,
                **info,
                "files": {
                    (path := str(file.relative_to(temporary))): known.get(path) or _digest(file)
                    for file in _files(temporary)
                },
            }
            write_seal(temporary, values)
            if self._is_to_be_pinned(agent_steps, existing):
                (temporary / PINNED).touch()
            sync_folder(temporary)
            temporary.rename(final)
            self._point(LATEST, final)
            sync_folder(self.folder)
            self._source = final
            self._thin_out(final)
        except OSError as error:
            shutil.rmtree(temporary, ignore_errors=True)
            raise PaddockError(
                f"the checkpoint at step {agent_steps} could not be written to '{self.folder}': {error.strerror}. "
                "Earlier checkpoints are untouched; make room or choose another runs_dir, then resume."
            ) from error
        return final

    def load(self) -> Checkpoint | None:
        """The newest checkpoint that is whole, None if there never was one; a damaged one is passed over aloud."""
        found = self.all()
        if not found:
            return None
        for path in reversed(found):
            try:
                checkpoint = read_checkpoint(path)
            except UnknownFormatError:
                raise
            except InputError as error:
                log.warning("%s Falling back to the checkpoint before it.", error)
                self._damaged.add(path)
            else:
                self._source = path
                return checkpoint
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
        """Every checkpoint, in the order in which they were saved; those that cannot be read stand last."""
        found = {path: _seal_of(path) for path in self.folder.glob("step-*") if NAME.fullmatch(path.name)}
        return sorted(found, key=lambda path: place_in_time(path, found[path]))

    def best(self) -> Path | None:
        """The checkpoint with the best evaluation."""
        ranked = _ranked(self._sealed())
        return ranked[0] if ranked else None

    def _sealed(self) -> list[tuple[Path, Seal]]:
        """Every checkpoint that is not known to be damaged, oldest first."""
        whole = [path for path in self.all() if path not in self._damaged]
        return [(path, seal) for path in whole if (seal := _seal_of(path)) is not None]

    def _free_name(self, agent_steps: int) -> Path:
        """`step-<n>`; a later checkpoint of the same step (after an update, say) gets a number behind it, which no
        earlier one had."""
        name = f"step-{agent_steps:012d}"
        taken = [int(match[2] or 1) for path in self.folder.glob(f"{name}*") if (match := NAME.fullmatch(path.name))]
        return self.folder / (f"{name}-{max(taken) + 1:03d}" if taken else name)

    def _is_to_be_pinned(self, agent_steps: int, existing: list[Path]) -> bool:
        period = self.config.pin_every_steps
        if period is None:
            return False
        pinned = [path for path in existing if (path / PINNED).exists()]
        last = int(pinned[-1].name.split("-")[1]) if pinned else 0
        return agent_steps // period > last // period

    def _thin_out(self, newest: Path) -> None:
        """Remove what is neither new, nor good, nor pinned: also what is damaged, now that there is a newer one."""
        sealed = self._sealed()
        best = _ranked(sealed)[: self.config.keep_best]
        if best:
            self._point(BEST, best[0])
        keep = {newest, *(path for path, _ in sealed[-self.config.keep_last :]), *best}
        for path in self.all():
            if path not in keep and not (path / PINNED).exists():
                self._remove(path)
        if (self.folder / BEST).is_symlink() and not (self.folder / BEST).exists():
            (self.folder / BEST).unlink()
        for leftover in [*self.folder.glob(f"{PARTIAL}*"), *self.folder.glob(f"{REMOVED}*")]:
            shutil.rmtree(leftover, ignore_errors=True)

    def _remove(self, path: Path) -> None:
        """Out of sight first: a kill while files are deleted must not leave half a checkpoint."""
        try:
            path.rename(aside := path.with_name(f"{REMOVED}{path.name}"))
        except OSError:
            return
        shutil.rmtree(aside, ignore_errors=True)

    def _point(self, name: str, target: Path) -> None:
        link = self.folder / f".next-{name}"
        link.unlink(missing_ok=True)
        try:
            link.symlink_to(target.name)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            log.debug("no link '%s' to '%s': %s", name, target.name, error.strerror)  # Nothing that reads needs it.
            return
        link.replace(self.folder / name)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint, after making sure that every byte is as it was written."""
    seal = read_seal(path)
    try:
        for name, digest in seal["files"].items():
            if not _is_within(path, name):
                raise InputError(f"checkpoint '{path}' is damaged: {name} is missing, or lies outside of it.")
            if _digest(path / name) != digest:
                raise InputError(f"checkpoint '{path}' is damaged: {name} is not what was written.")
        return Checkpoint(path, seal, load_tree(path, "state"))
    except (OSError, ValueError, KeyError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"checkpoint '{path}' cannot be read: {error}.") from error


def _save_buffer(folder: Path, name: str, buffer: Any, before: Path | None) -> dict[str, str]:
    """Sealed segments that the checkpoint before holds already are linked, not written or hashed again.

    Returns the known hashes of linked files.
    """
    folder.mkdir(parents=True)
    save_tree(folder, "state", buffer.get_state())
    if not isinstance(buffer, Segmented):
        return {}
    seal = _seal_of(before) if before else None
    hashes = seal["files"] if seal else {}
    known: dict[str, str] = {}
    for segment in buffer.segments():
        files = [f"buffers/{name}/{segment.name}{suffix}" for suffix in (".json", ".safetensors")]
        is_saved = segment.is_sealed and all(file in hashes for file in files)
        if is_saved and before and _link(before / "buffers" / name, folder, segment.name):
            known |= {file: hashes[file] for file in files}
        elif segment.folder is None or not _link(segment.folder, folder, segment.name):
            save_tree(folder, segment.name, segment.read())
    return known


def _seal_of(path: Path) -> Seal | None:
    try:
        return read_seal(path)
    except InputError:
        return None


def _ranked(sealed: list[tuple[Path, Seal]]) -> list[Path]:
    """Those with an evaluation, the best first; of equals the newest."""
    scored = [(seal["score"], place, path) for place, (path, seal) in enumerate(sealed) if seal["score"] is not None]
    return [path for _, _, path in sorted(scored, reverse=True)]


def _is_within(folder: Path, name: str) -> bool:
    file = folder / name
    return file.is_file() and file.resolve().is_relative_to(folder.resolve())


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


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
