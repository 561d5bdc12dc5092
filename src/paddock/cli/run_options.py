"""Arguments and options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paddock.cli.completion import complete_runs


def register(context: typer.Context, plugins: list[str] | None) -> list[str] | None:
    """Make packages of the person's own known before the verb does anything."""
    from paddock.config.plugins import register_plugins

    if plugins and not context.resilient_parsing:
        register_plugins(plugins)
    return plugins


RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A run's path, name (the newest), id, or a prefix or glob that matches one run.",
        autocompletion=complete_runs,
    ),
]
RunsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN",
        help="Runs: paths, names (all runs of that name), ids, prefixes, globs.",
        autocompletion=complete_runs,
    ),
]
RunsDirOption = Annotated[Path, typer.Option(help="The folder of runs.")]
TrustOption = Annotated[
    bool,
    typer.Option("--trust", help="Let a folder made elsewhere run what it names; remembered for this content."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
PluginOption = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="PACKAGE",
        help="A package of yours that _target_ may name; repeat.",
        callback=register,
    ),
]
FilterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filter", metavar="KEY=VALUE", help="algorithm=ppo, 'eval/return>400', workflow.clip_ratio=0.2; repeat."
    ),
]
TagOption = Annotated[list[str] | None, typer.Option(metavar="WORD", help="Only runs with this tag; repeat.")]
RUNS = Path("runs")
