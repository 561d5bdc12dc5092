"""Starting runs and driving sessions: processes of their own, which go on whatever becomes of this server."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from paddock.control.address import read_address
from paddock.core.errors import unknown_choice
from paddock.dashboard.errors import Refused
from paddock.dashboard.mine import Mine
from paddock.dashboard.overrides import check_overrides
from paddock.experiments.run import RunFolder, run_names

LOGS = ".started"  # folder of what started processes print
PATIENCE = 180.0  # s until a process that does not come up is given up
GRACE = 25.0  # s after which a run that has a folder is called started, though its loop has not begun
NAME = re.compile(r"[A-Za-z0-9_][\w.-]{0,63}")


class ProcessLauncher:
    """Starts `paddock` commands and finds the folders that they make."""

    def __init__(self, runs_dir: Path) -> None:
        self._runs_dir = runs_dir
        self._processes: list[subprocess.Popen[bytes]] = []

    async def start(self, arguments: Sequence[str], folder: Path) -> RunFolder:
        """Start a process that makes a run's folder in `folder`; the sentence it leaves with where it fails."""
        before = set(run_names(folder))
        file, process = self._start(arguments)
        run = await _appeared(process, folder, before, file)
        keep_log(run, file)
        return run

    def _start(self, arguments: Sequence[str], *, is_split: bool = False) -> tuple[Path, subprocess.Popen[bytes]]:
        """A process and the file of what it prints. is_split: errors go to a file of their own."""
        self._processes = [process for process in self._processes if process.poll() is None]
        logs = self._runs_dir / LOGS
        logs.mkdir(parents=True, exist_ok=True)
        file = logs / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}.log"
        with file.open("wb") as log, file.with_suffix(".err").open("wb") if is_split else nullcontext() as errors:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "paddock", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT if errors is None else errors,
                start_new_session=True,
                env={**os.environ, "COLUMNS": "200"},
            )
        self._processes.append(process)
        return file, process

    async def resume(self, run: RunFolder, arguments: Sequence[str]) -> None:
        """Start a process that goes on with a run, and wait until it does."""
        file, process = self._start(["train", "--resume", str(run.path), *arguments])
        began = time.monotonic()
        while not (run.is_held() and read_address(run.path) is not None):
            await asyncio.sleep(0.1)
            if process.poll() is not None:
                if process.returncode == 0:
                    break
                raise Refused(last_words(file))
            if time.monotonic() - began > PATIENCE:
                raise Refused("the process was started, but does not get going.", 409)
        keep_log(run, file)

    async def ask(self, arguments: Sequence[str]) -> Any:
        """What a `paddock` command prints as JSON; the sentence it leaves with where it fails."""
        file, process = self._start(arguments, is_split=True)
        while process.poll() is None:
            await asyncio.sleep(0.1)
        if process.returncode != 0:
            raise Refused(last_words(file.with_suffix(".err")))
        try:
            return json.loads(file.read_bytes())
        except ValueError as error:
            raise Refused("the command gave no result.", 409) from error
        finally:
            for one in (file, file.with_suffix(".err")):
                one.unlink(missing_ok=True)


def log_file(run: RunFolder) -> Path:
    """What the process of a run printed, where a dashboard started it."""
    return run.path.parent / LOGS / f"{run.name}.log"


def keep_log(run: RunFolder, file: Path) -> None:
    """Call a log as its run is called; where an open file cannot be renamed, it stays where it is."""
    place = log_file(run)
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        file.replace(place)


async def _appeared(process: subprocess.Popen[bytes], folder: Path, before: set[str], log: Path) -> RunFolder:
    began, run = time.monotonic(), None
    while time.monotonic() - began < PATIENCE:
        await asyncio.sleep(0.1)
        if run is None or not run.path.exists():
            run = _made_by(process.pid, folder, before)
        if run is not None and (read_address(run.path) is not None or time.monotonic() - began > GRACE):
            return run
        if process.poll() is not None:
            if process.returncode == 0 and run is not None:
                return run
            raise Refused(last_words(log))
    raise Refused("the process was started, but does not get going; its output is in the folder of the runs.", 409)


def _made_by(pid: int, folder: Path, before: set[str]) -> RunFolder | None:
    for name in set(run_names(folder)) - before:
        run = RunFolder(folder / name)
        try:
            if run.read_manifest().get("pid") == pid:
                return run
        except (OSError, ValueError):
            continue
    return None


def last_words(log: Path) -> str:
    """What a failed command printed as its error: a sentence, or one with a list below it, a line each."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    at = next((index for index, line in enumerate(lines) if line.startswith("error:")), None)
    if at is not None:
        return "\n".join(lines[at:]).removeprefix("error:").strip()[:4_000]
    return lines[-1][:1_000] if lines else "the process ended without a message."


def training_arguments(
    values: dict[str, Any], known: Sequence[str], runs_dir: Path, mine: Mine | None = None
) -> list[str]:
    """What `paddock train` is called with for a request from the page. mine: the owner's own choices."""
    name, seed = values.get("name"), values.get("seed")
    arguments = ["train", *_subject(values, known, mine), f"runs_dir={runs_dir}"]
    if name not in (None, ""):
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise Refused(f"'{str(name)[:80]}' cannot name a run; use up to 64 letters, digits, '-', '_' and '.'.")
        arguments += ["--name", name]
    if seed is not None:
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**31:
            raise Refused(f"seed is {str(seed)[:80]}; allowed: a whole number from 0 to {2**31 - 1}.")
        arguments += ["--seed", str(seed)]
    if (own_reward := values.get("own_reward")) is not None:
        arguments.append(f"reward={_named(mine).reward(own_reward)}")
    return [*arguments, *check_overrides(values.get("overrides") or [])]


def _subject(values: dict[str, Any], known: Sequence[str], mine: Mine | None) -> list[str]:
    """The experiment: one that ships, or a file of the folder that the owner named."""
    if (own := values.get("own_experiment")) is not None:
        return ["--config", str(_named(mine).experiment(own))]
    experiment = values.get("experiment")
    if not isinstance(experiment, str) or experiment not in known:
        raise unknown_choice("experiment", str(experiment)[:80], known)
    return [experiment]


def _named(mine: Mine | None) -> Mine:
    if mine is None:
        raise Refused("this server was given no folder of your own; start it with paddock dashboard --mine DIR.")
    return mine
