"""The `paddock` program: finds the verb, runs it, and turns errors into one readable message and an exit code."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from functools import partial

import typer
from rich.console import Console
from rich.text import Text

from paddock import __version__
from paddock.cli.completion import VARIABLE, silently
from paddock.cli.help import RunningGroup, VerbCommand, VerbGroup
from paddock.core.errors import PaddockError, unknown_choice
from paddock.core.files import keep_private
from paddock.core.parent import end_with_parent
from paddock.core.text import printable

# verb: (module with a Typer `app`, one line of help). A verb's module is imported only when the verb is used.
VERBS = {
    "train": ("paddock.cli.train", "Train an agent, or resume a run."),
    "evaluate": ("paddock.cli.evaluate", "Evaluate a trained policy: whole episodes, fixed seeds."),
    "race": ("paddock.cli.race", "Race policies against the classical driver and recorded human laps."),
    "dashboard": ("paddock.cli.dashboard", "Watch, control and start runs in the browser."),
    "drive": ("paddock.cli.drive", "Drive yourself, in the browser."),
    "record": ("paddock.cli.record", "Keep what is driven, to learn from it."),
    "demonstrations": ("paddock.cli.demonstrations", "List, inspect, play, merge, import and export demonstrations."),
    "relay": ("paddock.cli.relay", "The meeting point of workers and a trainer; invitations for them."),
    "worker": ("paddock.cli.worker", "Collect for a trainer on another machine."),
    "trainer": ("paddock.cli.trainer", "Train from what workers collect; the same as train with experience=relay."),
    "benchmark-realtime": ("paddock.cli.benchmark_realtime", "Where a real-time step's milliseconds go, and delays."),
    "twin": ("paddock.cli.twin", "A stand-in for TrackMania: telemetry, screen and pad on this machine."),
    "doctor": ("paddock.cli.doctor", "What this machine lacks, and what is wrong between it and TrackMania."),
    "list": ("paddock.cli.list", "Find runs: filter, sort, tags."),
    "show": ("paddock.cli.show", "Everything about one run."),
    "compare": ("paddock.cli.compare", "Runs side by side, with intervals and a report."),
    "export": ("paddock.cli.export", "Runs as csv, json, latex, markdown or parquet."),
    "export-policy": ("paddock.cli.export_policy", "A policy as a file that runs elsewhere: ONNX."),
    "sweep": ("paddock.cli.sweep", "Every combination of some options, over seeds."),
    "tune": ("paddock.cli.tune", "Search for good options with Optuna."),
    "benchmark": ("paddock.cli.benchmark", "Tasks with published values over seeds, and their report."),
    "verify": ("paddock.cli.verify", "Run a run again and check that the result is identical."),
    "cleanup": ("paddock.cli.cleanup", "Free disk space; configurations and metrics stay."),
    "tag": ("paddock.cli.tag", "Tag, note, rename and pin runs; cleanup does not touch pinned ones."),
    "tmrl": ("paddock.cli.tmrl", "TMRL's files in and out, and its flags."),
    "tracks": ("paddock.cli.tracks", "List, draw, generate, import and remove race tracks."),
}

# Verbs that write runs, races, laps and logs, which only their user can read unless they are shared.
WRITING = (
    "train",
    "worker",
    "trainer",
    "relay",
    "evaluate",
    "race",
    "dashboard",
    "drive",
    "record",
    "demonstrations",
    "sweep",
    "tune",
    "verify",
    "benchmark",
    "tmrl",
)


LAYOUT = "\n\t"  # what messages of several lines are laid out with


class LazyGroup(VerbGroup):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx):  # type: ignore[no-untyped-def]
        return list(VERBS)

    def get_command(self, ctx, name):  # type: ignore[no-untyped-def]
        if name not in VERBS:
            raise unknown_choice("command", name, VERBS)
        module, summary = VERBS[name]
        if name in WRITING:
            keep_private()
        verb: typer.Typer = importlib.import_module(module).app
        for info in verb.registered_commands:
            info.cls = VerbCommand
        if verb.info.cls is not RunningGroup:
            verb.info.cls = VerbGroup
        command = typer.main.get_command(verb)
        command.name, command.short_help = name, summary
        return command


app = typer.Typer(
    cls=LazyGroup,
    pretty_exceptions_enable=False,
    help="Paddock: a reinforcement-learning lab for driving and control.",
)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        print(f"paddock {__version__}")
        raise typer.Exit


def main() -> None:
    """Entry point."""
    if VARIABLE in os.environ:
        silently(partial(app, prog_name="paddock"))
        return
    end_with_parent()
    errors = Console(stderr=True)
    handler = _AboveTheProgress() if sys.stderr.isatty() else logging.StreamHandler()
    handler.setFormatter(_Plain("warning: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    try:
        app(prog_name="paddock")
    except PaddockError as error:
        sentence = Text.assemble(("error:", "bold red"), f" {printable(error, keep=LAYOUT)}")
        errors.print(sentence, highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


class _AboveTheProgress(logging.StreamHandler):
    """Writes to what standard error is at the moment: a live display takes its place to keep itself whole."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


class _Plain(logging.Formatter):
    """Warnings in which names from files cannot act on the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), keep=LAYOUT)
