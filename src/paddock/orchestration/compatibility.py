"""Whether an algorithm fits an environment, said in words before anything is learned."""

from __future__ import annotations

from pathlib import Path

from paddock.config.compose import choices
from paddock.config.defaults import bases, chosen_groups, read_yaml
from paddock.config.moved import short_name
from paddock.config.schema import load_target
from paddock.core.errors import InputError
from paddock.core.specs import Spec
from paddock.orchestration.schema import ExperimentConfig


def check_actions(config: ExperimentConfig, spec: Spec) -> None:
    """Refuse a workflow for choices where actions are continuous, and the reverse; says what fits."""
    owner = load_target(config.workflow.target_)
    given = "discrete" if spec.action.is_discrete else "continuous"
    if owner.actions in (None, given):
        return
    offered = f"{spec.action.choices} choices" if spec.action.is_discrete else f"{spec.action.size} continuous numbers"
    name = getattr(config.environment, "id", short_name(config.environment.target_))
    workflows = [workflow for workflow, actions in _workflow_actions().items() if actions in (None, given)]
    raise InputError(
        f"{owner.__name__} is for {owner.actions} actions, but an action of '{name}' is {offered}. "
        f"Workflows that fit this environment: {', '.join(workflows)}. "
        f"Experiments that fit {owner.__name__}: {', '.join(_experiments_of(config.workflow.target_))}."
    )


def _workflow_actions() -> dict[str, str | None]:
    """What each shipped workflow can choose among, by name."""
    targets = {name: target for name, file in choices("workflow").items() if (target := _workflow_target(file))}
    return {name: load_target(target).actions for name, target in targets.items()}


def _experiments_of(target: str) -> list[str]:
    """Shipped experiments with the workflow that `target` names."""
    workflows = {name for name, file in choices("workflow").items() if _workflow_target(file) == target}
    return sorted(name for name in choices("experiment") if chosen_groups(name).get("workflow") in workflows)


def _workflow_target(file: Path) -> str | None:
    """The algorithm that a workflow's file names, or the file that it builds upon."""
    content = read_yaml(file)
    if target := (content.get("workflow") or {}).get("_target_"):
        return target
    builds_upon = bases(content)
    return _workflow_target(file.with_name(f"{builds_upon[0]}.yaml")) if builds_upon else None
