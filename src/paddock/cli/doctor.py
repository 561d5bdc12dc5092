"""`paddock doctor`: what this machine lacks, and what is wrong between it and TrackMania."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from paddock.cli.completion import complete_from
from paddock.core.findings import Finding, exit_code

EXAMPLES = """
Examples:
  paddock doctor                                          this machine
  paddock doctor --trackmania --trajectory map.safetensors
  paddock doctor --trackmania --game twin                 a twin that runs on this machine
"""
COLOURS = {"ok": "green", "note": "yellow", "fault": "bold red"}
app = typer.Typer(pretty_exceptions_enable=False)


@app.command(epilog=EXAMPLES)
def doctor(
    trackmania: Annotated[
        bool, typer.Option("--trackmania", help="Examine the game in place of the machine; it drives a few metres.")
    ] = False,
    game: Annotated[
        str, typer.Option(help="trackmania or twin.", autocompletion=complete_from("trackmania", "twin"))
    ] = "trackmania",
    port: Annotated[int | None, typer.Option(min=1, max=65_000, help="Of the telemetry; 9000 by default.")] = None,
    width: Annotated[int, typer.Option(help="Of the game's picture, pixels.")] = 256,
    height: Annotated[int, typer.Option(help="Of the game's picture, pixels.")] = 128,
    pad: Annotated[
        str, typer.Option(help="gamepad or keyboard.", autocompletion=complete_from("gamepad", "keyboard"))
    ] = "gamepad",
    step_time: Annotated[float, typer.Option(help="Seconds of a time-step, which everything has to fit into.")] = 0.05,
    trajectory: Annotated[Path | None, typer.Option(metavar="FILE", help="Does it fit this map?")] = None,
    calibrate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Measure how the game bends the stick, and write that.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
) -> None:
    """Examine this machine, or with --trackmania the game: every fault has a sentence, a fix and an exit code."""
    if trackmania:
        from paddock.environments.trackmania.doctor import Examination, examine_game

        findings: Iterable[Finding] = examine_game(
            Examination(_game(game), port, width, height, _pad(pad), step_time, trajectory, calibrate)
        )
    else:
        from paddock.orchestration.machine import examine_machine

        findings = examine_machine(Path("runs"))
    console, found = Console(), []
    for finding in findings:
        found.append(finding)
        if not as_json:
            console.print(_line(finding), soft_wrap=True)
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in found], indent=2))
    raise typer.Exit(exit_code(found))


def _line(finding: Finding) -> Text:
    text = Text.assemble((f"{finding.level:<5} ", COLOURS[finding.level]), f"{finding.subject}: {finding.sentence}")
    return text.append(f" {finding.fix}") if finding.fix else text


def _game(given: str) -> str:
    return _choice("game", given, ("trackmania", "twin"))


def _pad(given: str) -> str:
    return _choice("pad", given, ("gamepad", "keyboard"))


def _choice(kind: str, given: str, allowed: tuple[str, ...]) -> str:
    from paddock.core.errors import unknown_choice

    if given not in allowed:
        raise unknown_choice(kind, given, allowed)
    return given
