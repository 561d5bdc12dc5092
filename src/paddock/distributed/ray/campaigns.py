"""Trials of sweeps, searches and benchmarks on the nodes of a Ray cluster."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock.distributed.ray.cluster import Cluster, import_ray
from paddock.distributed.ray.trials import TrialHost, TrialOrder, all_files, resumed_folder, take_home
from paddock.experiments.campaigns.executor import Job

log = logging.getLogger(__name__)

LOST = 1  # exit code of a trial whose node is gone
BRING_SECONDS = 5.0  # between two deliveries of a trial that is under way
END_SECONDS = 60.0  # for trials to save and end
ATTEMPTS = 3  # at a trial whose node is lost


@dataclass
class Placed:
    """A trial on the cluster."""

    job: Job
    host: Any
    code: Any  # reference to its exit code
    attempts: int
    brought: float = 0.0  # s of the monotonic clock


class RayExecutor:
    """An `Executor` whose jobs are actors with resources of their own. A trial whose node dies is placed again, and
    goes on from the checkpoint that is at home; trials end with this process and are resumed by the next one.

    runs_dir: where runs are at home. brings_home: nodes do not share that path.
    """

    def __init__(
        self,
        parallel_jobs: int,
        *,
        runs_dir: Path,
        address: str | None = None,
        cpus: float = 1.0,
        gpus: float = 0.0,
        brings_home: bool = False,
    ) -> None:
        import_ray(address, purpose="--on ray")
        self._cluster = Cluster(address, cpus=max(cpus, 1.0) * parallel_jobs)
        self._ray = self._cluster.ray
        self._kind = self._ray.remote(num_cpus=cpus, num_gpus=gpus, max_restarts=0, max_concurrency=3)(TrialHost)
        self._parallel_jobs, self._runs_dir, self._brings_home = parallel_jobs, runs_dir, brings_home
        self._placed: dict[str, Placed] = {}

    def has_room(self) -> bool:
        return len(self._placed) < self._parallel_jobs

    def submit(self, job: Job) -> None:
        self._place(job, attempts=1)

    def ended(self) -> dict[str, int]:
        codes: dict[str, int] = {}
        for key, placed in list(self._placed.items()):
            ready, _ = self._ray.wait([placed.code], timeout=0)
            if not ready:
                self._bring(placed)
                continue
            code = self._code_of(placed)
            if code is not None:
                codes[key] = code
        return codes

    def cancel(self, key: str) -> None:
        if key in self._placed:
            self._placed[key].host.stop.remote()

    def close(self) -> None:
        for key in self._placed:
            self.cancel(key)
        waiting = [placed.code for placed in self._placed.values()]
        if waiting:
            self._ray.wait(waiting, num_returns=len(waiting), timeout=END_SECONDS)
        for placed in self._placed.values():
            self._bring(placed, is_last=True)
            self._ray.kill(placed.host)
        self._placed.clear()
        self._cluster.close()

    def _place(self, job: Job, attempts: int) -> None:
        resumed = resumed_folder(job.arguments)
        order = TrialOrder(
            arguments=list(job.arguments),
            folder=os.getcwd(),
            log=str(job.log.resolve()),
            brings_home=self._brings_home,
            sent=all_files(resumed) if resumed is not None and self._brings_home else {},
        )
        host = self._kind.remote(order)
        self._placed[job.key] = Placed(job, host, host.run.remote(), attempts)

    def _code_of(self, placed: Placed) -> int | None:
        """The exit code of a trial that has ended; None where it was lost with its node and is placed again."""
        key = placed.job.key
        del self._placed[key]
        try:
            code = int(self._ray.get(placed.code))
        except self._ray.exceptions.RayTaskError:
            raise
        except self._ray.exceptions.RayError as error:
            if placed.attempts >= ATTEMPTS:
                log.warning("a trial was lost %d times: %s", placed.attempts, str(error).splitlines()[0])
                return LOST
            log.warning("a trial was lost with its node and is placed again.")
            self._place(self._again(placed.job), placed.attempts + 1)
            return None
        self._bring(placed, is_last=True)
        self._ray.kill(placed.host)
        return code

    def _again(self, job: Job) -> Job:
        """The same trial, going on with its run where there is one with a checkpoint at home."""
        if resumed_folder(job.arguments) is not None:
            return job
        tag = f"trial:{job.key}"
        for config in sorted(self._runs_dir.glob("*/config.yaml"), reverse=True):
            if tag in config.read_text(encoding="utf-8") and any((config.parent / "checkpoints").glob("step-*")):
                return Job(job.key, ["train", "--resume", str(config.parent)], job.log)
        return job

    def _bring(self, placed: Placed, is_last: bool = False) -> None:
        """Take home what is new of a trial."""
        if not self._brings_home or (not is_last and time.monotonic() - placed.brought < BRING_SECONDS):
            return
        placed.brought = time.monotonic()
        try:
            delivery = self._ray.get(placed.host.delivery.remote(), timeout=END_SECONDS)
        except self._ray.exceptions.RayError:  # Its end will say why.
            return
        take_home(delivery, self._runs_dir, placed.job.log)
