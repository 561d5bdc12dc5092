"""What is left of a run when it is over: the replay of its laps, films, the laps one by one, the end of its log."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from paddock.core.errors import InputError
from paddock.core.reading import DamagedError, open_regular, read_bytes
from paddock.core.results import drives_folder, read_result
from paddock.dashboard.errors import Refused
from paddock.dashboard.processes import log_file
from paddock.experiments.run import RunFolder
from paddock.orchestration.policies import list_policies
from paddock.racing.laps.archive import kept_steps
from paddock.racing.laps.replay import replay_of

WHICH = ("best", "latest")
FILM = re.compile(r"[\w.-]+\.mp4")
LOG_BYTES, LOG_LINES = 64 * 1024, 200
MOST_STARTS = 100
TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[^\S\n ]|[\x00-\x09\x0b-\x1f\x7f]")


def read_replay_of(run: RunFolder, which: str) -> dict[str, Any] | None:
    """The circuit and the laps of the run's best or latest evaluation; None where there was none of laps yet."""
    if which not in WHICH:
        raise Refused(f"which is '{which[:40]}'; allowed: {', '.join(WHICH)}.")
    try:
        return replay_of(read_result(run.result_file(which)))
    except InputError:
        return None


def describe_ending(run: RunFolder) -> dict[str, Any]:
    """`metrics` and `starts` of the best evaluation, names of `films`, the last lines of the `log`, the `error` that it
    failed with, the `traceback` where one was kept, whether it `has_policy` to evaluate, and whether drives are kept
    that a replay can show."""
    try:
        result = read_result(run.result_file("best"))
    except InputError:
        result = {}
    return {
        **_laps(result if isinstance(result, dict) else {}),
        "films": film_names(run),
        "log": last_lines(log_file(run)),
        "error": _error(run),
        "traceback": _traceback(run),
        "has_policy": bool(list_policies(run.policy)),
        "can_share": bool(kept_steps(drives_folder(run.path))),
        "command": f"paddock train --resume {run.name}",
    }


def _laps(result: dict[str, Any]) -> dict[str, Any]:
    metrics, details = result.get("metrics"), result.get("details")
    found = details.get("starts") if isinstance(details, dict) else None
    starts = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    names = ("track", "start", "lap_time", "reference", "clean", "distance")
    return {
        "metrics": metrics if isinstance(metrics, dict) else {},
        "starts": [{name: one.get(name) for name in names} for one in starts[:MOST_STARTS]],
    }


def film_names(run: RunFolder) -> list[str]:
    """Films of the run, newest first."""
    if run.videos.is_symlink():
        return []
    files = [file for file in run.videos.glob("*.mp4") if FILM.fullmatch(file.name) and not file.is_symlink()]
    return [file.name for file in sorted(files, key=lambda file: file.lstat().st_mtime, reverse=True)]


def film_file(run: RunFolder, name: str) -> Path:
    """The file of one of the run's films; a name is only compared with those that exist."""
    if name not in film_names(run):
        raise Refused(f"run '{run.name}' has no film '{name[:100]}'.", 404)
    return run.videos / name


def last_lines(file: Path) -> list[str]:
    """The end of a log as plain text; nothing where there is none."""
    try:
        with open_regular(file) as log:
            log.seek(0, 2)
            log.seek(max(log.tell() - LOG_BYTES, 0))
            text = log.read(LOG_BYTES).decode("utf-8", "replace")
    except (DamagedError, OSError):
        return []
    lines = [TERMINAL.sub("", line.rpartition("\r")[2]).rstrip() for line in text.split("\n")]
    return [line for line in lines if line][-LOG_LINES:]


def _error(run: RunFolder) -> str | None:
    """The sentence that the run failed with, if that was the last that happened to it."""
    try:
        events = run.event_lines()[0]
    except DamagedError:
        return None
    told = [event for event in events if event.get("event") in ("failed", "resumed", "finished", "stopped")]
    return str(told[-1].get("error")) if told and told[-1]["event"] == "failed" else None


def _traceback(run: RunFolder) -> list[str]:
    files = sorted(run.faults.glob("step-*/traceback.txt"))
    try:
        text = read_bytes(files[-1], limit=LOG_BYTES).decode("utf-8", "replace") if files else ""
    except DamagedError:
        return []
    return [TERMINAL.sub("", line).rstrip() for line in text.splitlines()][-LOG_LINES:]
