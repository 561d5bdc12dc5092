"""Options of experience that other processes collect: the config group `experience`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from paddock.buffers.storage import transition_bytes
from paddock.config.schema import Part, TargetSchema, load_target
from paddock.core.specs import Spec
from paddock.rollout.experience import ExperienceConfig

SMALLEST_INBOX = 2**14  # bytes


class RelayConfig(ExperienceConfig):
    """Options of trainer and workers; both read them from the same experiment.

    invitation: the trainer's or worker's invitation file; null for the relay of this machine, whose token is in
    `relay_folder` (null for the usual one). workers: how many
    workers' steps are kept in columns of their own where a buffer holds sequences or rollouts.

    chunk_steps, chunk_seconds: a worker sends after so many vector steps, or so many seconds. swap: new weights begin
    with the next step, or with the next episode. publish_every: updates between two versions of the weights.
    soft_lag, hard_lag: versions that a worker's weights may be behind before that is counted, before it waits.
    test_every: training episodes between two test episodes of a worker. history_every: a worker keeps every such
    version as a policy.

    ahead_steps: steps that a worker may have collected and the trainer not yet taken before it pauses, so that what is
    learned from is recent; null for no limit but the spool, where the world does not wait.

    compressors: smaller chunks, applied in this order. compression: of everything that is left. check_samples: send
    every chunk twice, compressed and as it is, and compare.
    """

    invitation: str | None = None
    relay_folder: str | None = None
    workers: int = Field(default=1, ge=1, le=256)
    chunk_steps: int = Field(default=64, ge=1, le=65_536)
    chunk_seconds: float = Field(default=1.0, gt=0)
    swap: Literal["step", "episode"] = "step"
    publish_every: int = Field(default=100, ge=1)
    soft_lag: int = Field(default=0, ge=0)
    hard_lag: int = Field(default=0, ge=0)
    test_every: int = Field(default=0, ge=0)
    history_every: int = Field(default=0, ge=0)
    compressors: list[Part] = Field(default_factory=list)
    compression: Literal["auto", "none"] = "auto"
    check_samples: bool = False
    ahead_steps: int | None = Field(default=1_024, ge=1)
    inbox_megabytes: int = Field(default=64, ge=1)
    spool_megabytes: int = Field(default=1024, ge=1)

    def inbox_bytes(self, spec: Spec) -> int:
        """Of chunks that wait for the trainer, over all workers."""
        most = self.inbox_megabytes * 2**20
        if self.ahead_steps is None:
            return most
        return min(max(self.ahead_steps * self.workers * transition_bytes(spec), SMALLEST_INBOX), most)

    def copies(self, num_envs: int) -> int:
        return 1

    def columns(self, num_envs: int, buffers: Iterable[TargetSchema]) -> int:
        """Sequences and rollouts keep every worker's environments apart; replayed transitions need not."""
        keeps_streams = any(getattr(load_target(one.target_), "keeps_streams", False) for one in buffers)
        return num_envs * (self.workers if keeps_streams else 1)


class WorkersConfig(RelayConfig):
    """A relay and so many workers on this machine, started and ended with the run.

    worker_threads: threads of torch in each of them.
    """

    workers: int = Field(default=2, ge=1, le=256)
    worker_threads: int = Field(default=1, ge=1)
