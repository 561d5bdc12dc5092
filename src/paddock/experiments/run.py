"""A run's folder, which is the truth about it: config, manifest, labels, events, lock. No learning in here."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import logging
import os
import platform
import re
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import yaml

from paddock.core.clock import now
from paddock.core.errors import InputError, PaddockError, did_you_mean
from paddock.core.files import append_line, files_like, make_run_folder, open_for_writing, replace_file
from paddock.core.reading import DamagedError, open_regular
from paddock.core.results import result_file, results_folder
from paddock.core.system import lock, make_private
from paddock.core.trust import FILE, PACKAGE, dangers, sign
from paddock.core.user_code import copy_code, split_reference
from paddock.experiments import documents

log = logging.getLogger(__name__)

STAMP = r"-\d{8}-\d{6}(-\d+)?"
SEED = r"(-s\d+)?"  # between the name and the stamp of a training run
VERSIONED = ("paddock", "torch", "numpy", "gymnasium", "numba")
GLOB = re.compile(r"[*?\[]")
Rows = list[dict[str, Any]]
LOCK_PATIENCE = 0.5  # s; somebody who only looks whether a run is held has it for far less


class RunFolder:
    """Names and files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / "config.yaml"
        self.manifest_file = path / "manifest.json"
        self.metrics_file = path / "metrics.jsonl"
        self.events_file = path / "events.jsonl"
        self.checkpoints = path / "checkpoints"
        self.videos = path / "videos"
        self.policy = path / "policy"
        self.tensorboard = path / "tensorboard"
        self.faults = path / "faults"
        self.labels_file = path / "labels.json"
        self.results = results_folder(path)

    def result_file(self, name: str) -> Path:
        """Where the result `name` of an evaluation is: latest, best or world_model."""
        return result_file(self.path, name)

    def policy_folder(self, which: str = "best") -> Path | None:
        """The folder of the policy that is named best or latest; the latest where there is no best one yet."""
        folders = [self.policy / name for name in dict.fromkeys((which, "latest"))]
        return next((folder for folder in folders if os.path.lexists(folder / "policy.json")), None)

    @classmethod
    def create(
        cls, runs_dir: Path, name: str, config: Mapping[str, Any], *, seed: int | None = None, is_own: bool = True
    ) -> RunFolder:
        """A new folder `<name>-s<seed>-<timestamp>`; two that start in the same second get different ones.

        is_own: this user wrote the configuration, so the code that it names is copied, and the run is signed.
        """
        if not re.fullmatch(r"[\w.-]+", name):
            raise InputError(f"'{name}' cannot name a run; use letters, digits, '-', '_' and '.'.")
        name = name if seed is None else f"{name}-s{seed}"
        stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
        for suffix in ["", *(f"-{number}" for number in range(2, 1000))]:
            path = runs_dir / f"{name}-{stamp}{suffix}"
            try:
                make_run_folder(path)
            except FileExistsError:
                continue
            except OSError as error:
                raise InputError(f"no run can be written to '{runs_dir}': {error.strerror}.") from error
            run = cls(path)
            with files_like(path):
                run.write_config(config)
                if is_own:
                    run.keep_code(config)
            return run
        raise PaddockError(f"'{runs_dir}' has a thousand runs named '{name}-{stamp}'.")

    @classmethod
    def find(cls, runs_dir: Path, given: str) -> RunFolder:
        """One run: at a path, the newest that was given this name, or the only one that a beginning or a glob fits."""
        matches = cls.find_all(runs_dir, given)
        if len(matches) == 1 or _is_named(matches[-1].name, given):
            return matches[-1]
        names = ", ".join(match.name for match in matches)
        raise InputError(f"'{given}' could be any of: {names}. Give more of the name.")

    @classmethod
    def find_all(cls, runs_dir: Path, given: str) -> list[RunFolder]:
        """Every run, oldest first, at a path, with this folder, id or name, or else fitting a glob or a beginning."""
        if _is_run(given):
            return [cls(Path(given))]
        names = run_names(runs_dir)
        if GLOB.search(given) and given not in names:
            matches = fnmatch.filter(names, given)
        else:
            matches = [name for name in names if name == given]
            matches = matches or [name for name in names if _is_named(name, given)]
            matches = matches or [name for name in names if name.startswith(given)]
            matches = matches or [name for name in names if _is_called(cls(runs_dir / name), given)]
        if matches:
            return [cls(runs_dir / name) for name in sorted(matches, key=_moment)]
        raise InputError(
            f"there is no run '{given}' in '{runs_dir}'."
            + did_you_mean(given, [*dict.fromkeys(base_name(name) for name in names), *names])
            + (f" There are: {', '.join(names[-10:])}." if names else " There are none yet.")
        )

    @property
    def name(self) -> str:
        return self.path.name

    def write_config(self, config: Mapping[str, Any]) -> None:
        text = yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True)
        replace_file(self.config_file, text.encode())

    def read_config(self) -> dict[str, Any]:
        """The configuration; a DamagedError with a sentence where it cannot be read, as in all readers here."""
        return documents.read_config(self.config_file)

    def keep_code(self, config: Mapping[str, Any]) -> None:
        """Copy the files and packages of the user's own that the configuration names, and sign the run as theirs."""
        found = dangers(config)
        files = [split_reference(one.value)[0] for one in found if one.kind == FILE]
        kept = copy_code(self.path, files, [one.package for one in found if one.kind == PACKAGE])
        if kept:
            self.write_manifest(code=kept)
        sign(self.path, config)

    def write_manifest(self, **values: Any) -> None:
        """Merge values into the manifest. Only the process that holds the run does this."""
        replace_file(self.manifest_file, json.dumps({**self.read_manifest(), **values}, indent=2).encode())

    def read_manifest(self) -> dict[str, Any]:
        """What the run said of itself; empty where it has said nothing yet."""
        return documents.read_manifest(self.manifest_file)

    def write_labels(
        self, *, tags: Sequence[str], is_pinned: bool, note: str | None = None, name: str | None = None
    ) -> None:
        """What a person says about the run; kept apart from the manifest, which the run itself writes. A note and a
        name that are not given stay as they are."""
        before = documents.read_labels(self.labels_file) if self.has_labels() else {"note": "", "name": None}
        values = {"tags": sorted(set(tags)), "pinned": is_pinned}
        values |= {"note": before["note"] if note is None else note, "name": name or before["name"]}
        replace_file(self.labels_file, json.dumps(values).encode())

    def read_labels(self) -> dict[str, Any]:
        """`tags`, `pinned`, `note` and `name`; what is not labelled by hand has the tags of its configuration."""
        if self.has_labels():
            return documents.read_labels(self.labels_file)
        return {"tags": list(self.read_config().get("tags") or []), "pinned": False, "note": "", "name": None}

    def has_labels(self) -> bool:
        """Whether it was labelled by hand."""
        return os.path.lexists(self.labels_file)

    def event(self, kind: str, **details: Any) -> None:
        """Append one line to the event log."""
        append_line(self.events_file, json.dumps({"time": now(), "event": kind, **details}).encode())

    def read_events(self) -> list[dict[str, Any]]:
        """Events; lines that cannot be read are left out with a warning."""
        return _told(self.events_file, *self.event_lines())

    def read_metrics(self) -> list[dict[str, Any]]:
        """Logged points; lines that cannot be read are left out with a warning."""
        return _told(self.metrics_file, *self.metric_lines())

    def event_lines(self) -> tuple[Rows, documents.LogState]:
        """Events, and how whole their file is."""
        return documents.read_lines(self.events_file, documents.parse_event)

    def metric_lines(self) -> tuple[Rows, documents.LogState]:
        """Logged points, and how whole their file is."""
        return documents.read_lines(self.metrics_file, documents.parse_point)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run for this process; a second one is told so."""
        # Neither truncated nor readable by others, who could hold it and so keep its owner out.
        descriptor = open_for_writing(self.path / "lock", os.O_RDWR, 0o600)
        with os.fdopen(descriptor):
            make_private(descriptor)
            give_up = time.monotonic() + LOCK_PATIENCE
            while not lock(descriptor):
                if time.monotonic() > give_up:
                    owner = self.read_manifest().get("pid", "?")
                    raise InputError(f"run '{self.name}' is being trained by process {owner} already.")
                time.sleep(0.02)
            yield

    def is_held(self) -> bool:
        """Whether a living process holds the run; the system lets go of it when that process ends, however it ends."""
        try:
            opened = open_regular(self.path / "lock")
        except DamagedError as error:
            return isinstance(error.__cause__, PermissionError) and self._is_told_to_be_held()
        with opened:
            return not lock(opened.fileno(), shared=True)

    def _is_told_to_be_held(self) -> bool:
        """As the manifest of somebody else's run tells it: only its owner can try the lock."""
        try:
            values = self.read_manifest()
            is_here = values["status"] in ("running", "paused") and values["host"] == socket.gethostname()
            return is_here and psutil.pid_exists(int(values["pid"]))
        except (OSError, ValueError, KeyError, TypeError):
            return False


