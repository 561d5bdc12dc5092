"""The index over run folders: SQLite beside them, for finding runs fast. The folders are the truth, the index can be
thrown away at any time: every look compares it with the folders and reads again what has changed."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from paddock.experiments.records import ALIVE, CRASHED, RunRecord, Summary, read_record
from paddock.experiments.run import RunFolder, run_names

log = logging.getLogger(__name__)

FILE = "index.sqlite"
VERSION = 1
PATIENCE = 10.0  # s that a reader waits for others who write
A_RUNS_PATIENCE = 0.5  # s that a run waits; if it cannot register, the next look at the store finds it anyway
BATCH = 100  # runs that are read between two transactions
UNCOUNTED = ("env_frames", "agent_steps", "updates", "imagined_steps", "seconds", "phase")
COLUMNS = tuple(field.name for field in fields(RunRecord) if field.name not in ("metrics", "config"))
SCHEMA = f"""
CREATE TABLE runs ({", ".join(COLUMNS)}, stamp TEXT, position INTEGER, PRIMARY KEY (folder));
CREATE TABLE configs (folder TEXT PRIMARY KEY, config TEXT);
CREATE TABLE metrics (folder TEXT, name TEXT, last REAL, low REAL, high REAL, step INTEGER,
                      PRIMARY KEY (folder, name)) WITHOUT ROWID;
"""


class Store:
    """All runs below one folder."""

    def __init__(self, runs_dir: Path, *, patience: float = PATIENCE) -> None:
        self.runs_dir = runs_dir
        self._patience = patience
        self._database = self._open()

    def refresh(self) -> None:
        """Bring the index up to date with the folders."""
        known = dict(self._database.execute("SELECT folder, stamp FROM runs"))
        names = run_names(self.runs_dir)
        changed = [name for name in names if known.get(name) != _stamp(self.runs_dir / name)]
        for first in range(0, len(changed), BATCH):
            with self._writing():
                for name in changed[first : first + BATCH]:
                    self._read(RunFolder(self.runs_dir / name))
        gone = known.keys() - set(names)
        if gone:
            with self._writing():
                for table in ("runs", "configs", "metrics"):
                    self._database.executemany(f"DELETE FROM {table} WHERE folder = ?", [(name,) for name in gone])

    def rebuild(self) -> None:
        """Forget everything and read every folder again."""
        self.close()
        self._remove()
        self._database = self._open()
        self.refresh()

    def publish(self, run: RunFolder) -> None:
        """Enter one run, or what is new of it."""
        with self._writing():
            self._read(run)

    def records(self, *, metrics: Iterable[str] = (), with_config: bool = False) -> list[RunRecord]:
        """Every run, oldest first. A run whose process has died without a word has the status `crashed`."""
        rows = self._database.execute(f"SELECT {', '.join(COLUMNS)} FROM runs ORDER BY created, folder")
        summaries = self._summaries(sorted(set(metrics)))
        configs = dict(self._database.execute("SELECT folder, config FROM configs")) if with_config else {}
        found = []
        for row in rows:
            values = dict(zip(COLUMNS, row, strict=True))
            folder = values["folder"]
            config = json.loads(configs[folder]) if folder in configs else {}
            found.append(_record(values | {"metrics": summaries.get(folder, {}), "config": config}, self.runs_dir))
        return found

    def metric_names(self) -> list[str]:
        """The metrics that any run logged."""
        return sorted(name for (name,) in self._database.execute("SELECT DISTINCT name FROM metrics"))

    def config_keys(self) -> list[str]:
        """Every dotted key of any run's configuration."""
        rows = self._database.execute("SELECT config FROM configs")
        return sorted({key for (text,) in rows for key in json.loads(text)})

    def close(self) -> None:
        self._database.close()

    def _open(self) -> sqlite3.Connection:
        """The index; one that is damaged is made anew, one that cannot be written is made in memory."""
        for attempt in (1, 2):
            try:
                return self._connect(self.runs_dir / FILE)
            except sqlite3.DatabaseError as error:
                is_damaged = not isinstance(error, sqlite3.OperationalError)
                if not is_damaged or attempt == 2:
                    break
                log.warning("the index '%s' is damaged (%s) and is built anew.", self.runs_dir / FILE, error)
                self._remove()
        return self._connect(Path(":memory:"))

    def _connect(self, file: Path) -> sqlite3.Connection:
        database = sqlite3.connect(file, timeout=self._patience, isolation_level=None)
        try:
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version != VERSION:
                self._create(database)
            database.execute("PRAGMA synchronous=NORMAL")  # A power cut may cost the newest rows; folders have them.
            return database
        except sqlite3.Error:
            database.close()
            raise

    def _create(self, database: sqlite3.Connection) -> None:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("BEGIN IMMEDIATE")
        if database.execute("PRAGMA user_version").fetchone()[0] != VERSION:  # Nobody else was quicker.
            for table in ("runs", "configs", "metrics"):
                database.execute(f"DROP TABLE IF EXISTS {table}")
            for statement in SCHEMA.split(";"):
                database.execute(statement)
            database.execute(f"PRAGMA user_version={VERSION}")
        database.execute("COMMIT")

    def _remove(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            (self.runs_dir / f"{FILE}{suffix}").unlink(missing_ok=True)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def _read(self, run: RunFolder) -> None:
        """Enter a folder as it is now; of its metrics only the lines since the last time are read."""
        stamp = _stamp(run.path)
        record = read_record(run)
        row = self._database.execute("SELECT position FROM runs WHERE folder = ?", (run.name,)).fetchone()
        position = row[0] if row else 0
        if not _is_line_end(run.metrics_file, position):  # Resumed from a checkpoint, what came after it forgotten.
            position = 0
            self._database.execute("DELETE FROM metrics WHERE folder = ?", (run.name,))
        summaries, position, progress = _summarise(run.metrics_file, position)
        if progress is not None and record.status in ALIVE:
            record = replace(record, agent_steps=progress[0], seconds=progress[1])
        values = [_plain(getattr(record, column)) for column in COLUMNS]
        marks = ", ".join("?" * (len(COLUMNS) + 2))
        self._database.execute(f"INSERT OR REPLACE INTO runs VALUES ({marks})", [*values, stamp, position])
        config = json.dumps(record.config, default=str)
        self._database.execute("INSERT OR REPLACE INTO configs VALUES (?, ?)", (run.name, config))
        self._database.executemany(
            "INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (folder, name) DO UPDATE SET last ="
            " excluded.last, low = min(low, excluded.low), high = max(high, excluded.high), step = excluded.step",
            [(run.name, name, one.last, one.low, one.high, one.step) for name, one in summaries.items()],
        )

    def _summaries(self, names: Sequence[str]) -> dict[str, dict[str, Summary]]:
        found: dict[str, dict[str, Summary]] = {}
        query = "SELECT folder, name, last, low, high, step FROM metrics WHERE name = ?"
        for asked in names:
            for folder, name, *values in self._database.execute(query, (asked,)):
                found.setdefault(folder, {})[name] = Summary(*values)
        return found


def open_store(runs_dir: Path) -> Store:
    """The store, up to date."""
    store = Store(runs_dir)
    try:
        store.refresh()
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        log.warning("the index '%s' is damaged (%s) and is built anew.", runs_dir / FILE, error)
        store.rebuild()
    return store


def register(run: RunFolder) -> None:
    """A run enters itself, or what is new of it. Nothing that goes wrong here may cost the run anything."""
    try:
        store = Store(run.path.parent, patience=A_RUNS_PATIENCE)
        try:
            store.publish(run)
        finally:
            store.close()
    except (sqlite3.Error, OSError, ValueError) as error:
        log.debug("run '%s' could not enter the index: %s", run.name, error)


def _record(values: dict[str, Any], runs_dir: Path) -> RunRecord:
    flags = {name: bool(values[name]) for name in ("is_dirty", "is_pinned")}
    record = RunRecord(**{**values, **flags, "tags": tuple(json.loads(values["tags"]))})
    if record.status in ALIVE and not RunFolder(runs_dir / record.folder).is_held():
        return replace(record, status=CRASHED)
    return record


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, tuple) else value


