"""A run's folder, which is the truth about it: config, manifest, events, lock. No learning in here."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from paddock.core.errors import InputError, PaddockError, did_you_mean
from paddock.core.trees import write_synced

STAMP = r"-\d{8}-\d{6}(-\d+)?"
VERSIONED = ("paddock", "torch", "numpy", "gymnasium", "numba")


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

    @classmethod
    def create(cls, runs_dir: Path, name: str, config: Mapping[str, Any]) -> RunFolder:
        """A new folder `<name>-<timestamp>`; two that start in the same second get different ones."""
        if not re.fullmatch(r"[\w.-]+", name):
            raise InputError(f"'{name}' cannot name a run; use letters, digits, '-', '_' and '.'.")
        stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
        for suffix in ["", *(f"-{number}" for number in range(2, 1000))]:
            path = runs_dir / f"{name}-{stamp}{suffix}"
            try:
                path.mkdir(parents=True)
            except FileExistsError:
                continue
            except OSError as error:
                raise InputError(f"no run can be written to '{runs_dir}': {error.strerror}.") from error
            run = cls(path)
            run.write_config(config)
            return run
        raise PaddockError(f"'{runs_dir}' has a thousand runs named '{name}-{stamp}'.")

    @classmethod
    def find(cls, runs_dir: Path, given: str) -> RunFolder:
        """The run at a path, the newest that was given this name, or the only one that begins with it."""
        if (Path(given) / "config.yaml").is_file():
            return cls(Path(given))
        names = [folder.name for folder in sorted(runs_dir.glob("*")) if (folder / "config.yaml").is_file()]
        named = [name for name in names if re.fullmatch(rf"{re.escape(given)}{STAMP}", name)]
        matches = [name for name in names if name == given] or named[-1:]
        matches = matches or [name for name in names if name.startswith(given)]
        if len(matches) == 1:
            return cls(runs_dir / matches[0])
        if matches:
            raise InputError(f"'{given}' could be any of: {', '.join(matches)}. Give more of the name.")
        raise InputError(
            f"there is no run '{given}' in '{runs_dir}'.{did_you_mean(given, names)}"
            + (f" There are: {', '.join(names[-10:])}." if names else " There are none yet.")
        )

    @property
    def name(self) -> str:
        return self.path.name

    def write_config(self, config: Mapping[str, Any]) -> None:
        _replace(self.config_file, yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True))

    def read_config(self) -> dict[str, Any]:
        try:
            values = yaml.safe_load(self.config_file.read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError) as error:
            raise InputError(f"'{self.config_file}' cannot be read: {error}") from error
        if not isinstance(values, dict):
            raise InputError(f"'{self.config_file}' is not a configuration.")
        return values

    def write_manifest(self, **values: Any) -> None:
        """Merge values into the manifest."""
        _replace(self.manifest_file, json.dumps({**self.read_manifest(), **values}, indent=2))

    def read_manifest(self) -> dict[str, Any]:
        return json.loads(self.manifest_file.read_bytes()) if self.manifest_file.exists() else {}

    def event(self, kind: str, **details: Any) -> None:
        """Append one line to the event log."""
        line = json.dumps({"time": now(), "event": kind, **details})
        with self.events_file.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def read_events(self) -> list[dict[str, Any]]:
        return read_lines(self.events_file)

    def read_metrics(self) -> list[dict[str, Any]]:
        return read_lines(self.metrics_file)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run for this process; a second one is told so."""
        with (self.path / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                owner = self.read_manifest().get("pid", "?")
                raise InputError(f"run '{self.name}' is being trained by process {owner} already.") from error
            yield


def manifest(config: Mapping[str, Any], *, seed: int, command: Sequence[str] = ()) -> dict[str, Any]:
    """What is known of a run when it starts."""
    text = json.dumps(config, sort_keys=True)
    return {
        "id": uuid.uuid4().hex[:12],
        "status": "running",
        "created": now(),
        "seed": seed,
        "config_hash": hashlib.sha256(text.encode()).hexdigest()[:16],
        "command": list(command) or sys.argv,
        "pid": os.getpid(),
        "git": _git(),
        "versions": {"python": platform.python_version(), **_versions()},
        "hardware": {
            "machine": platform.machine(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "system": platform.system(),
        },
    }


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def read_lines(file: Path) -> list[dict[str, Any]]:
    """JSON lines of a file; a last line cut short by a kill is left out."""
    lines = file.read_bytes().split(b"\n") if file.exists() else []
    return [json.loads(line) for line in lines[:-1] if line]


def _replace(file: Path, text: str) -> None:
    """Write a whole file so that a reader or a kill sees either the old or the new one."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}.{time.monotonic_ns()}")
    write_synced(temporary, text.encode())
    temporary.replace(file)


def _git() -> dict[str, Any] | None:
    def ask(*arguments: str) -> str:
        result = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=10, check=True)
        return result.stdout.strip()

    try:
        return {"commit": ask("rev-parse", "HEAD"), "dirty": bool(ask("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None


def _versions() -> dict[str, str]:
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
