"""The index over run folders: SQLite beside them, for finding runs fast. The folders are the truth, the index can be
thrown away at any time: every look compares it with the folders and reads again what has changed."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from paddock.config.renamed import METRICS
from paddock.core.reading import DamagedError, open_regular
from paddock.experiments.documents import LARGEST_LOG, LineReader, LogState
from paddock.experiments.run import RunFolder, run_names
from paddock.experiments.store.summaries import (
    ALIVE,
    UNSETTLED,
    MetricSummary,
    RunSummary,
    as_of_now,
    event_damage,
    log_damage,
    read_summary,
    with_damage,
)

log = logging.getLogger(__name__)
Found = TypeVar("Found")

FILE = "index.sqlite"
FILES = tuple(f"{FILE}{suffix}" for suffix in ("", "-wal", "-shm", "-journal"))
VERSION = 4
PATIENCE = 10.0  # s that a reader waits for others who write
A_RUNS_PATIENCE = 0.5  # s that a run waits; if it cannot register, the next look at the store finds it anyway
BATCH = 100  # runs that are read between two transactions
STAMPED = ("manifest.json", "metrics.jsonl", "labels.json", "config.yaml", "events.jsonl")
LOG_STAMP = STAMPED.index("metrics.jsonl")
MOST_STEPS = 2**62
UNCOUNTED = ("env_frames", "agent_steps", "updates", "imagined_steps", "seconds", "phase")
COLUMNS = tuple(field.name for field in fields(RunSummary) if field.name not in ("metrics", "config"))
LISTS, FLAGS = ("tags", "damage"), ("is_dirty", "is_pinned")  # columns that SQLite has no type for
NUMBERS, OPTIONAL = ("agent_steps", "seconds", *FLAGS), ("ended", "seed", "git_commit")
KINDS: dict[str, Any] = {
    name: (int, float) if name in NUMBERS else (str, int, type(None)) if name in OPTIONAL else str for name in COLUMNS
}  # of what is written to a column
PASSING = {  # errors of SQLite that are not the index's fault
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH, sqlite3.SQLITE_PROTOCOL,
}  # fmt: skip
SCHEMA = f"""
CREATE TABLE runs ({", ".join(COLUMNS)}, stamp TEXT, position INTEGER, skipped INTEGER, PRIMARY KEY (folder));
CREATE TABLE configs (folder TEXT PRIMARY KEY, config TEXT);
CREATE TABLE metrics (folder TEXT, name TEXT, last REAL, low REAL, high REAL, step INTEGER,
                      PRIMARY KEY (folder, name)) WITHOUT ROWID;
