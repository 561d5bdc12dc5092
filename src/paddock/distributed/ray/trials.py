"""What runs inside a Ray actor for one trial of a campaign: a `paddock` process, and its folder on the way home.

Nothing here needs Ray or torch.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from paddock.core.errors import PaddockError
from paddock.core.files import files_like, make_folder, make_run_folder, replace_file
from paddock.core.parent import WITH_PARENT

RUNS_DIR, RESUME, LOG = "runs_dir=", "--resume", "trial.log"
UNMOVED = ("lock",)
Files = dict[str, bytes]


@dataclass(frozen=True)
class Delivery:
    """Files of a trial that are new or changed since the last one, by path below the folder of runs, and all paths."""

    files: Files
    paths: tuple[str, ...]


@dataclass(frozen=True)
class TrialOrder:
    """One `paddock` command. folder: where it is run, if the node has it. log: of its output. brings_home: the run is
    made on the node's own disk; sent: files of the run that it goes on with."""

    arguments: Sequence[str]
    folder: str
    log: str
    brings_home: bool
    sent: Mapping[str, bytes]


class TrialHost:
    """Carries out one trial; other threads ask it to stop, and for its files."""

    def __init__(self, order: TrialOrder) -> None:
        self._order, self._away = order, tempfile.mkdtemp(prefix="paddock-trial-") if order.brings_home else None
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = threading.Event()
        self._seen: dict[str, tuple[int, int]] = {}

    def run(self) -> int:
        """The exit code of the process, which ends with this one."""
        arguments, log = list(self._order.arguments), Path(self._order.log)
        if self._away is not None:
            write_files(Path(self._away), self._order.sent)
            arguments, log = moved(arguments, Path(self._away)), Path(self._away) / LOG
        log.parent.mkdir(parents=True, exist_ok=True)
        folder = self._order.folder
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "paddock", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=folder if os.path.isdir(folder) else None,
                env={**os.environ, WITH_PARENT: str(os.getpid())},
            )
        if self._is_stopped.is_set():
            self._process.terminate()
        return self._process.wait()

    def stop(self) -> None:
        """Ask the process to save and end."""
        self._is_stopped.set()
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def delivery(self) -> Delivery:
        """What is new below the node's own folder of runs; nothing where runs are on a shared path."""
        if self._away is None:
            return Delivery({}, ())
        found = _files_below(Path(self._away))
        fresh = {path: stamp for path, stamp in found.items() if self._seen.get(path) != stamp}
        self._seen = found
        return Delivery(read_files(Path(self._away), fresh), tuple(found))


def moved(arguments: Sequence[str], away: Path) -> list[str]:
    """A command whose runs are in another folder."""
    found = [f"{RUNS_DIR}'{away}'" if one.startswith(RUNS_DIR) else one for one in arguments]
    if RESUME in found:
        place = found.index(RESUME) + 1
        found[place] = str(away / Path(found[place]).name)
    return found


def resumed_folder(arguments: Sequence[str]) -> Path | None:
    """The run that a command goes on with."""
    return Path(arguments[list(arguments).index(RESUME) + 1]) if RESUME in arguments else None


def read_files(folder: Path, paths: Iterable[str]) -> Files:
    """What files hold; one that is gone by now is left out."""
    found = {}
    for path in paths:
        try:
            found[path] = (folder / path).read_bytes()
        except OSError:
            continue
    return found


def all_files(folder: Path) -> Files:
    """The files of a run, by path below the folder of runs."""
    return read_files(folder.parent, [f"{folder.name}/{path}" for path in _files_below(folder)])


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files below a folder, each as a whole; a path that leads outside is refused."""
    for path, content in files.items():
        target = folder / _inside(path)
        run = folder / target.relative_to(folder).parts[0]
        if target.parent != folder and not run.exists():
            make_run_folder(run)
        with files_like(run) if run.is_dir() else nullcontext():
            make_folder(target.parent)
            replace_file(target, content)


def take_home(delivery: Delivery, runs_dir: Path, log: Path) -> None:
    """Write a delivery into the folder of runs, and remove checkpoints that the trial has removed."""
    files = dict(delivery.files)
    if (text := files.pop(LOG, None)) is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(text)
    for run in sorted({path.split("/")[0] for path in files}):
        _write_run(runs_dir, run, {path: content for path, content in files.items() if path.split("/")[0] == run})
    for run in {path.split("/")[0] for path in delivery.paths if "/" in path}:
        checkpoints = f"{run}/checkpoints"
        here = {f"{checkpoints}/{path}" for path in _files_below(runs_dir / _inside(checkpoints))}
        for path in here - set(delivery.paths):
            (runs_dir / _inside(path)).unlink(missing_ok=True)


def _write_run(runs_dir: Path, run: str, files: Files) -> None:
    """A run that is new here appears as a whole: half of one could not be resumed after a kill."""
    if (runs_dir / _inside(run)).exists():
        write_files(runs_dir, files)
        return
    staged = runs_dir / f".arriving-{run}"
    shutil.rmtree(staged, ignore_errors=True)
    write_files(staged, files)
    (staged / run).rename(runs_dir / run)
    staged.rmdir()


def _files_below(folder: Path) -> dict[str, tuple[int, int]]:
    """Plain files by path, with when they changed (ns) and their size. Links and the index of runs stay."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place) / name
            if path.is_symlink() or name in UNMOVED or name.startswith("index.sqlite"):
                continue
            try:
                stamp = path.stat()
            except OSError:
                continue
            found[path.relative_to(folder).as_posix()] = (stamp.st_mtime_ns, stamp.st_size)
    return found


def _inside(path: str) -> Path:
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or not parts.parts:
        raise PaddockError(f"a trial sent a file '{path}', which is not below its folder.")
    return Path(*parts.parts)
