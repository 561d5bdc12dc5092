"""Learning from a person's corrections while a policy drives (intervention-weighted regression, arXiv:2012.06733).

Half of a batch are steps in which the person had the controls, half are steps that the policy drove without being
corrected: without those it would forget what it did well. The losses are those of cloning.
"""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from paddock.buffers.action_chunks import ActionChunkBuffer, ActionChunkConfig
from paddock.buffers.episodes import Episode
from paddock.components.actions import to_vector
from paddock.components.controllers.chunk_policy import ChunkPolicy, committed_prefix
from paddock.components.optimizers.adam import Adam, AdamConfig
from paddock.core.specs import Spec
from paddock.workflows.imitation import mean_over

BATCH = 128
CAPACITY = 50_000  # rows of each kind
LEARNING_RATE = 3e-4


@dataclass(frozen=True)
class Learned:
    """What a round of learning came to. error: mean squared, of normalised actions of the corrections."""

    updates: int
    error_before: float
    error_after: float


class CorrectionLearner:
    """Learns with a copy of the policy; `weights` are handed over when a round is over."""

    def __init__(self, policy: ChunkPolicy, spec: Spec) -> None:
        self.policy = copy.deepcopy(policy).train()
        self.policy.requires_grad_(True)
        self._spec = spec
        config = AdamConfig(
            _target_="paddock.components.optimizers.adam.Adam",
            components=["policy"],
            learning_rate=LEARNING_RATE,
            max_gradient_norm=10.0,
        )
        self._optimizer = Adam(config, {"policy": self.policy})
        self._corrections, self._own = (self._buffer() for _ in range(2))

    def add_correction(self, episode: Episode) -> None:
        """A stretch that the person drove."""
        self._corrections.add_episode(episode)

    def add_own(self, episode: Episode) -> None:
        """A stretch that the policy drove and that was not corrected."""
        self._own.add_episode(episode)

    def learn(self, updates: int, seconds: float) -> Learned:
        """So many gradient steps, or as many as fit into the time."""
        before, done, began = self.error(), 0, time.monotonic()
        while done < updates and time.monotonic() - began < seconds:
            self._optimizer.descend(self._loss(self._corrections.sample(BATCH)) + self._own_loss())
            done += 1
        return Learned(done, before, self.error())

    def weights(self) -> dict[str, Tensor]:
        """A copy of all that the policy holds."""
        return {name: value.detach().clone() for name, value in self.policy.state_dict().items()}

    @torch.no_grad()
    def error(self) -> float:
        """How far the policy's first actions are from the person's, over a sample of the corrections."""
        batch = self._corrections.sample(BATCH)
        condition, actions, counted = self._prepare(batch)
        given, count = torch.zeros_like(actions), torch.zeros(len(actions), dtype=torch.long)
        chunk = self.policy.action_range(self.policy.plan(condition, given, count, deterministic=True))
        return float(mean_over((chunk - actions).square(), counted))

    def _own_loss(self) -> Tensor:
        if not self._own.can_sample():
            return torch.zeros(())
        return self._loss(self._own.sample(BATCH))

    def _loss(self, batch: dict[str, Any]) -> Tensor:
        condition, actions, counted = self._prepare(batch)
        committed = committed_prefix(actions, torch.randint(self.policy.config.prefix + 1, (len(actions),)))
        lesson = self.policy.generator.lesson(actions)
        predicted = self.policy.predict(lesson.inputs, lesson.time, condition, committed)
        return mean_over((predicted - lesson.target).square(), counted & ~committed.mask.squeeze(-1))

    def _prepare(self, batch: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
        condition = self.policy.condition(batch["observation"])
        return condition, self.policy.action_range(to_vector(batch["action"], self._spec.action)), ~batch["is_padding"]

    def _buffer(self) -> ActionChunkBuffer:
        config = ActionChunkConfig(
            _target_="paddock.buffers.action_chunks.ActionChunkBuffer",
            batch_size=BATCH,
            history=self.policy.config.history,
            horizon=self.policy.config.horizon,
            capacity=CAPACITY,
        )
        return ActionChunkBuffer(config, self._spec, 1)
