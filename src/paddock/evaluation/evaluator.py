"""Evaluating a policy: separate environments, fixed seeds, frozen parameters, and nothing of it leaks into training."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from gymnasium.vector import VectorEnv
from pydantic import Field

from paddock.config.schema import Part, Schema
from paddock.environments.base import SingleCopyError
from paddock.render.video import write_video
from paddock.rollout.actor import ActorModule
from paddock.rollout.episodes import MakeEnv, episode_frames, evaluation_mode, whole_episodes

MAX_COPIES = 64


class EvaluationConfig(Schema):
    """How policies are evaluated during training."""

    episodes: int = Field(default=20, ge=1)
    seed: int = Field(default=1_000, ge=0)
    deterministic: bool = True
    stochastic: bool = False
    video: bool = False
    beside: bool = False
    metric: str = "eval/return"
    records: dict[str, Literal["high", "low"]] = Field(default_factory=dict)
    evaluator: Part | None = None
    probes: dict[str, Part] = Field(default_factory=dict)


class EvaluationResult(Protocol):
    """What an evaluation found: numbers to log, rows for people by column, and every single result."""

    def metrics(self, prefix: str = "eval/") -> dict[str, float]: ...

    def table(self) -> list[dict[str, str]]: ...

    def details(self) -> dict[str, Any]: ...


class Evaluator(Protocol):
    """Measures a policy: over whole episodes (`evaluate`), unless `evaluation.evaluator` names another one."""

    def __call__(
        self, actor: ActorModule, make_env: MakeEnv, *, episodes: int, seed: int, deterministic: bool
    ) -> EvaluationResult: ...


class Probe(Protocol):
    """A further look at what acts, chosen by `evaluation.probes`: metrics to log beside the result's."""

    def __call__(self, actor: ActorModule, make_env: MakeEnv, *, seed: int) -> dict[str, float]: ...


@dataclass(frozen=True)
class Evaluation:
    """Returns and lengths of each episode, in the order of their seeds."""

    returns: np.ndarray
    lengths: np.ndarray

    def metrics(self, prefix: str = "eval/") -> dict[str, float]:
        return {
            f"{prefix}return": float(self.returns.mean()),
            f"{prefix}return_std": float(self.returns.std()),
            f"{prefix}return_min": float(self.returns.min()),
            f"{prefix}return_max": float(self.returns.max()),
            f"{prefix}length": float(self.lengths.mean()),
        }

    def table(self) -> list[dict[str, str]]:
        return [{"metric": name, "value": f"{value:.2f}"} for name, value in self.metrics().items()]

    def details(self) -> dict[str, Any]:
        return {"returns": self.returns.tolist()}


def evaluate(actor: ActorModule, make_env: MakeEnv, *, episodes: int, seed: int, deterministic: bool) -> Evaluation:
    """Run whole episodes. Every copy does its own share, so that short episodes are not counted more often."""
    env = _make_copies(make_env, min(episodes, MAX_COPIES))
    copies = env.num_envs
    share = np.full(copies, episodes // copies) + (np.arange(copies) < episodes % copies)
    returns: list[list[float]] = [[] for _ in range(copies)]
    lengths: list[list[int]] = [[] for _ in range(copies)]
    try:
        with evaluation_mode(actor, seed):
            for copy, total, length in whole_episodes(actor, env, seed, deterministic):
                if len(returns[copy]) < share[copy]:
                    returns[copy].append(total)
                    lengths[copy].append(length)
                if all(len(done) >= wanted for done, wanted in zip(returns, share, strict=True)):
                    break
    finally:
        env.close()
    return Evaluation(np.concatenate(returns), np.concatenate(lengths))


def _make_copies(make_env: MakeEnv, count: int) -> VectorEnv:
    """So many copies, or the one of a world that is there once: its episodes follow each other."""
    try:
        return make_env(count, None)
    except SingleCopyError:
        return make_env(1, None)


def record_video(actor: ActorModule, make_env: MakeEnv, file: Path, *, seed: int, deterministic: bool = True) -> int:
    """One episode as an mp4; returns the number of frames."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # Frames are drawn in memory; no screen is asked for.
    env = make_env(1, "rgb_array")
    try:
        with evaluation_mode(actor, seed):
            rate = float(env.metadata.get("render_fps", 30))
            return write_video(file, episode_frames(actor, env, seed, deterministic), frames_per_second=rate)
    finally:
        env.close()
