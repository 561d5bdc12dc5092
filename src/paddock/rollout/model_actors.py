"""Acting with a world model: follow its latent state, then ask a policy, or plan.

Shapes: N environments, F features, A numbers in an action's vector.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn

from paddock.components.actions import from_vector, to_vector, vector_size
from paddock.components.devices import Precision, autocast
from paddock.components.dynamics.imagination import Ends, score_by
from paddock.components.dynamics.protocol import WorldModel
from paddock.components.dynamics.rssm import Latent
from paddock.config.schema import Part, Schema, TargetSchema, instantiate
from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec
from paddock.rollout.actor import ActorModule, ActorState, Observation, pick

LAST_ACTION, PLAN, HELD_ACTION = "last_action", "plan", "impulse"


class EZGreedyConfig(Schema):
    """Temporally extended epsilon-greedy exploration (arXiv:2006.01782): with the chance `epsilon` of a step (or one
    for each number of an action) an action is drawn from its whole range, and held for `duration` steps on average, so
    that the model gets to know what comes of it."""

    epsilon: float | list[float] = 0.0
    duration: float = Field(default=5.0, ge=1)

    @field_validator("epsilon")
    @classmethod
    def _check(cls, epsilon: float | list[float]) -> float | list[float]:
        if not all(0 <= one < 1 for one in np.atleast_1d(epsilon)):
            raise ValueError("epsilon is 0 or more and below 1")
        return epsilon


class ModelActorConfig(TargetSchema):
    """The component that is the world model, and how much is tried out while collecting: the deviation of what is
    added to numbers, or the chance of a random choice; and what is held for longer."""

    world_model: str
    exploration: float = Field(default=0.0, ge=0)
    ez_greedy: EZGreedyConfig = EZGreedyConfig()


class ModelActor(ActorModule):
    """Follows the latent state from what is seen and done; subclasses choose."""

    config: ModelActorConfig
    exploration: Tensor

    def __init__(self, config: ModelActorConfig, parts: Mapping[str, nn.Module], spec: Spec) -> None:
        super().__init__(config, parts, spec)
        self.register_buffer("exploration", torch.tensor(config.exploration))
        self.ez_greedy = EZGreedy(config.ez_greedy, spec.action)

    @property
    def world_model(self) -> WorldModel:
        model: Any = self.parts[self.config.world_model]
        return model

    def initial_state(self, n: int) -> ActorState:
        latent = {name: part.detach() for name, part in self.world_model.initial(n).items()}
        begun = {LAST_ACTION: torch.zeros(n, vector_size(self.spec.action), device=self.device)}
        if self.ez_greedy.are_any:
            begun[HELD_ACTION] = torch.full_like(begun[LAST_ACTION], torch.nan)
        return {**latent, **begun}

    def act(self, observation: Observation, state: ActorState, *, deterministic: bool) -> tuple[Tensor, ActorState]:
        n = next(iter(observation.values())).shape[0]
        before = dict(state or self.initial_state(n) or {})
        # A fresh latent state and no action is how an episode begins, so `is_first` marks nothing here.
        is_first = torch.zeros(n, dtype=torch.bool, device=self.device)
        latent = {name: part for name, part in before.items() if name not in (LAST_ACTION, PLAN, HELD_ACTION)}
        latent = self.world_model.observe(latent, before[LAST_ACTION], observation, is_first)
        vector, memory = self.choose(latent, before, deterministic=deterministic)
        if not deterministic:
            vector = self._varied(vector)
        if HELD_ACTION in before:
            held = before[HELD_ACTION]  # A deterministic actor holds nothing.
            held = torch.full_like(held, torch.nan) if deterministic else self.ez_greedy.step(held)
            vector, memory[HELD_ACTION] = torch.where(held.isnan(), vector, held), held
        return from_vector(vector, self.spec.action), {**latent, LAST_ACTION: vector, **memory}

    def choose(
        self, latent: Latent, state: dict[str, Tensor], *, deterministic: bool
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Action vectors [N, A] for latent states, and what to remember beside them."""
        raise NotImplementedError

    def _varied(self, vector: Tensor) -> Tensor:
        action = self.spec.action
        if action.choices is None:
            return (vector + self.exploration * torch.randn_like(vector)).clamp(-1, 1)
        is_random = torch.rand(len(vector), device=vector.device) < self.exploration
        choice = torch.randint(action.choices, (len(vector),), device=vector.device)
        return torch.where(is_random.unsqueeze(-1), to_vector(choice, action), vector)