"""


class Store:
    """All runs below one folder."""

    def __init__(self, runs_dir: Path, *, patience: float = PATIENCE, in_memory: bool = False) -> None:
        self.runs_dir = runs_dir
        self._patience, self._is_in_memory = patience, in_memory
        self._database = self._open()

    def refresh(self) -> None:
        """Bring the index up to date with the folders."""
        self._sound(self._refresh)

    def rebuild(self) -> None:
        """Forget everything and read every folder again."""
        self.close()
        self._remove()
        self._database = self._open()
        self._refresh()

    def publish(self, run: RunFolder) -> None:
        """Enter one run, or what is new of it."""
        with self._writing():
            self._read(run)

    def summaries(self, *, metrics: Iterable[str] = (), with_config: bool = False) -> list[RunSummary]:
        """Every run, oldest first. A run whose process has died without a word has the status `crashed`, one with files
        that cannot be read the status `damaged`."""
        names = sorted(set(metrics))
        return self._sound(lambda: self._records(names, with_config))

    def metric_names(self) -> list[str]:
        """The metrics that any run logged."""
        query = "SELECT DISTINCT name FROM metrics"
        return self._sound(lambda: sorted(str(name) for (name,) in self._database.execute(query)))

    def config_keys(self) -> list[str]:
        """Every dotted key of any run's configuration."""
        query = "SELECT config FROM configs"
        return self._sound(lambda: sorted({key for (text,) in self._database.execute(query) for key in _object(text)}))

    def close(self) -> None:
        self._database.close()

    def _sound(self, action: Callable[[], Found]) -> Found:
        """What an action gives; an index that turns out to be damaged is built anew first."""
        try:
            return action()
        except (sqlite3.DatabaseError, ValueError, TypeError, LookupError) as error:
            if _is_passing(error):
                raise
            self._tell(error)
            self.rebuild()
            return action()

    def _refresh(self) -> None:
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

    def _records(self, metrics: Sequence[str], with_config: bool) -> list[RunSummary]:
        rows = self._database.execute(f"SELECT {', '.join(COLUMNS)} FROM runs ORDER BY created, folder")
        metric_summaries = self._metric_summaries(metrics)
        configs = dict(self._database.execute("SELECT folder, config FROM configs")) if with_config else {}
        found = []
        for row in rows:
            config = _object(configs[row[0]]) if row[0] in configs else {}
            summary = _summary(row, metric_summaries.get(row[0], {}), config)
            is_settled = summary.status not in UNSETTLED
            found.append(summary if is_settled else as_of_now(summary, RunFolder(self.runs_dir / summary.folder)))
        return found

    def _open(self) -> sqlite3.Connection:
        """The index; one that is damaged is made anew, one that cannot be written is made in memory."""
        for attempt in (1, 2):
            if self._is_in_memory or not self._is_regular():
                break
            try:
                return self._connect(self.runs_dir / FILE)
            except sqlite3.DatabaseError as error:
                if _is_passing(error) or attempt == 2:
                    break
                self._tell(error)
                self._remove()
        return self._connect(Path(":memory:"))

    def _is_regular(self) -> bool:
        """Whether the index's files are files, or not there; links and pipes in their place are removed."""
        for name in FILES:
            path = self.runs_dir / name
            if not os.path.lexists(path) or stat.S_ISREG(os.lstat(path).st_mode):
                continue
            log.warning("'%s' is not a regular file; the runs are read from their folders.", path)
            try:
                path.unlink()
            except OSError:
                return False
        return True

    def _tell(self, error: Exception) -> None:
        log.warning("the index '%s' is damaged (%s) and is built anew.", self.runs_dir / FILE, error)

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
        for name in FILES:
            with suppress(OSError):
                (self.runs_dir / name).unlink(missing_ok=True)

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
        summary = read_summary(run)
        query = "SELECT stamp, position, skipped FROM runs WHERE folder = ?"
        before, position, skipped = self._database.execute(query, (run.name,)).fetchone() or ("", 0, 0)
        # Resumed from a checkpoint, what came after it forgotten; or changed without having grown.
        if not _is_line_end(run.metrics_file, position) or _is_rewritten(before, stamp, position):
            position = skipped = 0
            self._database.execute("DELETE FROM metrics WHERE folder = ?", (run.name,))
        news, sentences = _news(run, summary, position, skipped)
        if news.progress is not None and summary.status in ALIVE:
            summary = replace(summary, agent_steps=news.progress[0], seconds=news.progress[1])
        if summary.status not in ALIVE:
            sentences += event_damage(summary, run)
        summary = with_damage(summary, sentences)
        values = [
            json.dumps(value) if isinstance(value := getattr(summary, name), tuple) else value for name in COLUMNS
        ]
        marks = ", ".join("?" * (len(COLUMNS) + 3))
        places = [stamp, news.position, news.skipped]
        self._database.execute(f"INSERT OR REPLACE INTO runs VALUES ({marks})", [*values, *places])
        config = json.dumps(summary.config, default=str)
        self._database.execute("INSERT OR REPLACE INTO configs VALUES (?, ?)", (run.name, config))
        self._database.executemany(
            "INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (folder, name) DO UPDATE SET last ="
            " excluded.last, low = min(low, excluded.low), high = max(high, excluded.high), step = excluded.step",
            [(run.name, name, one.last, one.low, one.high, one.step) for name, one in news.metric_summaries.items()],
        )

    def _metric_summaries(self, names: Sequence[str]) -> dict[str, dict[str, MetricSummary]]:
        found: dict[str, dict[str, MetricSummary]] = {}
        query = "SELECT folder, name, last, low, high, step FROM metrics WHERE name = ?"
        for asked in names:
            for folder, name, *values in self._database.execute(query, (asked,)):
                found.setdefault(folder, {})[name] = MetricSummary(*values)
        return found


def open_store(runs_dir: Path) -> Store:
    """The store, up to date. Where its index cannot be used just now, the folders are read."""
    store = Store(runs_dir)
    try:
        store.refresh()
    except sqlite3.Error as error:
        log.warning("the index '%s' cannot be used (%s); the runs are read from their folders.", runs_dir / FILE, error)
        store.close()
        store = Store(runs_dir, in_memory=True)
        store.refresh()
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


