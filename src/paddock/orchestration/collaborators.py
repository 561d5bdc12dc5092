"""What the orchestrator works with: made by `build`, handed over in one piece."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paddock.control.requests import Control
from paddock.control.service import RunService, ServedRun
from paddock.evaluation.evaluator import Evaluator, Probe
from paddock.orchestration.checkpoint import CheckpointStore
from paddock.orchestration.diagnostics import Diagnostics
from paddock.orchestration.folder_watch import Home
from paddock.orchestration.learners.ranks import Ranks
from paddock.orchestration.loggers import Logger
from paddock.orchestration.metrics import Metrics
from paddock.orchestration.monitoring.monitor import Monitor
from paddock.orchestration.phase_scheduler import PhaseScheduler
from paddock.orchestration.policies import PolicyStore
from paddock.rollout.episodes import MakeEnv


@dataclass(frozen=True)
class Collaborators:
    """Everything around the loop. Loggers are made when the run begins, at so many agent steps; the service of a run
    is made of the run."""

    ranks: Ranks
    metrics: Metrics
    scheduler: PhaseScheduler
    checkpoints: CheckpointStore
    policies: PolicyStore
    control: Control
    monitor: Monitor
    diagnostics: Diagnostics
    home: Home
    evaluator: Evaluator
    probes: Sequence[Probe]
    make_eval_env: MakeEnv
    make_loggers: Callable[[int], list[Logger]]
    make_service: Callable[[ServedRun], RunService]