def run_names(runs_dir: Path) -> list[str]:
    """Folder names of all runs, sorted."""
    if not runs_dir.is_dir():
        return []
    with os.scandir(runs_dir) as entries:
        return sorted(entry.name for entry in entries if documents.is_text(entry.name) and _is_run(entry.path))


def base_name(folder: str) -> str:
    """The name that a run was given: its folder's without the seed and the time."""
    return re.sub(f"{SEED}{STAMP}$", "", folder)


def _is_named(folder: str, given: str) -> bool:
    return re.fullmatch(rf"{re.escape(given)}{SEED}{STAMP}", folder) is not None


def _moment(folder: str) -> tuple[str, str]:
    """To sort by: when a run began, whatever its name and seed."""
    stamp = re.search(f"{STAMP}$", folder)
    return (stamp.group() if stamp else "", folder)


def manifest(config: Mapping[str, Any], *, seed: int, command: Sequence[str] = ()) -> dict[str, Any]:
    """What is known of a run when it starts."""
    text = json.dumps(config, sort_keys=True)
    return {
        "id": secrets.token_hex(6),
        "status": "running",
        "created": now(),
        "seed": seed,
        "config_hash": hashlib.sha256(text.encode()).hexdigest()[:16],
        "command": list(command) or sys.argv,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        **environment_info(),
    }


