"""The keys of `experience=ray`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from paddock.config.schema import TargetSchema, load_target
from paddock.distributed.schema import RelayConfig
from paddock.rollout.experience import ExperienceConfig


class RayConfig(ExperienceConfig):
    """workers: actors over which the rows of `environment.num_envs` are spread. address: of a running cluster, as of
    `ray.init` (`auto`, or HOST:PORT); null starts one on this machine, which ends with the run.

    mode: `sync`: every round is of the newest policy, and the result does not depend on the number of workers. `async`:
    workers go on while the learner learns; for off-policy workflows.

    cpus: of each worker, as Ray counts them. worker_threads: threads of torch and of the simulator in each of them.

    For `async`: chunk_steps: vector steps that a worker hands over at once. ahead_chunks: so many of a worker may be
    under way or wait for the learner. publish_every: updates between two versions of the weights. max_lag: versions
    behind the newest after which steps are not learned from; 0 for no limit.
    """

    workers: int = Field(default=2, ge=1, le=4_096)
    address: str | None = None
    mode: Literal["sync", "async"] = "sync"
    cpus: float = Field(default=1.0, ge=0)
    worker_threads: int = Field(default=1, ge=1)
    chunk_steps: int = Field(default=16, ge=1, le=65_536)
    ahead_chunks: int = Field(default=2, ge=1, le=64)
    publish_every: int = Field(default=100, ge=1)
    max_lag: int = Field(default=0, ge=0)

    def copies(self, num_envs: int) -> int:
        return 1

    def columns(self, num_envs: int, buffers: Iterable[TargetSchema]) -> int:
        """Sequences and rollouts keep every row apart; replayed transitions of an asynchronous run need not."""
        keeps_streams = any(getattr(load_target(one.target_), "keeps_streams", False) for one in buffers)
        return num_envs if self.mode == "sync" or keeps_streams else -(-num_envs // self.workers)

    def counts(self, num_envs: int) -> list[int]:
        """Rows of each worker, as even as can be; no worker is without one."""
        workers = min(self.workers, num_envs)
        return [num_envs // workers + (number < num_envs % workers) for number in range(workers)]

    def as_relay(self) -> RelayConfig:
        """What the trainer's side of the relay has to know of an asynchronous run."""
        return RelayConfig(_target_=self.target_, workers=self.workers, publish_every=self.publish_every)
