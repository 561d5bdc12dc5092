"""Pauses of a run: one that was asked for, and one while its world stays away. Their time is no time of training."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from paddock.environments.calls import EnvironmentAway
from paddock.rollout.result import CollectResult

if TYPE_CHECKING:
    from paddock.orchestration.orchestrator import Orchestrator

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.05


class CollectingBrokenOff(Exception):
    """A request waits for the loop while the world is away."""


class Pauses:
    """While the world is away a collection waits for it. Requests (Ctrl-C, the dashboard) break the collection off, so
    that the loop handles them; it then collects again."""

    def __init__(self, run: Orchestrator, save: Callable[[], object]) -> None:
        self._run, self._save = run, save
        self._since: float | None = None
        if hasattr(run.context.experience, "while_away"):
            run.context.experience.while_away = self.wait

    def on_request(self) -> None:
        """Save and wait until a request lets the run go on or ends it."""
        run, control = self._run, self._run.control
        self._since, by = time.perf_counter(), control.pause_requested_by
        self._save()
        log.warning(
            "paused by %s. Go on: kill -CONT %d. Save and leave: Ctrl-C or kill %d.", by, os.getpid(), os.getpid()
        )
        self._begin(by=by)
        control.wait_while_paused(run.service.handle_requests)
        self._end()

    def collect(self, collect: Callable[[], CollectResult], buffer: Any) -> CollectResult | None:
        """What a collection gives; None where it was broken off."""
        try:
            return collect()
        except CollectingBrokenOff:
            if getattr(buffer, "is_on_policy", False):
                buffer.rows()  # Part of a rollout, which is begun anew.
            return None

    def wait(self, error: EnvironmentAway) -> None:
        """Until the world is back, or a request comes."""
        if self._since is None:
            self._since = time.perf_counter()
            log.warning("paused: %s The run goes on when it is back. Save and leave: Ctrl-C.", error)
            self._begin(by="environment", reason=str(error))
        while not error.is_back():
            if self._run.control.has_requests():
                raise CollectingBrokenOff
            time.sleep(LOOK_SECONDS)
        log.warning("the world is back; the run goes on.")
        self._end()

    def _begin(self, **why: object) -> None:
        run = self._run
        run.is_paused = True
        run.run_folder.write_manifest(status="paused")
        run.run_folder.event("paused", agent_steps=run.counters.agent_steps, **why)

    def _end(self) -> None:
        run = self._run
        assert self._since is not None
        paused, self._since, run.is_paused = time.perf_counter() - self._since, None, False
        run.leave_out(paused)
        run.run_folder.write_manifest(status="running")
        run.run_folder.event("continued", agent_steps=run.counters.agent_steps, paused_seconds=round(paused, 3))