def _stamp(folder: Path) -> str:
    """Changes whenever one of the files that the index is made from does."""
    stamps = []
    for name in ("manifest.json", "metrics.jsonl", "labels.json", "config.yaml"):
        try:
            status = os.stat(f"{folder}/{name}")
        except OSError:
            stamps.append("-")
        else:
            stamps.append(f"{status.st_mtime_ns}:{status.st_size}")
    return " ".join(stamps)


def _is_line_end(file: Path, position: int) -> bool:
    """Whether a line of the file ends at `position`, or the file begins there."""
    if position == 0:
        return True
    try:
        with file.open("rb") as opened:
            opened.seek(position - 1)
            return opened.read(1) == b"\n"
    except OSError:
        return False


def _summarise(file: Path, position: int) -> tuple[dict[str, Summary], int, tuple[int, float] | None]:
    """Each metric over the whole lines after `position`, where they end, and the steps and seconds of the last one."""
    import msgspec

    if not file.exists():
        return {}, position, None
    with file.open("rb") as opened:
        opened.seek(position)
        text = opened.read()
    whole = text[: text.rfind(b"\n") + 1]
    decode = msgspec.json.Decoder(dict[str, float | str | None]).decode
    found: dict[str, list[float]] = {}
    progress = None
    for line in whole.splitlines():
        try:
            row = decode(line)
        except msgspec.DecodeError:
            continue
        step, seconds = int(row.get("agent_steps") or 0), float(row.get("seconds") or 0)
        progress = (step, seconds)
        for name, value in row.items():
            if isinstance(value, float) and name not in UNCOUNTED:
                seen = found.get(name)
                if seen is None:
                    found[name] = [value, value, value, step]
                else:
                    found[name] = [value, min(seen[1], value), max(seen[2], value), step]
    return {name: Summary(a, b, c, int(d)) for name, (a, b, c, d) in found.items()}, position + len(whole), progress
