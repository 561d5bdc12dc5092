"""All that the page shows of runs, read from their folders through the store. Blocking; called in threads."""

from __future__ import annotations

import itertools
import math
import shlex
import sqlite3
import threading
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.control.address import read_address
from paddock.core.errors import InputError
from paddock.core.reading import DamagedError
from paddock.dashboard.errors import Refused
from paddock.experiments.compare.curves import metric_names, read_curves
from paddock.experiments.run import RunFolder, run_names
from paddock.experiments.store.store import open_store
from paddock.experiments.store.summaries import ALIVE, CRASHED, RunSummary
from paddock.orchestration.policies import list_policies, training_tracks

DRIVES = "drives"  # folder of driving sessions, below that of the runs
FRESH = 0.3  # s that a list of runs is good for
EVENTS = 200
MOST_POINTS, MOST_NAMES = 20_000, 100
AXES = ("agent_steps", "seconds")


class RunCatalog:
    """Runs by id, which is the name of their folder. An id from outside is only ever compared with those that exist."""

    def __init__(self, runs_dir: Path) -> None:
        self.runs_dir = runs_dir
        self.drives_dir = runs_dir / DRIVES
        self._lock = threading.Lock()
        self._rows: list[dict[str, Any]] = []
        self._read = -math.inf

    def find(self, given: str) -> RunFolder:
        """The run or driving session with this id."""
        for folder in (self.runs_dir, self.drives_dir):
            if given in run_names(folder):
                return RunFolder(folder / given)
        raise Refused(f"there is no run '{given[:100]}'.", 404)

    def resolve(self, given: str) -> str:
        """The id of the run that a person means: a path, a name, or the beginning of one."""
        if given in run_names(self.drives_dir):
            return given
        run = RunFolder.find(self.runs_dir, given)
        if run.path.resolve().parent != self.runs_dir:
            raise InputError(f"run '{given}' is not in '{self.runs_dir}'; say where with --runs-dir.")
        return run.name

    def section(self, run: str) -> str:
        """Of the page, in which a run is shown: the driver's seat, or what a training run has."""
        return "drive" if run in run_names(self.drives_dir) else "run"

    def is_live(self, run: RunFolder) -> bool:
        """Whether a viewer can attach to it."""
        return run.is_held() and read_address(run.path) is not None

    def rows(self) -> list[dict[str, Any]]:
        """Every run, newest first, and the driving sessions that are alive."""
        with self._lock:
            if time.monotonic() - self._read > FRESH:
                self._rows = [*self._drives(), *self._runs()]
                self._read = time.monotonic()
            return self._rows

    def forget(self) -> None:
        """Read the list anew next time: something was changed here."""
        with self._lock:
            self._read = -math.inf

    def row(self, run: RunFolder) -> dict[str, Any]:
        row = next((row for row in self.rows() if row["id"] == run.name), None)
        return row if row is not None else self._drive(run)

    def details(self, run: RunFolder) -> dict[str, Any]:
        """The row and everything else of one run; refused where its configuration or manifest cannot be read."""
        _check(run)
        config = self.config(run)
        events = _events(run)
        row = self.row(run)
        phase = next((event.get("phase") for event in reversed(events) if event.get("event") == "phase"), None)
        return {
            **row,
            "config": config,
            "links": _links(run, config),
            "phases": _phases(config, phase if row["status"] in ALIVE else None),
            "phase": phase,
            "events": events[-EVENTS:],
            "metrics": _metric_names(run),
            "rewards": _last_weights(config, events),
            "can": [],
        }

    def metrics(
        self, run: RunFolder, names: Sequence[str], *, points: int, axis: str, since: float | None
    ) -> dict[str, Any]:
        """Curves by name, thinned so that the lowest and highest of each stretch stay."""
        if axis not in AXES:
            raise Refused(f"axis is '{axis[:40]}'; allowed: {', '.join(AXES)}.")
        if not 2 <= points <= MOST_POINTS:
            raise Refused(f"points is {points}; allowed: 2 to {MOST_POINTS}.")
        if len(names) > MOST_NAMES:
            raise Refused(f"{len(names)} names were given; at most {MOST_NAMES} are read at once.")
        try:
            known = set(metric_names(run.metrics_file))
        except DamagedError as error:
            raise Refused(str(error), 409) from error
        chosen = [name for name in dict.fromkeys(names) if name in known]
        found: dict[str, Any] = {}
        for name, curve in read_curves(run.metrics_file, chosen).items():
            x = curve.steps if axis == "agent_steps" else curve.seconds
            kept = slice(None) if since is None else slice(int(np.searchsorted(x, since, side="right")), None)
            x, y = thinned(x[kept], curve.value[kept], points)
            found[name] = {"x": x.tolist(), "y": y.tolist()}
        return {"axis": axis, "names": found}

    def policies(self, run: RunFolder) -> list[dict[str, Any]]:
        return list_policies(run.policy)

    def all_policies(self) -> list[dict[str, Any]]:
        """Every saved policy of every racing run, for choosing an opponent."""
        found = []
        for row in self.rows():
            if row["kind"] != "training":
                continue
            run = RunFolder(self.runs_dir / row["id"])
            policies = self.policies(run)
            if not policies:
                continue
            environment = self.config(run).get("environment") or {}
            place = None
            if "car" in environment:
                place = {"track": environment.get("track"), "car": environment["car"], **training_tracks(environment)}
            for policy in policies:
                entry = {"run": run.name, "name": policy["name"], "track": None, "car": None, **(place or {})}
                found.append(
                    entry
                    | {"is_racing": place is not None, "algorithm": row["algorithm"], "metrics": policy["metrics"]}
                    | {"agent_steps": policy["agent_steps"], "saved": policy["saved"]}
                )
        return found

    def config(self, run: RunFolder) -> dict[str, Any]:
        """A run's configuration, not to be changed; empty where it cannot be read."""
        try:
            return _config(run.path, run.config_file.stat().st_mtime_ns)
        except (InputError, OSError):
            return {}

    def _runs(self) -> list[dict[str, Any]]:
        try:
            store = open_store(self.runs_dir)
            try:
                names = {record.metric for record in store.summaries()}
                records = store.summaries(metrics=names)
            finally:
                store.close()
        except sqlite3.Error as error:
            raise Refused(f"the index of runs cannot be read just now: {error}.", 409) from error
        rows = [_row(record, RunFolder(self.runs_dir / record.folder)) for record in records]
        return sorted(rows, key=lambda row: str(row["started"]), reverse=True)

    def _drives(self) -> list[dict[str, Any]]:
        runs = [RunFolder(self.drives_dir / name) for name in run_names(self.drives_dir)]
        return [self._drive(run) for run in runs if run.is_held()]

    def _drive(self, run: RunFolder) -> dict[str, Any]:
        config, manifest = self.config(run), _manifest(run)
        is_held = run.is_held()
        return {
            "id": run.name,
            "name": config.get("name", run.name),
            "kind": "driving",
            "experiment": None,
            "algorithm": None,
            "environment": f"racing/{config.get('track')}",
            "seed": None,
            "status": "running" if is_held else "finished",
            "is_live": is_held and read_address(run.path) is not None,
            "started": manifest.get("created"),
            "agent_steps": 0,
            "seconds": 0.0,
            "best_score": None,
            "metric": None,
            "tags": [],
            "is_pinned": False,
            "note": "",
            "recipe": "",
            "damage": [],
            "track": config.get("track"),
            "car": config.get("car"),
        }