def environment_info() -> dict[str, Any]:
    """Code, versions and machine that a run happens in."""
    return {
        "git": _git(),
        "versions": {"python": platform.python_version(), **_versions()},
        "hardware": {
            "machine": platform.machine(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "system": platform.system(),
        },
    }


def _is_run(folder: str) -> bool:
    """Whether a folder is a run's, be it damaged: one of the files that every run has is there in some form."""
    return any(os.path.lexists(os.path.join(folder, name)) for name in ("config.yaml", "manifest.json"))


def _told(file: Path, rows: Rows, state: documents.LogState) -> Rows:
    for sentence in state.damage(file):
        log.warning("%s", sentence)
    return rows


def _is_called(run: RunFolder, given: str) -> bool:
    """Whether a run has this id, or a person has given it this name."""
    try:
        return run.read_manifest().get("id") == given or (run.has_labels() and run.read_labels()["name"] == given)
    except DamagedError:
        return False


def _git() -> dict[str, Any] | None:
    def ask(*arguments: str) -> str:
        result = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=10, check=True)
        return result.stdout.strip()

    try:
        return {"commit": ask("rev-parse", "HEAD"), "dirty": bool(ask("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None


def _versions() -> dict[str, str]:
    from importlib import metadata

    found = {}
    for name in VERSIONED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
