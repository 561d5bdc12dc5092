"""A relay and workers of this machine, as child processes of a run."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from paddock.core.errors import PaddockError
from paddock.core.files import make_folder
from paddock.core.parent import WITH_PARENT
from paddock.distributed.address import dial_to
from paddock.distributed.schema import WorkersConfig
from paddock.distributed.wire.addresses import LOCAL_FILE
from paddock.distributed.wire.link import Link
from paddock.distributed.wire.messages import Hello

log = logging.getLogger(__name__)

START_SECONDS = 60.0
END_SECONDS = 15.0  # for a worker to hand over what it has
MOST_ENDS, WITHIN = 5, 60.0  # ends of one child within so many seconds, after which it is not started again
LAST_WORDS = 1_500  # characters
BAD_INPUT = 2  # exit code of what another attempt does not change


@dataclass
class Child:
    """A process that is started again when it ends."""

    name: str
    arguments: list[str]
    log: Path
    threads: int
    process: subprocess.Popen[bytes] | None = None
    ends: list[float] = field(default_factory=list)

    def start(self) -> None:
        threads = str(self.threads)
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "paddock", *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches the run, which ends its children when it is ready.
                env={**os.environ, WITH_PARENT: str(os.getpid()), "OMP_NUM_THREADS": threads, "COLUMNS": "200"},
            )

    def last_words(self) -> str:
        try:
            return self.log.read_text(errors="replace")[-LAST_WORDS:].strip()
        except OSError:
            return ""


def worker_folder(run: Path, number: int) -> Path:
    """The spool of a run's worker, from 1 on, and what else it leaves for this machine."""
    return run / "workers" / f"worker-{number}"


class LocalWorkers:
    """Starts a relay on the loopback and the workers, looks after them, and ends them."""

    def __init__(self, run: Path, config: WorkersConfig) -> None:
        self._relay_folder = run / "relay"
        folder = run / "workers"
        make_folder(folder)
        make_folder(self._relay_folder)
        relay = ["relay", "--port", "0", "--config-folder", str(self._relay_folder)]
        self._children = [Child("relay", relay, folder / "relay.log", 1)]
        for number in range(1, config.workers + 1):
            name = worker_folder(run, number).name
            arguments = ["worker", "--run", str(run), "--relay-folder", str(self._relay_folder)]
            arguments += ["--name", name, "--spool", str(folder / name)]
            self._children.append(Child(name, arguments, folder / f"{name}.log", config.worker_threads))

    def start(self) -> None:
        """Start the relay, then the workers."""
        address = self._relay_folder / LOCAL_FILE
        address.unlink(missing_ok=True)
        relay, *workers = self._children
        relay.start()
        deadline = time.monotonic() + START_SECONDS
        while not address.exists():
            if relay.process is None or relay.process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise PaddockError(f"the relay of this run did not start: {relay.last_words()}")
            time.sleep(0.02)
        for worker in workers:
            worker.start()

    def dial(self, hello: Hello) -> Link:
        return dial_to(None, self._relay_folder)(hello)

    def check(self) -> None:
        """Start again what has ended; a sentence where that happens over and over."""
        now = time.monotonic()
        for child in self._children:
            if child.process is None or child.process.poll() is None:
                continue
            child.ends = [when for when in child.ends if now - when < WITHIN] + [now]
            if len(child.ends) >= MOST_ENDS or child.process.returncode == BAD_INPUT:
                raise PaddockError(
                    f"{child.name} ended {len(child.ends)} times within a minute (exit code "
                    f"{child.process.returncode}). Its last words, from '{child.log}': {child.last_words()}"
                )
            log.warning("%s ended with exit code %s; it is started again.", child.name, child.process.returncode)
            child.start()

    def close(self) -> None:
        """End the workers, then the relay."""
        relay, *workers = self._children
        for group in (workers, [relay]):
            running = [child.process for child in group if child.process is not None and child.process.poll() is None]
            for process in running:
                process.terminate()
            deadline = time.monotonic() + END_SECONDS
            for process in running:
                try:
                    process.wait(max(deadline - time.monotonic(), 0.1))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
