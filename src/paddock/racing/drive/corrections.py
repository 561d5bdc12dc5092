"""Corrections of a driving session: a person takes over from a policy and gives it back, and the policy learns.

Learning happens in a thread beside the session, with a copy of the policy; new weights are taken over between two
ticks.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from paddock.buffers.episodes import Episode
from paddock.control.messages import CorrectionStatus
from paddock.core.specs import Spec

UPDATES, SECONDS = 300, 10.0  # of a round of learning, at most
MISTAKE = 1.0  # s before a correction that the policy does not learn to repeat
POLICY = "corrected"  # folder of the policy that has learned from corrections


class Corrections:
    """What was corrected and what was learned from it. Its methods belong to the session's thread."""

    def __init__(self, actor: Any, spec: Spec, folder: Path, environment: dict[str, Any], time_step: float) -> None:
        from paddock.workflows.corrections import CorrectionLearner  # torch, only where a policy drives

        self._actor, self._learner = actor, CorrectionLearner(actor.policy, spec)
        self._folder, self._environment = folder / "policy" / POLICY, environment
        self._mistake = round(MISTAKE / time_step)
        self._status = CorrectionStatus(stretches=0, steps=0)
        self._waiting: list[Episode] = []
        self._own: list[Episode] = []
        self._thread: threading.Thread | None = None
        self._learned: Any = None

    @property
    def status(self) -> CorrectionStatus:
        return self._status

    def add(self, episode: Episode) -> None:
        """A stretch that the person drove: the policy learns from it as soon as it can."""
        self._waiting.append(episode)
        self._status = self._changed(
            stretches=self._status.stretches + 1, steps=self._status.steps + len(episode), is_learning=True
        )
        self.follow()

    def add_own(self, episode: Episode, *, was_corrected: bool) -> None:
        """A stretch that the policy drove; the moment before a correction is left out."""
        length = len(episode) - (self._mistake if was_corrected else 0)
        if length > 0:
            self._own.append(episode.part(0, length))

    def follow(self) -> bool:
        """Take over what was learned meanwhile, and begin to learn from what waits; whether weights have changed."""
        if self._thread is not None and self._thread.is_alive():
            return False
        has_changed = self._thread is not None
        if has_changed:
            self._adopt()
        if self._waiting:
            self._begin()
        return has_changed

    def finish(self) -> None:
        """The session ends: wait for what is being learned, and keep it."""
        while self._thread is not None or self._waiting:
            if self._thread is not None:
                self._thread.join()
            self.follow()

    def _begin(self) -> None:
        for episode in self._waiting:
            self._learner.add_correction(episode)
        for episode in self._own:
            self._learner.add_own(episode)
        self._waiting, self._own = [], []
        self._thread = threading.Thread(target=self._learn, name="corrections", daemon=True)
        self._thread.start()

    def _learn(self) -> None:
        self._learned = self._learner.learn(UPDATES, SECONDS)

    def _adopt(self) -> None:
        self._thread, learned = None, self._learned
        self._actor.policy.load_state_dict(self._learner.weights())
        self._actor.save(self._folder, self._environment)
        self._status = self._changed(
            is_learning=bool(self._waiting),
            updates=self._status.updates + learned.updates,
            error_before=learned.error_before,
            error_after=learned.error_after,
        )

    def _changed(self, **values: Any) -> CorrectionStatus:
        """The status is replaced at once: another thread reads it."""
        now = {name: getattr(self._status, name) for name in CorrectionStatus.__struct_fields__}
        return CorrectionStatus(**{**now, **values})