def _row(record: RunSummary, run: RunFolder) -> dict[str, Any]:
    summary = record.metrics.get(record.metric)
    is_alive = record.status in ALIVE and record.status != CRASHED
    return {
        "id": record.folder,
        "name": record.name,
        "kind": "training",
        "experiment": (_manifest(run).get("origin") or {}).get("experiment"),
        "algorithm": record.algorithm,
        "environment": record.environment,
        "seed": record.seed,
        "status": record.status,
        "is_live": is_alive and read_address(run.path) is not None,
        "started": record.created,
        "agent_steps": record.agent_steps,
        "seconds": round(record.seconds, 3),
        "best_score": summary.high if summary else None,
        "metric": record.metric,
        "tags": list(record.tags),
        "is_pinned": record.is_pinned,
        "note": record.note,
        "recipe": record.recipe,
        "damage": list(record.damage),
    }


@lru_cache(maxsize=256)
def _config(folder: Path, changed: int) -> dict[str, Any]:
    """As of one moment of change: YAML is slow to read, and the page reads it often."""
    return RunFolder(folder).read_config()


def _manifest(run: RunFolder) -> dict[str, Any]:
    try:
        return run.read_manifest()
    except DamagedError:
        return {}


def _check(run: RunFolder) -> None:
    try:
        run.read_config()
        run.read_manifest()
    except DamagedError as error:
        raise Refused(f"run '{run.name}' is damaged: {error}", 409) from error


