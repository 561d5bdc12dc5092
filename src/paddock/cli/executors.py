"""Options that say where the trials of a campaign run, and the executor that they mean."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paddock.core.errors import InputError

if TYPE_CHECKING:
    from paddock.experiments.campaigns.executor import Executor


class Place(StrEnum):
    """Where trials run."""

    LOCAL = "local"
    RAY = "ray"


OnOption = Annotated[
    Place, typer.Option("--on", help="Processes of this machine, or a Ray cluster: see docs/cluster.md.")
]
AddressOption = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="With --on ray: a running cluster, or auto; without one, this machine."),
]
CpusOption = Annotated[float | None, typer.Option(min=0.0, help="With --on ray: CPUs of each trial; 1 by default.")]
GpusOption = Annotated[float | None, typer.Option(min=0.0, help="With --on ray: GPUs of each trial; none by default.")]
BringHomeOption = Annotated[
    bool,
    typer.Option("--bring-home", help="With --on ray: nodes do not share the folder of runs, so runs are sent here."),
]


@dataclass(frozen=True)
class OnRay:
    """What was given for --on ray."""

    address: str | None
    cpus: float | None
    gpus: float | None
    brings_home: bool


def make_executor(place: Place, parallel_jobs: int, runs_dir: str | Path, given: OnRay) -> Executor:
    """What carries out trials."""
    if place is Place.RAY:
        from paddock.distributed.ray.campaigns import RayExecutor

        return RayExecutor(
            parallel_jobs,
            runs_dir=Path(runs_dir),
            address=given.address,
            cpus=1.0 if given.cpus is None else given.cpus,
            gpus=given.gpus or 0.0,
            brings_home=given.brings_home,
        )
    if given != OnRay(None, None, None, False):
        raise InputError("--address, --cpus, --gpus and --bring-home are for --on ray.")
    from paddock.experiments.campaigns.executor import LocalExecutor

    return LocalExecutor(parallel_jobs)