class EZGreedy:
    """Numbers of actions that are held for a while whatever the policy would do, [N, A]; NaN where none is."""

    def __init__(self, config: EZGreedyConfig, action: ArraySpec) -> None:
        count = 1 if action.choices is not None else action.size
        epsilons = config.epsilon if isinstance(config.epsilon, list) else [config.epsilon] * count
        if len(epsilons) != count:
            raise InputError(
                f"ez_greedy.epsilon has {len(epsilons)} values, and an action has {count}; give one for each, or one "
                "for all of them."
            )
        self._epsilon, self._ending = torch.tensor(epsilons), 1.0 / config.duration
        self._action = action
        self.are_any = any(epsilons)

    def step(self, held: Tensor) -> Tensor:
        """What is held a step later: some let go, some begin."""
        is_free = held.isnan()
        luck = torch.rand(len(held), len(self._epsilon), device=held.device)
        kept = held.masked_fill(luck < self._ending, torch.nan)
        return torch.where(is_free & (luck < self._epsilon.to(held.device)), self._drawn(held), kept)

    def _drawn(self, held: Tensor) -> Tensor:
        if self._action.choices is None:
            return 2.0 * torch.rand_like(held) - 1.0
        return to_vector(torch.randint(self._action.choices, held.shape[:1], device=held.device), self._action)


class PolicyOverModelConfig(ModelActorConfig):
    """The component that chooses, by name."""

    policy: str


class PolicyOverModel(ModelActor):
    """Asks a policy over the model's features [N, F]; subclasses read its answer."""

    config: PolicyOverModelConfig

    def __init__(self, config: PolicyOverModelConfig, components: Mapping[str, nn.Module], spec: Spec) -> None:
        super().__init__(config, pick(components, config.world_model, config.policy), spec)

    def choose(
        self, latent: Latent, state: dict[str, Tensor], *, deterministic: bool
    ) -> tuple[Tensor, dict[str, Tensor]]:
        answer = self.parts[self.config.policy](self.world_model.features(latent))
        return self.read(answer, deterministic=deterministic), {}

    def read(self, answer: Any, *, deterministic: bool) -> Tensor:
        """The policy's answer as action vectors [N, A]."""
        raise NotImplementedError


class DeterministicActor(PolicyOverModel):
    """The policy's answer is the action."""

    def read(self, answer: Tensor, *, deterministic: bool) -> Tensor:
        return answer


class StochasticActor(PolicyOverModel):
    """The policy's answer is a distribution: a sample of it, or its mode."""

    def read(self, answer: Any, *, deterministic: bool) -> Tensor:
        return to_vector(answer.mode() if deterministic else answer.sample(), self.spec.action)


class PlanningActorConfig(ModelActorConfig):
    """Which planner, and how much later rewards count in its plans. A component `value` tells what follows the horizon;
    a component `policy` gives the actions that it needs for that, and so many `proposals` to every search. With the
    `precision` bfloat16 products of matrices in a search are of half the width: twice as fast where a processor has
    instructions for them. `ends`: rewards count as far as the episode probably continues (`soft`), or ends are left out
    of plans (`ignore`), which saves a network where nothing terminates. `temperature`: of the latents drawn in plans; 0
    takes their mode, so that candidates differ by their actions alone."""

    planner: Part
    gamma: float = Field(default=1.0, gt=0, le=1)
    policy: str | None = None
    value: str | None = None
    proposals: int = Field(default=0, ge=0)
    precision: Precision = "float32"
    ends: Ends = "soft"
    temperature: float = Field(default=1.0, ge=0)

    @model_validator(mode="after")
    def _check(self) -> PlanningActorConfig:
        if self.proposals and self.policy is None:
            raise ValueError(f"proposals = {self.proposals} need a policy that makes them; name its component")
        candidates = getattr(self.planner, "candidates", None)
        if getattr(self.planner, "proposals", "") == "replace" and candidates and self.proposals >= candidates:
            raise ValueError(f"proposals = {self.proposals} leave nothing of candidates = {candidates} to search")
        return self


