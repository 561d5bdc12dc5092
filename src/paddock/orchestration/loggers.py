"""Where metrics go: the terminal, metrics.jsonl, TensorBoard, Weights & Biases. A failing tracker stops nothing."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec
from pydantic import Field
from rich.console import Console

from paddock.config.schema import Schema
from paddock.core.files import make_folder, open_to_append, write_all
from paddock.core.lazy import require
from paddock.core.system import read_at
from paddock.experiments.documents import LONGEST_LINE
from paddock.experiments.run import RunFolder
from paddock.orchestration.terminal import Limits, Terminal

log = logging.getLogger(__name__)


class LoggingConfig(Schema):
    """How often to log, and where to. every_updates: also by updates, for phases that collect nothing."""

    every_steps: int = Field(default=5_000, ge=1)
    every_updates: int | None = Field(default=None, ge=1)
    terminal: bool = True
    tensorboard: bool = True
    wandb: Literal["off", "online", "offline"] = "off"
    wandb_project: str = "paddock"
    shown: list[str] = Field(default_factory=lambda: ["collect/return", "eval/return"])


@dataclass(frozen=True)
class Row:
    """One logged point: where the run stands, and the means since the point before."""

    counters: Mapping[str, int]
    phase: str
    seconds: float
    metrics: Mapping[str, float]


class Logger(Protocol):
    def log(self, row: Row) -> None: ...

    def close(self) -> None: ...


class JsonLines:
    """`metrics.jsonl`, one line a point. The file's length is part of a checkpoint."""

    def __init__(self, file: Path) -> None:
        self._file = open_to_append(file)

    def log(self, row: Row) -> None:
        line = {**row.counters, "seconds": round(row.seconds, 3), "phase": row.phase, **row.metrics}
        write_all(self._file.fileno(), msgspec.json.encode(line) + b"\n")  # What is not finite is written as null.

    def position(self) -> int:
        return os.lseek(self._file.fileno(), 0, os.SEEK_END)

    def close(self) -> None:
        self._file.close()


def rewind_log(file: Path, position: int) -> None:
    """Forget what was logged after the checkpoint that is resumed from. A log that has lost its end since goes on after
    its last whole line."""
    with open_to_append(file) as opened:
        size = opened.seek(0, os.SEEK_END)
        if size < position:
            log.warning("'%s' is shorter than at the checkpoint that is resumed from; what it lost stays lost.", file)
            begin = max(size - LONGEST_LINE, 0)
            position = begin + read_at(opened.fileno(), size - begin, begin).rfind(b"\n") + 1
        opened.truncate(position)


class TensorBoard:
    """Curves that people can already read. Written here and now: a thread of its own would fail where nobody hears."""

    def __init__(self, folder: Path, agent_steps: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event, self._summary = Event, Summary
        make_folder(folder)
        name = f"events.out.tfevents.{time.time():.0f}.{socket.gethostname()}.{os.getpid()}"
        self._writer = RecordWriter(open_to_append(folder / name))
        self._write(file_version="brain.Event:2")
        if agent_steps:  # Tell the reader to forget points after the one that is resumed from.
            self._write(step=agent_steps + 1, session_log=SessionLog(status=SessionLog.START))

    def log(self, row: Row) -> None:
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in row.metrics.items()]
        self._write(step=row.counters["agent_steps"], summary=self._summary(value=values))

    def close(self) -> None:
        self._writer.close()

    def _write(self, **content: Any) -> None:
        self._writer.write(self._event(wall_time=time.time(), **content).SerializeToString())
        self._writer.flush()


class Wandb:
    """Weights & Biases, also without a network."""

    def __init__(self, run: RunFolder, config: LoggingConfig, values: Mapping[str, Any]) -> None:
        wandb = require("wandb", extra="wandb", purpose="logging to Weights & Biases")
        self._run = wandb.init(
            project=config.wandb_project,
            name=run.name,
            id=run.read_manifest().get("id"),
            dir=str(run.path),
            mode=config.wandb,
            resume="allow",
            config=dict(values),
        )
        if address := getattr(self._run, "url", None):
            run.write_manifest(wandb=str(address))

    def log(self, row: Row) -> None:
        self._run.log({**row.metrics, **row.counters}, step=row.counters["agent_steps"])

    def close(self) -> None:
        self._run.finish()


class Guarded:
    """A tracker that may fail: it is dropped with one warning, and training goes on."""

    def __init__(self, name: str, make: Any) -> None:
        self._name = name
        self._logger: Logger | None = None
        self._logger = self._attempt(make)

    def log(self, row: Row) -> None:
        if self._logger is not None:
            self._attempt(self._logger.log, row)

    def close(self) -> None:
        if self._logger is not None:
            self._attempt(self._logger.close)

    def _attempt(self, action: Any, *arguments: Any) -> Any:
        try:
            return action(*arguments)
        except Exception as error:  # Whatever a tracker throws, the run is worth more.
            log.warning("%s failed; continuing without it: %s", self._name, error)
            self._logger = None
            return None


def make_loggers(
    config: LoggingConfig,
    run: RunFolder,
    console: Console,
    values: Mapping[str, Any],
    *,
    limits: Limits,
    agent_steps: int,
) -> list[Logger]:
    """The trackers that the configuration asks for, besides metrics.jsonl, which is always written."""
    loggers: list[Logger] = []
    if config.terminal:
        loggers.append(Terminal(console, config.shown, limits, agent_steps))
    if config.tensorboard:
        loggers.append(Guarded("TensorBoard", lambda: TensorBoard(run.tensorboard, agent_steps)))
    if config.wandb != "off":
        loggers.append(Guarded("Weights & Biases", lambda: Wandb(run, config, values)))
    return loggers
