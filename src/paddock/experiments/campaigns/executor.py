"""Who carries out runs: processes on this machine. Whatever can start, watch and end a command fits the interface."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class Job:
    """Arguments of `paddock`, known by a key that is the same whenever the same thing is asked for again."""

    key: str
    arguments: Sequence[str]
    log: Path


class Executor(Protocol):
    """Takes jobs while it has room and tells which have ended."""

    def has_room(self) -> bool: ...

    def submit(self, job: Job) -> Any: ...

    def ended(self) -> dict[str, int]:
        """Exit codes by key, of the jobs that have ended since the last call."""
        ...

    def cancel(self, key: str) -> None:
        """Ask a job to save and end; it ends in its own time."""
        ...

    def close(self) -> None:
        """Ask every job to save and end, and wait for that."""
        ...


class LocalExecutor:
    """At most `parallel_jobs` processes at a time. They outlive this one if it is killed, and are found again."""

    def __init__(self, parallel_jobs: int) -> None:
        self._parallel_jobs = parallel_jobs
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def has_room(self) -> bool:
        return len(self._processes) < self._parallel_jobs

    def submit(self, job: Job) -> int:
        """Start a process; its id."""
        job.log.parent.mkdir(parents=True, exist_ok=True)
        with job.log.open("ab") as log:
            self._processes[job.key] = subprocess.Popen(
                [sys.executable, "-m", "paddock", *job.arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches who started them, and is passed on once.
            )
        return self._processes[job.key].pid

    def ended(self) -> dict[str, int]:
        codes = {key: code for key, process in self._processes.items() if (code := process.poll()) is not None}
        for key in codes:
            del self._processes[key]
        return codes

    def cancel(self, key: str) -> None:
        if key in self._processes:
            self._processes[key].terminate()

    def close(self) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.wait()