def _events(run: RunFolder) -> list[dict[str, Any]]:
    try:
        return run.event_lines()[0]
    except DamagedError:
        return []


def _metric_names(run: RunFolder) -> list[str]:
    try:
        return metric_names(run.metrics_file)
    except DamagedError:
        return []


def _phases(config: dict[str, Any], current: str | None) -> list[dict[str, Any]]:
    """share: of the planned steps; None where a phase has no fixed length."""
    training = config.get("training") or {}
    total = training.get("total_steps")
    given = training.get("phases") or []
    phases = given if isinstance(given, list) else [{**_section(one), "name": name} for name, one in given.items()]
    found = []
    for phase in phases:
        steps = phase.get("duration_steps") or (total if len(phases) == 1 else None)
        share = min(steps / total, 1.0) if isinstance(steps, int | float) and total else None
        found.append({"name": phase.get("name"), "is_current": phase.get("name") == current, "share": share})
    return found


def _links(run: RunFolder, config: dict[str, Any]) -> dict[str, str | None]:
    """Other places where the run's curves are: the command for TensorBoard, the address at Weights & Biases."""
    logging = _section(config.get("logging"))
    has_tensorboard = bool(logging.get("tensorboard")) and run.tensorboard.is_dir()
    address = _manifest(run).get("wandb")
    is_address = isinstance(address, str) and address.startswith("https://")
    return {
        "tensorboard": f"tensorboard --logdir {shlex.quote(str(run.tensorboard))}" if has_tensorboard else None,
        "wandb": address if is_address else None,
    }


def _section(values: Any) -> dict[str, Any]:
    return values if isinstance(values, dict) else {}


def _weights(config: dict[str, Any]) -> dict[str, float]:
    reward = config.get("reward") or {}
    return {name: term["weight"] for name, term in reward.items() if isinstance(term, dict) and "weight" in term}


def _last_weights(config: dict[str, Any], events: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The weights as they were last: of the configuration, then of each phase and each command since."""
    weights = _weights(config)
    training = _section(config.get("training"))
    phases = _section(training.get("phases"))
    for event in events:
        changed: dict[str, Any] = {}
        if event.get("event") == "phase":
            changed = _section(_section(phases.get(str(event.get("phase")))).get("reward"))
        elif event.get("event") == "control" and event.get("command") == "reward":
            changed = {str(event.get("term")): event.get("weight")}
        weights |= {
            name: float(value) for name, value in changed.items() if name in weights and isinstance(value, int | float)
        }
    return weights


def thinned(
    x: NDArray[np.float64], y: NDArray[np.float64], points: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """At most about `points` of T points: the lowest and the highest of each stretch, in their order, and the ends."""
    if len(x) <= points:
        return x, y
    stretches = max(points // 2 - 1, 1)
    edges = np.linspace(1, len(x) - 1, stretches + 1).astype(np.intp)
    keep = {0, len(x) - 1}
    for first, last in itertools.pairwise(edges):
        if last > first:
            part = y[first:last]
            keep |= {first + int(part.argmin()), first + int(part.argmax())}
    chosen = np.fromiter(sorted(keep), np.intp)
    return x[chosen], y[chosen]
