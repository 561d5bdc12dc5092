"""What a dream is made of: the world model of a run, and the latents that dreams begin with.

Shapes: K starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from paddock.core.errors import InputError
from paddock.core.seeding import derive_seed
from paddock.core.specs import Spec
from paddock.environments import calls
from paddock.environments.calls import as_dict
from paddock.evaluation.subject import Subject
from paddock.orchestration.subject import find_subject
from paddock.rollout.actor import ActorModule
from paddock.rollout.episodes import MakeEnv, evaluation_mode

Latent = dict[str, Tensor]
FROM_A_RUN = "for example paddock.dream.env.DreamVectorEnv(8, run='runs/NAME')"


@dataclass(frozen=True)
class DreamSource:
    """A world model (components/dynamics/protocol.py), the spaces of the environment that it stands for, latents
    [K, ...] to begin with, and what was seen there: parts [K, ...]."""

    model: Any
    spec: Spec
    starts: Latent
    seen: Mapping[str, np.ndarray]

    @property
    def size(self) -> int:
        """K."""
        return len(next(iter(self.starts.values())))


def find_dream(
    given: str, runs_dir: Path, *, starts: int, context: int, seed: int, which: str = "best", trusts: bool = False
) -> tuple[DreamSource, Subject]:
    """The dream of a run (its folder or name) or of a policy's folder, and the policy itself."""
    subject = find_subject(given, runs_dir, which=which, trusts=trusts, is_for_laps=True)
    return source_of(subject.actor, subject.make_env, starts=starts, context=context, seed=seed), subject


def source_of(actor: ActorModule, make_env: MakeEnv, *, starts: int, context: int, seed: int) -> DreamSource:
    """The dream of an actor with a world model; begins are latents that `context` real observations led to."""
    model = model_of(actor)
    env = make_env(starts, None)
    try:
        with evaluation_mode(actor, seed, "dream"):
            observation, _ = calls.reset(env, seed=derive_seed(seed, "dream"))
            state = actor.initial_state(starts)
            for step in range(context):
                seen = {name: torch.as_tensor(np.array(part)) for name, part in as_dict(observation).items()}
                action, state = actor.act(seen, state, deterministic=True)
                if step + 1 < context:
                    observation, _, terminated, truncated, _ = calls.step(env, actor.to_environment(action))
                    if state is not None:
                        state = actor.forget(state, np.asarray(terminated | truncated))
    finally:
        env.close()
    assert state is not None, "an actor with a world model remembers"
    begun = {name: state[name].detach().clone() for name in model.initial(1)}
    return DreamSource(model, actor.spec, begun, {name: part.numpy() for name, part in seen.items()})


def model_of(actor: ActorModule) -> Any:
    """The actor's world model."""
    model = getattr(actor, "world_model", None)
    if model is None or not hasattr(model, "imagine_step"):
        raise InputError(
            f"{type(actor).__name__} has no world model, so there is no dream to drive in. Take a run of a workflow "
            "that learns one: world_models, dreamer, planet, latent_actor or tdmpc."
        )
    return model
