"""A policy of Paddock as an `ActorModule` class: for TMRL's workers, for competitions, for any loop of that shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from paddock.core.tuples import as_parts, order_of
from paddock.rollout.actor import ActorModule as Policy
from paddock.rollout.actor import ActorState, load_policy
from paddock.tmrl.layouts import Layout
from paddock.tmrl.policies import read_policy, write_policy
from paddock.tmrl.shapes import ActorModule

TMRL_ORDER = ("speed", "gear", "rpm", "progress", "images", "rays", "last_actions")


def actor_class(folder: str | Path, *, order: list[str] | None = None, trusts: bool = False) -> type[ActorModule]:
    """A class that acts with the policy in `folder`.

    order: of the parts in the tuples that it gets; by default TMRL's, for parts that TMRL has.
    """
    source = Path(folder)
    chosen = list(order) if order is not None else None

    class PaddockActor(HandedOutActor):
        def __init__(self, observation_space: Any = None, action_space: Any = None) -> None:
            super().__init__(load_policy(source, trusts=trusts), chosen, observation_space, action_space)

    return PaddockActor


class HandedOutActor(ActorModule):
    """Tuples in, actions in the environment's units out. A policy with a memory remembers from call to call; `reset`
    begins a new episode."""

    def __init__(
        self, policy: Policy, order: list[str] | None = None, observation_space: Any = None, action_space: Any = None
    ) -> None:
        super().__init__(observation_space, action_space)
        self.policy = policy
        self.order = order_of(policy.spec, order if order is not None else _usual_order(policy))
        self.state: ActorState = None

    def act(self, obs: Any, test: bool = False) -> np.ndarray:
        parts = as_parts(obs, self.policy.spec, self.order)
        with torch.inference_mode():
            action, self.state = self.policy.predict(parts, self.state, deterministic=test)
        return action

    def reset(self) -> None:
        """Forget the episode."""
        self.state = None

    def save(self, path: str) -> None:
        """Write the policy as a `.tmod`."""
        write_policy(self.policy, Path(path))

    def load(self, path: str, device: str) -> HandedOutActor:
        """Take the policy of a `.tmod`, or of a folder that Paddock saved."""
        given = Path(path)
        self.policy = load_policy(given) if given.is_dir() else read_policy(given, _layout_of(self.policy))[0]
        self.reset()
        return self.to_device(device)

    def to_device(self, device: str) -> HandedOutActor:
        self.policy.to(device)
        return self


def _usual_order(policy: Policy) -> list[str] | None:
    known = [name for name in TMRL_ORDER if name in policy.spec.observation]
    return known if len(known) == len(policy.spec.observation) else None


def _layout_of(policy: Policy) -> Layout | None:
    """What a policy over TMRL's parts reads; None for any other."""
    parts, actions = policy.spec.observation, policy.spec.action.size
    kind = "full" if "images" in parts else "lidar_progress" if "progress" in parts else "lidar"
    picture = parts.get("images") or parts.get("rays")
    if picture is None:
        return None
    image = (picture.shape[1], picture.shape[2]) if kind == "full" else (64, 64)
    buffer = parts.get("last_actions")
    return Layout(kind, picture.shape[0], buffer.size // actions if buffer else 0, image, actions)
