"""What the algorithms share that clone a policy over chunks of actions: batches, ranges, the schedule, validation.

Shapes: B samples, H observations, T actions of a chunk, A numbers of an action.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from paddock.components.actions import to_vector, vector_size
from paddock.components.controllers.chunk_policy import ChunkPolicy, committed_prefix
from paddock.components.exponential_average import ExponentialAverage
from paddock.components.generators.protocol import Committed
from paddock.components.learning import is_frozen
from paddock.config.schema import Schema, TargetSchema
from paddock.core.errors import InputError
from paddock.core.seeding import forked_random
from paddock.workflows.base import Metrics, Phase, Workflow, without_batch
from paddock.workflows.context import WorkflowContext

VALIDATION_SAMPLES = 512
VALIDATION_SEED = 0


class AverageConfig(Schema):
    """The decay of the average of the weights: 1 - (1 + updates)^-power, at most `most`."""

    power: float = Field(default=0.75, gt=0)
    most: float = Field(default=0.9999, gt=0, lt=1)


class ImitationConfig(TargetSchema):
    """updates: planned gradient steps, over which the learning rate falls as a cosine after `warmup_updates` in which
    it rises; null keeps it. average: of the component `average_policy`, where there is one."""

    updates: int | None = Field(default=None, ge=1)
    warmup_updates: int = Field(default=500, ge=0)
    average: AverageConfig = AverageConfig()


class ImitationWorkflow(Workflow):
    """Needs component `policy` (a `ChunkPolicy`), optimizer `policy` and a buffer of chunks. A component
    `average_policy`, where there is one, follows the policy and acts in its place."""

    config: ImitationConfig

    def initialize(self, context: WorkflowContext) -> None:
        super().initialize(context)
        self.policy: ChunkPolicy = context.components["policy"]
        self.optimizer = context.optimizers["policy"]
        self.average: ExponentialAverage | None = None
        if "average_policy" in context.components:
            settings = self.config.average
            self.average = ExponentialAverage(
                context.components["average_policy"], self.policy, power=settings.power, most=settings.most
            )

    def update(self, batch: dict[str, Any], *, phase: Phase) -> Metrics:
        """One gradient step of the policy, and of the average that follows it."""
        if is_frozen(self.policy):
            return {}
        assert phase.buffer is not None
        self._fit_once(phase.buffer)
        updates = self.context.counters.updates
        self.optimizer.set_learning_rate_fraction(
            learning_rate_fraction(updates, self.config.warmup_updates, self.config.updates)
        )
        loss, metrics = self.loss(*self.prepare(batch))
        norm = self.optimizer.descend(loss)
        metrics = {**metrics, "train/gradient_norm": norm, "train/learning_rate": self.optimizer.learning_rate}
        if self.average is not None:
            metrics["train/average_decay"] = self.average.update(updates)
        return metrics

    def loss(self, condition: Tensor, actions: Tensor, committed: Committed, counted: Tensor) -> tuple[Tensor, Metrics]:
        """The loss [] of a batch, and metrics: see `prepare` for the arguments."""
        raise NotImplementedError

    @without_batch
    def validate(self, *, phase: Phase) -> Metrics:
        """How far chunks of the policy that acts are from those of episodes that are never learned from: a number to
        look at. Policies are chosen by driving."""
        assert phase.buffer is not None
        buffer: Any = self.context.buffers[phase.buffer]
        with forked_random(VALIDATION_SEED), torch.no_grad():
            batch = buffer.sample_validation(VALIDATION_SAMPLES)
            if batch is None or not bool(self.policy.is_fitted):
                return {}
            policy: ChunkPolicy = self.context.components["policy" if self.average is None else "average_policy"]
            was_training = policy.training
            policy.eval()
            condition, actions, _, counted = self.prepare(batch)
            given, count = torch.zeros_like(actions), torch.zeros(len(actions), dtype=torch.long, device=actions.device)
            chunk = policy.action_range(policy.plan(condition, given, count, deterministic=False))
            policy.train(was_training)
        return {"train/validation_action_error": mean_over(chunk.sub(actions).square(), counted)}

    def prepare(self, batch: dict[str, Any]) -> tuple[Tensor, Tensor, Committed, Tensor]:
        """Features [B, H, F], normalised actions [B, T, A], those of them that are given, and a mask [B, T] of those
        that count in the loss: neither padding nor given."""
        device, action = self.context.device, self.context.spec.action
        condition = self.policy.condition({name: part.to(device) for name, part in batch["observation"].items()})
        actions = self.policy.action_range(to_vector(batch["action"].to(device), action))
        count = torch.randint(self.policy.config.prefix + 1, (len(actions),)).to(device)
        committed = committed_prefix(actions, count)
        counted = ~batch["is_padding"].to(device) & ~committed.mask.squeeze(-1)
        return condition, actions, committed, counted

    def _fit_once(self, buffer: str) -> None:
        """The ranges of observations and actions are those of the data that the first update sees, and stay: weights
        that were learned with other ranges would mean something else."""
        if bool(self.policy.is_fitted):
            return
        source: Any = self.context.buffers[buffer]
        if not hasattr(source, "spans"):
            raise InputError(f"the buffer '{buffer}' holds no chunks; use paddock.buffers.action_chunks.")
        observation, action = source.spans()
        if self.policy.config.scaling == "standard":
            observation = source.deviations()
        spec = self.context.spec.action
        if spec.choices is not None:  # A choice is one of A numbers that is 1.
            action = (torch.zeros(vector_size(spec)), torch.ones(vector_size(spec)))
        self.policy.fit(observation, tuple(one.reshape(-1) for one in action))
        if self.average is not None:
            self.average.copy()


def learning_rate_fraction(update: int, warmup: int, planned: int | None) -> float:
    """Of the configured learning rate: rising over `warmup` updates, then half a cosine down to 0 at `planned`."""
    if update < warmup:
        return (update + 1) / warmup
    if planned is None:
        return 1.0
    progress = min((update - warmup) / max(planned - warmup, 1), 1.0)
    return 0.5 * (1 + math.cos(math.pi * progress))


def mean_over(values: Tensor, counted: Tensor) -> Tensor:
    """[]: the mean of values [B, T, A] over the steps that `counted` [B, T] marks."""
    weights = counted.unsqueeze(-1).to(values)
    return (values * weights).sum() / (weights.sum() * values.shape[-1]).clamp(min=1)
