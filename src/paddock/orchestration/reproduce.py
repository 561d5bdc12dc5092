"""Running a run again from its configuration and seed, or from one of its checkpoints: a process of its own, started by
`paddock verify` as `python -m paddock.orchestration.reproduce RUN OUT [--checkpoint FOLDER] [--ends-after STEPS]`."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from rich.console import Console

from paddock.config.migrate import migrate
from paddock.config.validate import validate
from paddock.core.trust import checked
from paddock.experiments.run import RunFolder, manifest
from paddock.experiments.verify import quiet
from paddock.orchestration.build import build
from paddock.orchestration.checkpoint import read_checkpoint
from paddock.orchestration.schema import ExperimentConfig


def replay(
    run: RunFolder,
    out: Path,
    *,
    checkpoint: Path | None = None,
    ends_after: int | None = None,
    trusts: bool = False,
) -> RunFolder:
    """Do a run once more, into a folder below `out`; nothing about it is told to anybody or slows it down."""
    saved = migrate(run.read_config())
    values = quiet(saved)
    again = RunFolder.create(out, "replay", values, is_own=False)
    with checked(run.path, saved, used=values, trusts=trusts, with_links=True), again.lock():
        config = validate(values, ExperimentConfig)
        again.write_manifest(**manifest(values, seed=config.seed))
        orchestrator = build(config, again, Console(quiet=True))
        orchestrator.ends_after = ends_after
        if checkpoint is not None:
            shutil.copy(run.metrics_file, again.metrics_file)  # What lies before the checkpoint is taken as it is.
            orchestrator.restore(read_checkpoint(checkpoint))
        orchestrator.run()
    return again


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--ends-after", type=int)
    parser.add_argument("--trust", action="store_true")
    given = parser.parse_args()
    replay(
        RunFolder(given.run),
        given.out,
        checkpoint=given.checkpoint,
        ends_after=given.ends_after,
        trusts=given.trust,
    )


if __name__ == "__main__":
    main()
