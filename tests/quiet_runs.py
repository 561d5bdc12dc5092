"""Runs built in this process, with nothing printed: for tests that look inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

QUIET = ("logging.terminal=false", "logging.tensorboard=false")


def quiet_run(
    folder: Path, experiment: str | None, *overrides: str, name: str = "run", user: Path | None = None
) -> Any:
    """The orchestrator of a new run in `folder`: of a shipped experiment, or of a person's own YAML."""
    from rich.console import Console

    from paddock.experiments.run import RunFolder, manifest
    from paddock.orchestration.build import build
    from paddock.orchestration.launch import Request, resolve

    options = [f"runs_dir={folder}", *overrides] if user is not None else [*QUIET, f"runs_dir={folder}", *overrides]
    config, _ = resolve(Request(experiment, user=user, name=name, overrides=options))
    values = config.model_dump(mode="json", by_alias=True)
    run = RunFolder.create(folder, name, values)
    run.write_manifest(**manifest(values, seed=config.seed))
    return build(config, run, Console(quiet=True))
