"""TD-MPC (arXiv:2203.04955) and TD-MPC2 (arXiv:2310.16828): a latent model, a value and a policy learned together from
short windows of replay, and a planner that acts with all three. One file for both; presets choose between them.

Shapes, time first: H steps of a window of H + 1 rows, B windows, N = H * B, L numbers of a latent, A of an action's
vector, C critics.
Symbols: z latents, rho the weight of a later step, Q action values, S their scale, pi the policy.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from paddock.components.actions import Categorical, to_vector
from paddock.components.compiling import Compiling
from paddock.components.controllers.latent_critics import Reduce
from paddock.components.learning import TargetNetwork, is_frozen
from paddock.components.optimizers.optimizer import Gradients
from paddock.components.return_computers.bootstrap import importance_weights
from paddock.config.schema import Schema, Switch, TargetSchema
from paddock.core.errors import InputError
from paddock.rollout.model_actors import ScheduledPlanningActor
from paddock.rollout.result import CollectResult
from paddock.workflows.base import Metrics, Phase, Workflow
from paddock.workflows.context import WorkflowContext
from paddock.workflows.world_model_update import Losses, Sample, prepare_batch, weighted_sum


class TDMPCScales(Schema):
    """What each loss counts."""

    consistency: float = Field(ge=0)
    reward: float = Field(ge=0)
    value: float = Field(ge=0)
    continue_: float = Field(ge=0, alias="continue")
    policy: float = Field(default=1.0, ge=0)


class PlanScheduleConfig(Schema):
    """From the first to the second number within `steps` agent steps, linearly: how far plans look, and their least
    spread."""

    horizon: tuple[int, int]
    min_std: tuple[float, float]
    steps: int = Field(ge=1)


class TDMPCConfig(TargetSchema):
    """Options of TD-MPC."""

    version: Literal["tdmpc", "tdmpc2"]
    horizon: int = Field(ge=1)
    gamma: float = Field(gt=0, le=1)
    rho: float = Field(gt=0, le=1)
    tau: float = Field(gt=0, le=1)
    target_update_interval: int = Field(ge=1)
    scales: TDMPCScales
    loss_limit: float | None = Field(gt=0)
    policy_value: Reduce
    entropy_coef: float = Field(ge=0)
    entropy: Literal["scaled", "plain"]
    beta: float = Field(ge=0, le=1)
    schedule: PlanScheduleConfig | None
    compile: Switch = "off"


class TDMPC(Workflow):
    """Needs components `world_model` (components/dynamics/told.py), `policy`, `critics`, `target_critics`,
    `value_scale`, and optimizers `world_model` (of model and critics) and `policy`. With `target_world_model` latents
    are pulled to what that one sees. With a prioritized buffer it gives the errors back."""

    config: TDMPCConfig

    def initialize(self, context: WorkflowContext) -> None:
        super().initialize(context)
        parts, config = context.components, self.config
        self.model, self.policy, self.critics = parts["world_model"], parts["policy"], parts["critics"]
        self.target_critics, self.value_scale = parts["target_critics"], parts["value_scale"]
        self.target_model = parts.get("target_world_model")
        pairs = [(self.target_critics, self.critics), (self.target_model, self.model)]
        self.targets = [TargetNetwork(target, source, config.tau) for target, source in pairs if target is not None]
        self.optimizers = context.optimizers
        self.scales = config.scales.model_dump(by_alias=True, exclude={"policy"})
        self.rho = torch.pow(torch.tensor(config.rho), torch.arange(config.horizon + 1)).to(context.device)
        self.compiling = Compiling(config.compile, context.counters)
        self.model_gradients = self.compiling.gradients(self._model_gradients)
        self.policy_gradients = self.compiling.gradients(self._policy_gradients)
        _check_windows(config.horizon, context)

    @property
    def kind(self) -> str:
        return f"{super().kind} ({self.config.version})"

    def get_state(self) -> dict[str, Any]:
        return {"compiling": self.compiling.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        self.compiling.set_state(state.get("compiling", {}))  # Older checkpoints do not say.

    def collect_step(self, step: int, *, phase: Phase) -> CollectResult:
        """Collect with plans as long and as wide as the schedule says."""
        actor, schedule = self.actor(), self.config.schedule
        if schedule is None or not isinstance(actor, ScheduledPlanningActor):
            return super().collect_step(step, phase=phase)
        part = min(self.context.counters.agent_steps / schedule.steps, 1.0)
        horizon, min_std = (low + part * (high - low) for low, high in (schedule.horizon, schedule.min_std))
        actor.horizon.fill_(int(horizon))
        actor.min_std.fill_(min_std)
        result = super().collect_step(step, phase=phase)
        result.metrics.update({"collect/horizon": int(horizon), "collect/min_std": min_std})
        return result

    def update(self, batch: Sample, *, phase: Phase) -> Metrics:
        """One step of model and critics, one of the policy at the latents that the model went through, and the targets
        follow."""
        sample = self._prepare(batch, phase)
        z, metrics = self._step_model(sample, phase)
        return metrics | self._step_policy(z, sample)

    def update_world_model(self, batch: Sample, *, phase: Phase) -> Metrics:
        """One step of model and critics alone."""
        return self._step_model(self._prepare(batch, phase), phase)[1]

    def update_controller(self, batch: Sample, *, phase: Phase) -> Metrics:
        """One step of the policy alone, at the latents of what was seen."""
        sample = self._prepare(batch, phase)
        with torch.no_grad():
            z = self.model.encode_sequence(sample["observation"])
        return self._step_policy(z, sample)

    def _prepare(self, batch: Sample, phase: Phase) -> Sample:
        """[H + 1, B, ...]; `is_step` [H, B] are steps of the episode that the window begins in, `is_open` [H + 1, B]
        its states where something can be done."""
        rows = cut(prepare_batch(batch, self.context.spec.action), self.config.horizon + 1)
        is_step = ~rows["is_first"][1:].cumsum(0).bool()
        reached = torch.cat([torch.ones_like(is_step[:1]), is_step])
        rows |= {"is_step": is_step.float(), "is_open": (reached & ~rows["terminated"]).float()}
        if "probability" in batch:
            buffer: Any = self.context.buffers[phase.buffer or ""]
            weight = importance_weights(batch["probability"], len(buffer), self.config.beta)
            rows |= {"weight": weight, "leaf": batch["leaf"]}
        return rows

    def _step_model(self, sample: Sample, phase: Phase) -> tuple[Tensor, Metrics]:
        """Latents [H + 1, B, L] without a gradient, and metrics; a frozen model is only looked at."""
        count = self.config.horizon * sample["reward"].shape[1]
        noise, pair = self._noise(count), self.critics.draw_pair()
        z, error, metrics, gradients = self.model_gradients(sample, noise, pair)
        if not is_frozen(self.model) or not is_frozen(self.critics):
            loss = metrics["train/model_loss"]
            metrics["train/model_gradient_norm"] = self.optimizers["world_model"].descend(loss, gradients)
        if (self.context.counters.updates + 1) % self.config.target_update_interval == 0:
            for target in self.targets:
                target.update()
        if "leaf" in sample:
            buffer: Any = self.context.buffers[phase.buffer or ""]
            buffer.update_priorities(sample["leaf"], error)
        return z, metrics

    def _step_policy(self, z: Tensor, sample: Sample) -> Metrics:
        if is_frozen(self.policy):
            return {}
        noise, pair = self._noise(z.shape[0] * z.shape[1]), self.critics.draw_pair()
        metrics, gradients = self.policy_gradients(z, sample["is_open"], noise, pair)
        norm = self.optimizers["policy"].descend(metrics["train/policy_loss"], gradients)
        return {**metrics, "train/policy_gradient_norm": norm}

    def _noise(self, count: int) -> Tensor:
        """Standard normal [count, A], drawn out here, so that a compiled update draws the same numbers as a plain one;
        uniform where actions are choices."""
        action = self.context.spec.action
        if action.choices is not None:
            return torch.rand(count, action.choices, device=self.context.device)
        return torch.randn(count, action.size, device=self.context.device)

    def _model_gradients(
        self, sample: Sample, noise: Tensor, pair: Tensor | None
    ) -> tuple[Tensor, Tensor, Metrics, Gradients]:
        """Eq. 3 and 4, arXiv:2310.16828; Eq. 7 to 10, arXiv:2203.04955."""
        config, model, seen = self.config, self.model, sample["observation"]
        first, following = ({name: part[rows] for name, part in seen.items()} for rows in (ONE, LATER))

        # Targets: of the next observations as they are encoded, not as they are imagined
        with torch.no_grad():
            next_z = model.encode_sequence(following, augments=True)
            goal = next_z if self.target_model is None else self.target_model.encode_sequence(following, augments=True)
            flat = next_z.flatten(0, 1)
            next_value = self.target_critics.value(flat, self._act(flat, noise), pair, reduce="min")
            target = td_target(sample, next_value.view_as(sample["reward"][1:]), config.gamma, ends=model.config.ends)

        # Rollout: every step's gradient runs back into the encoder
        states = [model.encode_sequence(first, augments=True)[0]]
        for action in sample["action"][:-1]:
            states.append(model.dynamics(torch.cat([states[-1], action], -1)))
        z = torch.stack(states)

        # Losses
        inputs = torch.cat([z[:-1], sample["action"][:-1]], -1).flatten(0, 1)
        outputs = self.critics.members(inputs, drops=True).unflatten(1, target.shape)
        rewards = model.reward(inputs).unflatten(0, target.shape)
        found = {
            "consistency": (z[1:] - goal).square().mean(-1),
            "reward": model.coding.loss(rewards, sample["reward"][1:]),
            "value": self.critics.coding.loss(outputs, target.expand(len(outputs), *target.shape)).mean(0),
            "continue": model.continue_loss(z[1:], sample["terminated"][1:]),
        }
        losses = window_losses(found, sample["is_step"], self.rho, sample.get("weight"), limit=config.loss_limit)
        loss = weighted_sum(losses, self.scales)

        # Errors and metrics
        with torch.no_grad():
            values = self.critics.coding.predict(outputs)
            error = ((values - target).abs().sum(0) * sample["is_step"] * self.rho[:-1, None]).sum(0)
        metrics: Metrics = {f"train/{name}_loss": value.detach() for name, value in losses.items()}
        metrics |= {
            "train/model_loss": loss.detach(),
            "train/value": values.detach().mean(),
            "train/target": target.mean(),
        }
        return z.detach(), error, metrics, self.optimizers["world_model"].differentiate(loss)

    def _policy_gradients(
        self, z: Tensor, is_open: Tensor, noise: Tensor, pair: Tensor | None
    ) -> tuple[Metrics, Gradients]:
        """Eq. 5, arXiv:2310.16828: high values and some entropy, at latents [H + 1, B, L] that carry no gradient."""
        config, flat = self.config, z.flatten(0, 1)
        pi = self.policy(flat)
        if isinstance(pi, Categorical):
            value, entropy = self._expected_value(pi, flat, pair), pi.entropy()
        else:
            action, log_prob = pi.sample_with_log_prob(noise)
            value = self.critics.value(flat, action, pair, reduce=config.policy_value, drops=True)
            entropy = -log_prob * (action.shape[-1] if config.entropy == "scaled" else 1)
        value, entropy = value.view_as(is_open), entropy.view_as(is_open)
        self.value_scale.update(value[0].detach())
        gain = config.entropy_coef * entropy + value / self.value_scale()
        loss = -config.scales.policy * (self.rho[:, None] * is_open * gain).mean()
        metrics = {
            "train/policy_loss": loss.detach(),
            "train/entropy": entropy.detach().mean(),
            "train/value_scale": self.value_scale(),
        }
        return metrics, self.optimizers["policy"].differentiate(loss)

    def _expected_value(self, pi: Categorical, flat: Tensor, pair: Tensor | None) -> Tensor:
        """[N]: the mean value of all choices under the policy, which has a gradient where a drawn choice has none."""
        choices = torch.eye(pi.logits.shape[-1], device=flat.device)
        states = flat.repeat_interleave(len(choices), 0)
        with torch.no_grad():
            values = self.critics.value(
                states, choices.repeat(len(flat), 1), pair, reduce=self.config.policy_value, drops=True
            )
        return (pi.logits.softmax(-1) * values.view(len(flat), -1)).sum(-1)

    def _act(self, flat: Tensor, noise: Tensor) -> Tensor:
        """Action vectors [N, A] that the policy draws at latents [N, L]."""
        pi = self.policy(flat)
        if isinstance(pi, Categorical):  # The Gumbel-max trick, with noise that is uniform.
            chosen = (pi.logits - (-noise.clamp(1e-20).log()).log()).argmax(-1)
            return to_vector(chosen, self.context.spec.action)
        return pi.sample_with_log_prob(noise)[0]


ONE, LATER = slice(0, 1), slice(1, None)


def cut(rows: Sample, count: int) -> Sample:
    """The first `count` rows of windows [T, B, ...]."""
    return {name: cut(part, count) if isinstance(part, dict) else part[:count] for name, part in rows.items()}


def td_target(sample: Sample, next_value: Tensor, gamma: float, *, ends: str) -> Tensor:
    """[H, B]: the reward, and the value [H, B] of what follows, which termination cuts off unless ends are ignored."""
    continues = torch.ones_like(next_value) if ends == "ignore" else sample["continue"][1:]
    return sample["reward"][1:] + gamma * continues * next_value


def window_losses(found: Losses, is_step: Tensor, rho: Tensor, weight: Tensor | None, *, limit: float | None) -> Losses:
    """Each loss [H, B] to one number: rho^t sum over the steps that count [H, B], divided by H, cut at H times the
    `limit`, times importance weights [B], mean over windows. Ends count the same at every step."""
    horizon = len(is_step)
    losses = {}
    for name, loss in found.items():
        steps = loss * is_step if name == "continue" else loss * is_step * rho[:-1, None]
        windows = steps.sum(0) if limit is None else steps.sum(0).clamp(max=limit)
        losses[name] = (windows if weight is None else windows * weight).mean() / horizon
    return losses


def _check_windows(horizon: int, context: WorkflowContext) -> None:
    for name, buffer in context.buffers.items():
        length = getattr(getattr(buffer, "config", None), "length", None)
        if length is not None and length < horizon + 1:
            raise InputError(
                f"workflow.horizon = {horizon} needs windows of {horizon + 1} rows, and buffers.{name}.length is "
                f"{length}; set it to {horizon + 1}."
            )
