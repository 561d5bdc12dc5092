"""Arguments that the verbs of the experiment store share, and the completion of run names in the shell."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def complete_runs(context: typer.Context, incomplete: str) -> list[str]:
    """Folders of runs, and the names given to several of them, that begin like this."""
    import re

    from paddock.experiments.run import STAMP, run_names

    given: Any = context.params.get("runs_dir")
    folders = run_names(Path(given or "runs"))
    names = {re.sub(f"{STAMP}$", "", folder) for folder in folders}
    return [name for name in [*sorted(names), *folders] if name.startswith(incomplete)]


RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A run's path, name (the newest), id, or a beginning or glob that fits one.",
        autocompletion=complete_runs,
    ),
]
RunsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN ...",
        help="Runs: paths, names (all runs of that name), ids, beginnings, globs.",
        autocompletion=complete_runs,
    ),
]
RunsDirOption = Annotated[Path, typer.Option(help="Where runs are.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
FilterOption = Annotated[
    list[str] | None,
    typer.Option("--filter", metavar="KEY=VALUE", help="algorithm=ppo, 'eval/return>400', workflow.clip=0.2; repeat."),
]
TagOption = Annotated[list[str] | None, typer.Option(metavar="WORD", help="Only runs with this tag; repeat.")]
RUNS = Path("runs")
