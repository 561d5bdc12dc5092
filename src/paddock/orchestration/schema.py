"""The schema of a whole experiment, and the rules that hold between its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SerializeAsAny, field_validator, model_validator

from paddock.components.devices import Precision
from paddock.config.migrate import SCHEMA_VERSION
from paddock.config.phases import phases_by_name
from paddock.config.schema import Name, Part, Schema, Switch, load_target, validate_target
from paddock.core.errors import did_you_mean
from paddock.environments.base import EnvironmentConfig
from paddock.evaluation.evaluator import EvaluationConfig
from paddock.orchestration.checkpoint import CheckpointConfig
from paddock.orchestration.evaluating import refusal
from paddock.orchestration.loggers import LoggingConfig
from paddock.orchestration.monitoring.monitor import MonitoringConfig
from paddock.orchestration.phase_scheduler import COLLECT, EVALUATE, PhaseConfig, with_names
from paddock.rollout.collector import LocalConfig
from paddock.rollout.experience import ExperienceConfig
from paddock.workflows.base import needs_batch

LOCAL_EXPERIENCE = "paddock.rollout.collector.local"


class TrainingConfig(Schema):
    """How long, and in which phases."""

    total_steps: int | None = Field(default=None, ge=1)
    max_seconds: float | None = Field(default=None, gt=0)
    phases: dict[str, PhaseConfig] = Field(min_length=1)

    @field_validator("phases", mode="before")
    @classmethod
    def _name_phases(cls, phases: Any) -> Any:
        return with_names(phases_by_name(phases))


class ControllersConfig(Schema):
    """Who can act, and who does unless a phase says otherwise."""

    default: str
    available: dict[Name, Part]


class UpdatesConfig(Schema):
    """How a batch is worked on: in so many pieces one after the other, whose gradients are added up."""

    accumulate: int = Field(default=1, ge=1)


class ExperimentConfig(Schema):
    """Everything that a run is made from."""

    schema_version: int = SCHEMA_VERSION
    name: str
    tags: list[str] = Field(default_factory=list)
    seed: int = Field(ge=0, lt=2**31)
    runs_dir: str
    device: str
    precision: Precision = "float32"
    threads: int = Field(ge=1)
    learners: int = Field(default=1, ge=1)
    updates: UpdatesConfig = Field(default_factory=lambda: UpdatesConfig())
    pipeline: Switch = "off"
    debug: bool
    initial_weights: dict[Name, str] = Field(default_factory=dict)
    environment: Annotated[SerializeAsAny[EnvironmentConfig], BeforeValidator(validate_target)]
    reward: dict[str, Any] | None = None
    experience: Annotated[SerializeAsAny[ExperienceConfig], BeforeValidator(validate_target)] = Field(
        default_factory=lambda: LocalConfig(_target_=LOCAL_EXPERIENCE)  # Not in configurations of before.
    )
    workflow: Part
    components: dict[Name, Part]
    buffers: dict[Name, Part]
    optimizers: dict[Name, Part]
    controllers: ControllersConfig
    training: TrainingConfig
    evaluation: EvaluationConfig
    checkpoint: CheckpointConfig
    logging: LoggingConfig
    monitoring: MonitoringConfig = Field(default_factory=MonitoringConfig)

    @property
    def needs_autograd(self) -> bool:
        """Whether updates may not go past autograd: `debug` watches its operations, a precision changes them."""
        return self.debug or self.precision != "float32"

    @field_validator("optimizers", mode="before")
    @classmethod
    def _without_nulls(cls, optimizers: Any) -> Any:
        """As among phases, null takes an entry out: of a component that learns nothing, say."""
        if not isinstance(optimizers, Mapping):
            return optimizers
        return {name: one for name, one in optimizers.items() if one is not None}

    @model_validator(mode="after")
    def _phases_fit(self) -> ExperimentConfig:
        names, phases = list(self.training.phases), list(self.training.phases.values())
        problems = [problem for phase in phases for problem in self._problems_of(phase)]
        problems += [
            f"phase '{phase.name}' never ends, so those after it never start; give it a duration or an until"
            for phase in phases[:-1]
            if not phase.has_end
        ]
        is_endless = self.training.total_steps is None and self.training.max_seconds is None
        if is_endless and not phases[-1].has_end:
            problems.append("the run never ends; set training.total_steps, training.max_seconds or a phase's duration")
        problems += self._problems_of_learners()
        if self.evaluation.beside and (problem := refusal({phase.name: phase.until for phase in phases})):
            problems.append(problem)
        problems += [
            f"initial_weights names the component '{name}', which is not there.{did_you_mean(name, self.components)}"
            f" There are: {', '.join(self.components)}"
            for name in self.initial_weights
            if name not in self.components
        ]
        problems += [
            f"the reward set changes weights in the phase '{name}', which is not there: choose another set with "
            f"reward=NAME. There are the phases: {', '.join(names)}"
            for name in self.environment.reward_phases
            if name not in names
        ]
        if self.reward and "reward" not in type(self.environment).model_fields:
            problems.append(
                "reward: this environment has a reward of its own, and a set does not change it; leave it out"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def reweighing(self, phase: PhaseConfig) -> dict[str, float]:
        """The reward weights that change as `phase` begins: those of the reward set, then the phase's own."""
        return {**self.environment.reward_phases.get(phase.name, {}), **phase.reward}

    def _problems_of_learners(self) -> list[str]:
        """Updates that do not share their batches gain nothing from more learners, nor from pieces."""
        owner = load_target(self.workflow.target_)
        if getattr(owner, "splits_updates", False):
            return []
        asked = {"learners": self.learners, "updates.accumulate": self.updates.accumulate}
        return [
            f"{key} = {value} cannot be used with {owner.__name__}, whose updates are not shared among learners; set "
            "it to 1, or choose workflow=ppo, sac, redq, planet or dreamer"
            for key, value in asked.items()
            if value > 1
        ]

    def _problems_of(self, phase: PhaseConfig) -> list[str]:
        references = [
            ("buffer", [phase.buffer] if phase.buffer else [], list(self.buffers)),
            ("controller", [phase.controller] if phase.controller else [], list(self.controllers.available)),
            ("component to freeze", phase.freeze, list(self.components)),
            ("reward term", list(self.reweighing(phase)), reward_terms(self.reward or {})),
        ]
        problems = [
            f"phase '{phase.name}' names the {kind} '{name}', which is not there.{did_you_mean(name, allowed)}"
            f" There are: {', '.join(allowed)}"
            for kind, names, allowed in references
            for name in names
            if name not in allowed
        ]
        owner = load_target(self.workflow.target_)
        for hook in phase.workflow_hooks.values():
            if hook.method not in (COLLECT, EVALUATE) and not callable(getattr(owner, hook.method, None)):
                methods = [name for name in dir(owner) if name.startswith(("update", "imagine"))]
                problems.append(
                    f"phase '{phase.name}' names the hook '{hook.method}', which {owner.__name__} does not have."
                    f"{did_you_mean(hook.method, [*methods, COLLECT, EVALUATE])}"
                )
            elif phase.type == "evolution" and hook.method != EVALUATE and needs_batch(getattr(owner, hook.method)):
                problems.append(
                    f"phase '{phase.name}' is an evolution, whose hooks learn from no batch, and '{hook.method}' of "
                    f"{owner.__name__} needs one; make the phase offline"
                )
        return problems


def reward_terms(reward: Mapping[str, Any]) -> list[str]:
    """The terms that a reward set names, functions of a person's own included: what a phase may reweigh."""
    named = [name for name, value in reward.items() if isinstance(value, dict) and "weight" in value]
    return [*named, *(reward.get("custom") or {})]
