"""What a run on a cluster lost on its way: counted as metrics, written as events, kept in checkpoint and manifest."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from paddock.experiments.run import RunFolder

log = logging.getLogger(__name__)

INEXACT = "inexact"  # key of the manifest: sentences about what a repetition of the run would not repeat
MOST_SENTENCES = 20


class Losses:
    """workers: that died and were replaced. steps: of rounds that had to be collected again. episodes: that were
    broken off. told: sentences."""

    def __init__(self, run: Path) -> None:
        self._run = RunFolder(run)
        self.workers = self.steps = self.episodes = 0
        self.told: list[str] = []

    def worker_died(self, name: str, host: str, reason: str, *, episodes: int) -> None:
        """A worker is replaced; the episodes under way in its rows are discontinued."""
        self.workers += 1
        self.episodes += episodes
        self._run.event("worker_replaced", worker=name, host=host, reason=reason, episodes=episodes)
        self._keep(f"{name} died, and {episodes} episodes were discontinued: {reason}")

    def count(self, *, steps: int) -> None:
        """Steps that were asked for and are asked for again."""
        self.steps += steps

    def tell(self, kind: str, sentence: str) -> None:
        """Something else that makes the run inexact."""
        log.warning(sentence)
        self._run.event(kind, reason=sentence)
        self._keep(sentence)

    def metrics(self) -> dict[str, float]:
        return {
            "collect/replaced_workers": float(self.workers),
            "collect/lost_steps": float(self.steps),
            "collect/lost_episodes": float(self.episodes),
        }

    def get_state(self) -> dict[str, Any]:
        return {"workers": self.workers, "steps": self.steps, "episodes": self.episodes, "told": list(self.told)}

    def set_state(self, state: dict[str, Any]) -> None:
        self.workers, self.steps = int(state.get("workers", 0)), int(state.get("steps", 0))
        self.episodes, self.told[:] = int(state.get("episodes", 0)), list(state.get("told", []))

    def _keep(self, sentence: str) -> None:
        self.told[:] = [*self.told, sentence][-MOST_SENTENCES:]
        self._run.write_manifest(**{INEXACT: self.told})
