"""A policy that is to be evaluated, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paddock.evaluation.evaluator import EvaluationResult, Evaluator
from paddock.rollout.actor import ActorModule
from paddock.rollout.episodes import MakeEnv


@dataclass(frozen=True)
class Subject:
    """A policy, its environment and its evaluator. left_out: reward functions of files that laps do without."""

    name: str
    folder: Path
    actor: ActorModule
    make_env: MakeEnv
    evaluator: Evaluator
    left_out: list[str] = field(default_factory=list)

    def known(self, values: Any) -> Any:
        """What was measured, without returns where a part of the reward was left out: they would be another task's."""
        if isinstance(values, Mapping):
            kept = (name for name in values if not (self.left_out and "return" in name))
            return {name: self.known(values[name]) for name in kept}
        return [self.known(value) for value in values] if isinstance(values, list) else values

    def evaluate(self, *, episodes: int, seed: int, deterministic: bool) -> tuple[EvaluationResult, dict[str, Any]]:
        """The result, and the same as plain values: subject, protocol, metrics, every single episode or start."""
        protocol = {"episodes": episodes, "seed": seed, "deterministic": deterministic}
        result = self.evaluator(self.actor, self.make_env, episodes=episodes, seed=seed, deterministic=deterministic)
        found = self.known({**result.metrics(), **result.details()})
        return result, {"subject": self.name, "protocol": protocol, **found}

    @property
    def note(self) -> str:
        """What to say of it, or nothing."""
        names = ", ".join(self.left_out)
        return f"The reward functions of files ({names}) are left out, so there is no return." if names else ""