def _is_passing(error: Exception) -> bool:
    """Whether an error says nothing about the index itself: somebody else writes, or the disk is full."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in PASSING


def _summary(row: Sequence[Any], metrics: Mapping[str, MetricSummary], config: Mapping[str, Any]) -> RunSummary:
    """A row of the index; a TypeError or ValueError where it holds what was never written there."""
    values = dict(zip(COLUMNS, row, strict=True))
    for name, kinds in KINDS.items():
        if not isinstance(values[name], kinds):
            raise TypeError(f"{name} is {values[name]!r}")
    for name in LISTS:
        values[name] = tuple(json.loads(values[name])) if values[name] != "[]" else ()
    for name in FLAGS:
        values[name] = bool(values[name])
    return RunSummary(**values, metrics=metrics, config=config)


def _object(text: str) -> dict[str, Any]:
    return msgspec.convert(json.loads(text), dict[str, Any])


def _stamp(folder: Path) -> str:
    """Changes whenever one of the files that the index is made from does."""
    stamps = []
    for name in STAMPED:
        try:
            status = os.lstat(f"{folder}/{name}")
        except OSError:
            stamps.append("-")
        else:
            stamps.append(f"{status.st_mtime_ns}:{status.st_size}:{stat.S_IFMT(status.st_mode):o}")
    return " ".join(stamps)


def _is_rewritten(before: str, stamp: str, position: int) -> bool:
    """Whether the log changed though nothing follows the position up to which it was read."""
    then, now = (text.split(" ")[LOG_STAMP] if text else "-" for text in (before, stamp))
    return then != now and now != "-" and int(now.split(":")[1]) <= position


def _is_line_end(file: Path, position: int) -> bool:
    """Whether a line of the file ends at `position`, or the file begins there."""
    if position == 0:
        return True
    try:
        with open_regular(file) as opened:
            opened.seek(position - 1)
            return opened.read(1) == b"\n"
    except (DamagedError, OSError):
        return False


@dataclass(frozen=True)
class _News:
    """What a log says beyond a position: each metric, where the last line ended, the steps and seconds in that line.
    skipped: lines of the whole file that cannot be read."""

    metric_summaries: dict[str, MetricSummary]
    position: int
    progress: tuple[int, float] | None
    skipped: int


def _news(run: RunFolder, summary: RunSummary, position: int, skipped: int) -> tuple[_News, list[str]]:
    """What is new in the log of a run, and what is wrong with it."""
    if not os.path.lexists(run.metrics_file):
        return _News({}, 0, None, 0), log_damage(summary, run.metrics_file, LogState())
    try:
        with open_regular(run.metrics_file, limit=LARGEST_LOG) as opened:
            reader = LineReader(opened, position)
            metric_summaries, progress, more = _summarise(reader)
    except (DamagedError, OSError) as error:
        return _News({}, 0, None, 0), [str(error)]
    is_empty = reader.position == 0 and not reader.is_torn
    state = LogState(skipped + more, is_torn=reader.is_torn, is_empty=is_empty)
    return _News(metric_summaries, reader.position, progress, state.skipped), log_damage(
        summary, run.metrics_file, state
    )


def _summarise(lines: Iterable[bytes]) -> tuple[dict[str, MetricSummary], tuple[int, float] | None, int]:
    """Each metric over the lines, the steps and seconds of the last one, and how many cannot be read."""
    decode = msgspec.json.Decoder(dict[str, float | str | None]).decode
    found: dict[str, list[float]] = {}
    progress, skipped = None, 0
    for line in lines:
        try:
            row = decode(line)
            step, seconds = row["agent_steps"], row["seconds"]
        except (ValueError, KeyError, RecursionError):
            skipped += 1
            continue
        if not (isinstance(step, float) and isinstance(seconds, float) and 0 <= step <= MOST_STEPS and seconds >= 0):
            skipped += 1
            continue
        progress = (int(step), seconds)
        for name, value in row.items():
            if isinstance(value, float) and name not in UNCOUNTED:
                name = METRICS.get(name, name)
                seen = found.get(name)
                if seen is None:
                    found[name] = [value, value, value, step]
                else:
                    found[name] = [value, min(seen[1], value), max(seen[2], value), step]
    metric_summaries = {
        name: MetricSummary(last, low, high, int(step)) for name, (last, low, high, step) in found.items()
    }
    return metric_summaries, progress, skipped
