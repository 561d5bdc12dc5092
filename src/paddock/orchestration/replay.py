"""Running a run again from its configuration and seed, or from one of its checkpoints: a process of its own, started by
`paddock verify` as `python -m paddock.orchestration.replay RUN OUT [--checkpoint FOLDER] [--ends-after STEPS]`."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

from rich.console import Console

from paddock.config.migrate import migrate
from paddock.config.validate import validate
from paddock.experiments.run import RunFolder, manifest
from paddock.orchestration.build import build
from paddock.orchestration.checkpoint import read_checkpoint
from paddock.orchestration.experiment import ExperimentConfig


def replay(run: RunFolder, out: Path, *, checkpoint: Path | None = None, ends_after: int | None = None) -> RunFolder:
    """Do a run once more, into a folder below `out`; nothing about it is told to anybody or slows it down."""
    values = _quiet(migrate(run.read_config()))
    config = validate(values, ExperimentConfig)
    again = RunFolder.create(out, "replay", values)
    with again.lock():
        again.write_manifest(**manifest(values, seed=config.seed))
        orchestrator = build(config, again, Console(quiet=True))
        orchestrator.ends_after = ends_after
        if checkpoint is not None:
            shutil.copy(run.metrics_file, again.metrics_file)  # What lies before the checkpoint is taken as it is.
            orchestrator.restore(read_checkpoint(checkpoint))
        orchestrator.run()
    return again


def _quiet(values: dict[str, Any]) -> dict[str, Any]:
    """The same learning without trackers, films, alerts, checkpoints by time, or an end by the clock."""
    quiet_logging = {"terminal": False, "tensorboard": False, "wandb": "off"}
    return {
        **values,
        "training": {**values["training"], "max_seconds": None},
        "logging": {**values["logging"], **quiet_logging},
        "evaluation": {**values["evaluation"], "video": False},
        "checkpoint": {"every_steps": None, "every_seconds": None, "keep_last": 1, "keep_best": 0},
        "monitoring": {"system_every_seconds": None, "alerts": {}},
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--ends-after", type=int)
    given = parser.parse_args()
    replay(RunFolder(given.run), given.out, checkpoint=given.checkpoint, ends_after=given.ends_after)


if __name__ == "__main__":
    main()
