"""A worker: an environment and a policy on this machine, whose experience a trainer elsewhere learns from."""

from __future__ import annotations

import logging
import re
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from paddock import __version__
from paddock.config.schema import instantiate
from paddock.core.errors import InputError, PaddockError
from paddock.core.paths import paddock_home
from paddock.core.seeding import derive_seed, seed_everything
from paddock.distributed.chunk_codec import ChunkCodec
from paddock.distributed.comparing import environment_values, first_unequal
from paddock.distributed.connection import Dial, LinkStatus
from paddock.distributed.delivery.versions import split_version
from paddock.distributed.disk import HeldElsewhere
from paddock.distributed.recorder import Recorder
from paddock.distributed.schema import RelayConfig
from paddock.distributed.sessions import WorkerSession
from paddock.distributed.spool import Spool
from paddock.distributed.standby import Acting, Standby
from paddock.distributed.wire.messages import Hello
from paddock.environments.calls import EnvironmentAway
from paddock.environments.spaces import spec_of
from paddock.orchestration.build import make_environment
from paddock.orchestration.components import make_controllers
from paddock.orchestration.schema import ExperimentConfig
from paddock.rollout.actor import ActorModule
from paddock.rollout.collector import Collector
from paddock.rollout.controllers import ControllerManager
from paddock.rollout.episodes import evaluation_mode, whole_episodes

log = logging.getLogger(__name__)

REPORT_SECONDS = 1.0
WAIT_SECONDS = 0.05
DRAIN_SECONDS = 10.0
LONGEST_PAUSE = 256  # characters of a text in a report; the folder in the sentence may have any length
NO_ID = "0" * 16
MOST_SPOOLS = 64


def open_spool(experiment: str, folder: Path | None, limit: int) -> Spool:
    """The spool in `folder`; without one, the first of this experiment's that no other worker of this machine uses."""
    if folder is not None:
        return Spool.open(folder, limit=limit)
    parent = paddock_home() / "spools" / re.sub(r"[^\w.-]", "_", experiment)
    for number in range(1, MOST_SPOOLS + 1):
        try:
            return Spool.open(parent / str(number), limit=limit)
        except HeldElsewhere:
            continue
    raise InputError(f"{MOST_SPOOLS} workers of this experiment run on this machine; give another one a --spool.")


@dataclass
class Tally:
    """What a worker has done. Seconds of waiting are those without a step: for weights, or for room in the spool."""

    steps: int = 0
    episodes: int = 0
    waited: float = 0.0
    swaps: int = 0
    overdue: int = 0  # steps with weights that were further behind than soft_lag
    last: dict[str, float] = field(default_factory=dict)  # of the newest episodes that ended
    test: dict[str, float] = field(default_factory=dict)  # of the newest test episode


