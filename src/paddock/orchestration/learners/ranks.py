"""The first rank's side: it starts the others, has them do every update with it, and notices when one is gone.

The first rank collects, samples, evaluates and writes. Before an update it sends what the others need to do the same:
the batch, the random numbers, the counters and the running statistics of the components.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from paddock.components.devices import autocast, to_device
from paddock.components.learners import LearnerLostError, Learners
from paddock.core.parent import WITH_PARENT
from paddock.core.seeding import get_random_state
from paddock.orchestration.learners.meeting import COUNT, MEETING, RANK, meet, part, torchrun_count
from paddock.orchestration.learners.messages import send
from paddock.orchestration.schema import ExperimentConfig
from paddock.workflows.base import Phase, Workflow

FOLLOWER = "paddock.orchestration.learners.follower"
FAREWELL = 10.0  # s that a rank may take to end
NOTICE = 5.0  # s in which a rank that was lost has become a process that has ended
Batch = dict[str, Any]


class Ranks:
    """All learners of a run, seen from the first. With a count of one there are no others, and nothing is sent."""

    def __init__(self, config: ExperimentConfig) -> None:
        self.learners = Learners(0, config.learners, config.updates.accumulate)
        self._config = config
        self._processes: list[subprocess.Popen[bytes]] = []
        self._folder: Path | None = None
        self._is_met = self._is_lost = False

    @property
    def count(self) -> int:
        return self.learners.count

    def start(self) -> None:
        """Start the other ranks, unless torchrun has; they are met before the first update."""
        if self.count == 1 or torchrun_count() is not None or self._processes:
            return
        self._folder = Path(tempfile.mkdtemp(prefix="paddock-learners-"))
        for rank in range(1, self.count):
            variables = {RANK: str(rank), COUNT: str(self.count), MEETING: str(self._place)}
            self._processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", FOLLOWER],
                    env={**os.environ, **variables, WITH_PARENT: str(os.getpid())},
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C is for the first rank, which ends the others.
                )
            )

    @contextmanager
    def updating(self, workflow: Workflow, hook: str, batch: Batch, phase: Phase) -> Iterator[Batch]:
        """Around one update of this rank: the batch on its device. The others make the same update."""
        if self.count > 1:
            self._lead(workflow, hook, batch, phase)
        try:
            with autocast(workflow.context.device, self._config.precision):
                yield to_device(batch, workflow.context.device)
        except LearnerLostError as error:
            raise self._lost(error) from error

    def close(self) -> None:
        """End the other ranks; none survives its run."""
        if self._is_met and not self._is_lost:
            with suppress(LearnerLostError):
                send({"do": "end"})
        if self._is_met:
            part()
        for process in self._processes:
            try:
                process.wait(FAREWELL if self._is_met and not self._is_lost else 0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._is_met = False

    @property
    def _place(self) -> Path | None:
        return self._folder and self._folder / "meeting"

    def _lead(self, workflow: Workflow, hook: str, batch: Batch, phase: Phase) -> None:
        """Send what the others need for the update that follows."""
        context = workflow.context
        try:
            if not self._is_met:
                self._meet()
                send({"do": "begin", **self._beginning(workflow)})
            send(
                {
                    "do": "update",
                    "hook": hook,
                    "phase": phase.name,
                    "batch": batch,
                    "counters": asdict(context.counters),
                    "random": get_random_state(),
                    "statistics": {name: statistics(part) for name, part in context.components.items()},
                }
            )
        except LearnerLostError as error:
            raise self._lost(error) from error

    def _meet(self) -> None:
        """Connect; a rank that ended while it started cannot be waited for."""
        self.start()
        if self._folder is not None:
            while len(list(self._folder.glob("ready-*"))) < len(self._processes):
                if any(process.poll() is not None for process in self._processes):
                    raise LearnerLostError("it did not start")
                time.sleep(0.02)
        meet(0, self.count, self._place)
        self._is_met = True

    def _beginning(self, workflow: Workflow) -> dict[str, Any]:
        context = workflow.context
        return {
            "config": self._config.model_dump(mode="json", by_alias=True),
            "spec": context.spec.to_dict(),
            "num_envs": context.experience.num_envs,
            "components": {name: part.state_dict() for name, part in context.components.items()},
            "optimizers": {name: part.state_dict() for name, part in context.optimizers.items()},
            "workflow": workflow.get_state(),
        }

    def _lost(self, error: LearnerLostError) -> LearnerLostError:
        """Which rank is gone, and how it went."""
        self._is_lost = True
        until = time.monotonic() + NOTICE
        while self._processes and time.monotonic() < until:
            for rank, process in enumerate(self._processes, 1):
                if process.poll() is not None:
                    return LearnerLostError(f"learner {rank} of {self.count} {_ending(process.returncode)}")
            time.sleep(0.02)
        return LearnerLostError(f"one of {self.count} learners is gone: {error}")


@contextmanager
def opened(config: ExperimentConfig) -> Iterator[Ranks]:
    """The learners of a run while it is under way."""
    ranks = Ranks(config)
    try:
        ranks.start()
        yield ranks
    finally:
        ranks.close()


def statistics(component: nn.Module) -> Mapping[str, Tensor]:
    """What a component learns outside of updates, too: all tensors that are no parameters."""
    return dict(component.named_buffers())


def _ending(code: int) -> str:
    """How a process ended, as the rest of a sentence."""
    return f"was killed ({signal.Signals(-code).name})" if code < 0 else f"ended with exit code {code}"
