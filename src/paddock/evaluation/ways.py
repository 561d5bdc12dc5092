"""Evaluating where there are several ways to a goal: how often a policy arrives, and how many of the ways it takes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pydantic import Field

from paddock.config.schema import TargetSchema
from paddock.core.errors import InputError
from paddock.environments import calls
from paddock.rollout.actor import ActorModule
from paddock.rollout.episodes import MakeEnv, evaluation_mode

SUCCESS, WAY = "success", "way"


class WaysEvaluatorConfig(TargetSchema):
    """ways: how many there are."""

    ways: int = Field(ge=2)


@dataclass(frozen=True)
class Ways:
    """Of each episode, in the order of its start: whether it arrived, by which way, and its length. count: ways."""

    successes: np.ndarray
    ways: np.ndarray
    lengths: np.ndarray
    count: int

    def metrics(self, prefix: str = "eval/") -> dict[str, float]:
        shares = self.shares()
        return {
            f"{prefix}success": float(self.successes.mean()),
            f"{prefix}return": float(self.successes.mean()),
            f"{prefix}way_entropy": entropy(shares),
            f"{prefix}largest_way_share": float(shares.max()),
            f"{prefix}length": float(self.lengths.mean()),
        }

    def shares(self) -> np.ndarray:
        """[count]: of the episodes that arrived, the share that each way has."""
        taken = np.bincount(self.ways[self.successes], minlength=self.count)
        return taken / max(taken.sum(), 1)

    def table(self) -> list[dict[str, str]]:
        return [{"metric": name, "value": f"{value:.3f}"} for name, value in self.metrics().items()]

    def details(self) -> dict[str, Any]:
        return {"successes": self.successes.tolist(), "ways": self.ways.tolist()}


class WaysEvaluator:
    """One episode from each start, on an environment whose `final_info` has `success` and `way`."""

    def __init__(self, config: WaysEvaluatorConfig) -> None:
        self.config = config

    def __call__(self, actor: ActorModule, make_env: MakeEnv, *, episodes: int, seed: int, deterministic: bool) -> Ways:
        env = make_env(episodes, None)
        ended = np.zeros(episodes, bool)
        found = {name: np.zeros(episodes, np.int64) for name in (SUCCESS, WAY, "length")}
        try:
            with evaluation_mode(actor, seed):
                observation, _ = calls.reset(env, seed=seed)
                state, step = actor.initial_state(episodes), 0
                while not ended.all():
                    parts = calls.as_dict(observation).items()
                    seen = {name: torch.as_tensor(np.asarray(part), device=actor.device) for name, part in parts}
                    action, state = actor.act(seen, state, deterministic=deterministic)
                    observation, _, terminated, truncated, info = calls.step(env, actor.to_environment(action))
                    step += 1
                    done = terminated | truncated
                    rows = np.flatnonzero(done & ~ended)
                    if len(rows):
                        self._note(found, info, rows, step)
                    ended |= done
                    if state is not None and done.any():
                        state = actor.forget(state, done)
        finally:
            env.close()
        return Ways(found[SUCCESS].astype(bool), found[WAY], found["length"], self.config.ways)

    def _note(self, found: dict[str, np.ndarray], info: dict[str, Any], rows: np.ndarray, step: int) -> None:
        final = info.get("final_info", {})
        if SUCCESS not in final or WAY not in final:
            raise InputError("this environment does not tell ways apart: its final_info has no 'success' and 'way'.")
        found["length"][rows] = step
        for name in (SUCCESS, WAY):
            found[name][rows] = final[name][rows]


def entropy(shares: np.ndarray) -> float:
    """Of shares [K] that sum to 1, in units of the largest possible: 0 for one way, 1 for all alike."""
    taken = shares[shares > 0]
    return float(-(taken * np.log(taken)).sum() / math.log(len(shares))) + 0.0