class WorkerLoop:
    """Collects with the newest weights it gets, and hands chunks to its session.

    policy: acts in place of the trainer's weights, as an expert does. history: where every `history_every`-th version
    is kept as a policy.
    """

    def __init__(
        self,
        config: ExperimentConfig,
        dial: Dial,
        *,
        name: str,
        spool: Spool,
        experiment: str,
        policy: ActorModule | None = None,
        history: Path | None = None,
    ) -> None:
        options = config.experience
        if not isinstance(options, RelayConfig):
            raise PaddockError("a worker needs an experiment with experience=relay or experience=workers.")
        if options.swap == "episode" and config.environment.num_envs > 1:
            raise InputError(
                f"experience.swap=episode changes weights between episodes, and environment.num_envs is "
                f"{config.environment.num_envs}, whose episodes end at different times. Use swap=step, or num_envs=1."
            )
        self.config, self.options, self.name = config, options, name
        self.tally = Tally()
        self._expert, self._history = policy, history
        self._env = make_environment(config, config.environment.num_envs)
        self.spec = spec_of(self._env)
        hello = Hello(
            role="worker",
            name=name,
            id=NO_ID,
            paddock=__version__,
            experiment=experiment,
            spec=self.spec,
            host=socket.gethostname(),
            sent=time.time(),
        )
        self.session = WorkerSession(spool, dial=dial, hello=hello)
        seed = derive_seed(config.seed, "worker", self.session.id, time.time_ns())
        seed_everything(seed)  # A restarted worker must not drive the same episodes again.
        if (announce := getattr(self._env, "announce", None)) is not None:
            announce(Path(spool.name))  # Viewers of this machine find the worker's world there.
        self._collector = Collector(self._env, self.spec, seed=seed)
        self._collector.while_away = self._wait_for_world
        self._stop, self._away = threading.Event(), ""
        self._codec = ChunkCodec(
            self.spec,
            self._env.num_envs,
            [instantiate(one) for one in options.compressors],
            compress=options.compression == "auto",
            check_samples=options.check_samples,
        )
        self._arrived = threading.Event()
        self._standby = Standby(self._make_controllers, lambda: self.session.weights, self._arrived)
        self._recorder = Recorder(self.spec, self._env.num_envs, options.chunk_steps)
        self._acting: Acting | None = None
        self._sent_version = -1
        self._chunk_began = self._reported = time.monotonic()
        self._reported_steps, self._reported_waiting = 0, 0.0
        self._offered: deque[int] = deque()  # steps of chunks that the trainer may not have
        self._told = self._unconnected = ""
        self._tests_at = 0

    def run(self, stop: threading.Event, *, episodes: int | None = None) -> Tally:
        """Collect until `stop` is set, or so many episodes have ended."""
        self._stop = stop
        try:
            while not stop.is_set() and (episodes is None or self.tally.episodes < episodes):
                self._turn(stop)
            self._send(stop, patience=DRAIN_SECONDS)
        finally:
            self.session.close(drain_seconds=DRAIN_SECONDS)
            self._standby.close()
            self._env.close()
        return self.tally

    def _turn(self, stop: threading.Event) -> None:
        """One vector step, or a short wait where there is nothing to act with."""
        self._report()
        self._swap()
        acting = self._acting
        if acting is None:
            self._wait()
            return
        length = acting.order.steps if acting.order.mode == "rollouts" else self.options.chunk_steps
        if acting.order.mode == "rollouts" and self._sent_version >= acting.version:
            self._wait()
            return
        if self._is_ahead():
            self._wait()
            return
        if length != self._recorder.length and not len(self._recorder):
            self._recorder.resize(length)
        self._step(acting)
        is_old = acting.order.mode == "free" and time.monotonic() - self._chunk_began > self.options.chunk_seconds
        if len(self._recorder) == self._recorder.length or is_old:
            self._send(stop)
        self._test_if_due(acting)

    def _is_ahead(self) -> bool:
        """Whether the trainer has to take something before more is collected."""
        limit = self.options.ahead_steps
        if limit is None or len(self._recorder) or self._acting is None or self._acting.order.mode == "rollouts":
            return False
        waiting = self.session.status.waiting_chunks
        while len(self._offered) > waiting:
            self._offered.popleft()
        return sum(self._offered) >= limit

    def _step(self, acting: Acting) -> None:
        if not len(self._recorder):
            self._chunk_began = time.monotonic()
        actor = self._expert or acting.controllers[acting.header.controller]
        self._collector.explores = acting.header.explores
        try:
            result = self._collector.collect(actor, self._recorder, self._env.num_envs)
        except EnvironmentAway:  # It is time to stop, and the world is not back.
            return
        self._recorder.count(result)
        self.tally.steps += result.steps
        self.tally.episodes += result.episodes
        if result.episodes:
            self.tally.last = {name.removeprefix("collect/"): value for name, value in result.metrics.items()}
        soft = acting.order.soft_lag
        if soft and self._lag() > soft:
            self.tally.overdue += result.steps

    def _swap(self) -> None:
        """Take newer weights where it is time for that. A chunk is of one version."""
        acting = self._acting
        if acting is not None:
            # Every environment's episode begins with the next step, or the weights are too old to go on with.
            is_between = self.options.swap == "step" or self._collector.begins_episodes
            hard = acting.order.hard_lag
            if not is_between and not (hard and self._lag() > hard):
                return
            if acting.order.mode == "rollouts" and len(self._recorder):
                return
        new = self._standby.take(acting)
        if new is None:
            return
        self._check_environment(new)
        if len(self._recorder):
            self._send(threading.Event())
        self._acting = new
        self.tally.swaps += 1
        for name, weight in new.header.reward_weights.items():
            if self._collector.reward_weights.get(name) != weight:
                self._collector.set_reward_weight(name, weight)
        self._keep(new)

    def _check_environment(self, new: Acting) -> None:
        difference = first_unequal(new.header.environment, environment_values(self.config))
        if difference is not None:
            key, theirs, ours = difference
            raise PaddockError(
                f"the trainer's environment differs from this worker's: {key} is {theirs} there and {ours} here. Start "
                f"both with the same options, for example {key}={theirs}."
            )

    def _send(self, stop: threading.Event, patience: float | None = None) -> None:
        """Hand over what was recorded; waits while the spool has no room, unless it is time to stop."""
        if not len(self._recorder) or self._acting is None:
            return
        chunk, note = self._recorder.take()
        packed = self._codec.pack(chunk, self._acting.version, **note)
        began = time.monotonic()
        while not self.session.offer(packed, timeout=WAIT_SECONDS):
            self._tell(self.session.status.pause)
            self._report()
            if stop.is_set() and (patience is None or time.monotonic() - began > patience):
                log.warning("%d steps found no room in the spool and are lost.", packed.steps)
                break
        else:
            self._tell("")
        self._offered.append(packed.steps)
        self.tally.waited += time.monotonic() - began
        self._sent_version = self._acting.version

    def _wait(self) -> None:
        """For new weights, a moment."""
        began = time.monotonic()
        if self._standby.problem:
            self._tell(self._standby.problem)
        self._arrived.wait(WAIT_SECONDS)
        self._arrived.clear()
        self.tally.waited += time.monotonic() - began

    def _wait_for_world(self, error: EnvironmentAway) -> None:
        """The world stays away: say so, also to the trainer, until it is back."""
        self._away = str(error)
        self._tell(self._away)
        while not error.is_back():
            if self._stop.is_set():
                raise error
            self._report()
            time.sleep(WAIT_SECONDS)
        self._away = ""
        self._tell("")

    def _tell(self, sentence: str) -> None:
        """Log what holds the worker up, once."""
        if sentence != self._told:
            if sentence:
                log.warning("paused: %s", sentence)
            elif self._told:
                log.warning("collecting goes on.")
            self._told = sentence

    def _tell_connection(self, link: LinkStatus) -> None:
        """Log why there is no connection, once, and when there is one again."""
        if link.is_connected and self._unconnected:
            log.warning("connected to the relay.")
        elif not link.is_connected and link.problem != self._unconnected:
            log.warning("not connected: %s", link.problem)
        self._unconnected = "" if link.is_connected else link.problem

    def _lag(self) -> int:
        """Versions that the acting weights are behind the newest that arrived."""
        weights = self.session.weights
        if weights is None or self._acting is None:
            return 0
        (newest, count), (incarnation, acted) = split_version(weights.version), split_version(self._acting.version)
        return max(count - acted, 0) if newest == incarnation else count + 1

    def _test_if_due(self, acting: Acting) -> None:
        """A whole episode without exploration after every so many; its return goes with the next report."""
        every = acting.order.test_every
        if not every or self.tally.episodes < self._tests_at + every:
            return
        self._tests_at = self.tally.episodes
        actor = self._expert or acting.controllers[acting.header.controller]
        seed = derive_seed(self.config.seed, "test", self.tally.episodes)
        with evaluation_mode(actor, seed):
            test_env = make_environment(self.config, 1)
            try:
                _, total, length = next(whole_episodes(actor, test_env, seed, deterministic=True))
            finally:
                test_env.close()
        self.tally.test = {"test_return": total, "test_length": float(length)}

    def _report(self) -> None:
        now = time.monotonic()
        elapsed = now - self._reported
        if elapsed < REPORT_SECONDS:
            return
        tally, status = self.tally, self.session.status
        self._tell_connection(status.link)
        numbers: dict[str, float | str] = {
            # First: the collector has a `steps_per_second` too, of one step without any waiting.
            **{name: value for name, value in (tally.last | tally.test).items() if np.isfinite(value)},
            "steps": float(tally.steps),
            "episodes": float(tally.episodes),
            "steps_per_second": (tally.steps - self._reported_steps) / elapsed,
            "idle_share": min((tally.waited - self._reported_waiting) / elapsed, 1.0),
            "version": float(self._acting.version if self._acting else -1),
            "version_lag": float(self._lag()),
            "overdue_steps": float(tally.overdue),
            "spool_bytes": float(status.waiting_bytes),
            "pause": (status.pause or self._away)[:LONGEST_PAUSE],
        }
        if status.link.round_trip is not None:
            numbers["round_trip"] = status.link.round_trip
        self.session.report(numbers)
        self._reported, self._reported_steps, self._reported_waiting = now, tally.steps, tally.waited

    def _keep(self, new: Acting) -> None:
        every = self.options.history_every
        if self._history is None or not every or self.tally.swaps % every:
            return
        actor = new.controllers[new.header.controller]
        actor.save(self._history / f"version-{new.version:020d}", self.config.environment.to_dict())

    def _make_controllers(self) -> ControllerManager:
        return make_controllers(self.config, self.spec, torch.device("cpu"))[1]
