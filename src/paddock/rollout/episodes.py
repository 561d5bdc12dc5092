"""Whole episodes of an actor, one after another or frame by frame, with random numbers and modes of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import nn

from paddock.core.seeding import derive_seed, forked_random
from paddock.environments import calls
from paddock.environments.calls import as_dict
from paddock.rollout.actor import ActorModule

MakeEnv = Callable[[int, str | None], VectorEnv]


@contextmanager
def evaluation_mode(actor: nn.Module, seed: int, purpose: str = "evaluation") -> Iterator[None]:
    """Eval mode and random numbers of its own for the actor; training's are restored afterwards."""
    modes = [(part, part.training) for part in actor.modules()]
    actor.eval()
    try:
        with forked_random(derive_seed(seed, purpose)), torch.inference_mode():
            yield
    finally:
        for part, was_training in modes:
            part.training = was_training


def whole_episodes(
    actor: ActorModule, env: VectorEnv, seed: int, deterministic: bool
) -> Iterator[tuple[int, float, int]]:
    """(copy, return, length) of each episode as it ends, for ever."""
    resets_next_step = env.metadata.get("autoreset_mode") == AutoresetMode.NEXT_STEP
    copies = env.num_envs
    observation, _ = calls.reset(env, seed=seed)
    actor.watch(env)
    state = actor.initial_state(copies)
    fresh = np.zeros(copies, bool)
    total, length = np.zeros(copies), np.zeros(copies, np.int64)
    while True:
        tensors = _seen_by(actor, observation)
        action, state = actor.act(tensors, state, deterministic=deterministic)
        observation, reward, terminated, truncated, _ = calls.step(env, actor.to_environment(action))
        total += reward
        length += ~fresh
        done = terminated | truncated
        begins = done | fresh
        fresh = done if resets_next_step else fresh
        for copy in np.flatnonzero(done):
            yield int(copy), float(total[copy]), int(length[copy])
        total[done] = 0
        length[done] = 0
        if state is not None and begins.any():
            state = actor.forget(state, begins)


def episode_frames(actor: ActorModule, env: VectorEnv, seed: int, deterministic: bool) -> Iterator[np.ndarray]:
    """The pictures of one episode, each drawn when it is asked for."""
    observation, _ = calls.reset(env, seed=seed)
    actor.watch(env)
    state = actor.initial_state(1)
    done = False
    while not done:
        yield _frame(env)
        tensors = _seen_by(actor, observation)
        action, state = actor.act(tensors, state, deterministic=deterministic)
        observation, _, terminated, truncated, _ = calls.step(env, actor.to_environment(action))
        done = bool(terminated[0] or truncated[0])


def _seen_by(actor: ActorModule, observation: Any) -> dict[str, torch.Tensor]:
    return {name: torch.as_tensor(np.asarray(part), device=actor.device) for name, part in as_dict(observation).items()}


def _frame(env: VectorEnv) -> np.ndarray:
    frames = env.render()
    assert frames is not None, "the environment draws no frames"
    return np.asarray(frames[0])