class PlanningActor(ModelActor):
    """Plans anew with every decision and takes the plan's first action."""

    config: PlanningActorConfig

    def __init__(self, config: PlanningActorConfig, components: Mapping[str, nn.Module], spec: Spec) -> None:
        names = [name for name in (config.world_model, config.policy, config.value) if name is not None]
        super().__init__(config, pick(components, *names), spec)
        self.planner = instantiate(config.planner, spec.action)
        self.explores_by_std = getattr(config.planner, "explore_by_std", False)
        if config.value is not None and config.policy is None and reads_actions(self.parts[config.value]):
            raise InputError(f"value '{config.value}' is of actions: a plan needs a policy to choose them; name it.")
        model = type(self.world_model)
        if config.temperature != 1.0 and "temperature" not in inspect.signature(model.imagine_step).parameters:
            raise InputError(
                f"temperature = {config.temperature}: {model.__name__} draws nothing in plans, so it has no "
                "temperature. Leave it at 1.0."
            )

    def initial_state(self, n: int) -> ActorState:
        return {**(super().initial_state(n) or {}), PLAN: self.planner.initial(n, self.device)}

    def choose(
        self, latent: Latent, state: dict[str, Tensor], *, deterministic: bool
    ) -> tuple[Tensor, dict[str, Tensor]]:
        config = self.config
        score = score_by(
            self.world_model,
            latent,
            gamma=config.gamma,
            value=self._terminal_value(),
            ends=config.ends,
            temperature=config.temperature,
        )
        limits = self.limits()
        with autocast(self.device, config.precision):
            found = self.planner.search(score, state[PLAN], self._proposals(latent, limits), **limits)
        vector = found.actions[:, 0]
        if self.explores_by_std and not deterministic and found.plan is not None:
            vector = found.plan.varied(vector)
        return vector, {PLAN: found.memory}

    def limits(self) -> dict[str, Any]:
        """What a schedule says of this decision's search; nothing here."""
        return {}

    def _sample(self, latent: Latent) -> Tensor:
        """Action vectors [N, A] that the policy draws."""
        assert self.config.policy is not None
        return to_vector(self.parts[self.config.policy](self.world_model.features(latent)).sample(), self.spec.action)

    def _proposals(self, latent: Latent, limits: dict[str, Any]) -> Tensor | None:
        """Sequences [N, M, H, A] that the policy draws in the model."""
        count = self.config.proposals
        if not count:
            return None
        copies = {name: part.repeat_interleave(count, 0) for name, part in latent.items()}
        actions: list[Tensor] = []
        horizon = limits.get("horizon") or self.config.planner.horizon  # type: ignore[attr-defined]
        for step in range(horizon):
            if step:
                copies = self.world_model.imagine_step(copies, actions[-1])
            actions.append(self._sample(copies))
        return torch.stack(actions, 1).unflatten(0, (-1, count))

    def _terminal_value(self) -> Callable[[Latent], Tensor] | None:
        """What a latent [N, ...] is worth, [N]; None where nothing counts after the horizon."""
        if self.config.value is None:
            return None
        value: Any = self.parts[self.config.value]
        if not reads_actions(value):
            return lambda latent: value.predict(value(self.world_model.features(latent)))
        pair, reduce = value.draw_pair(), value.config.reduce
        return lambda latent: value.value(self.world_model.features(latent), self._sample(latent), pair, reduce=reduce)


def reads_actions(value: nn.Module) -> bool:
    """Whether a component's values are of actions, not of states alone."""
    return getattr(value, "reads_actions", False)


class ScheduledPlanningActor(PlanningActor):
    """A planning actor whose workflow schedules how far it looks and how narrow its plans may get."""

    horizon: Tensor
    min_std: Tensor

    def __init__(self, config: PlanningActorConfig, components: Mapping[str, nn.Module], spec: Spec) -> None:
        super().__init__(config, components, spec)
        self.register_buffer("horizon", torch.tensor(config.planner.horizon))  # type: ignore[attr-defined]
        self.register_buffer("min_std", torch.tensor(config.planner.min_std))  # type: ignore[attr-defined]

    def limits(self) -> dict[str, Any]:
        return {"horizon": int(self.horizon), "min_std": float(self.min_std)}
