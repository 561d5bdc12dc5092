"""Finding the policy that a person means: a run's best, its latest, another controller over its model, or an export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from paddock.config.compose import choices
from paddock.config.migrate import migrate
from paddock.config.moved import short_name
from paddock.config.overriding import with_overrides
from paddock.config.schema import instantiate, schema_of, validate_target
from paddock.config.validate import validate
from paddock.core import permission
from paddock.core.errors import InputError
from paddock.core.trust import checked
from paddock.environments.spaces import spec_of
from paddock.evaluation.evaluator import Evaluator, evaluate
from paddock.evaluation.subject import Subject
from paddock.experiments.run import RunFolder
from paddock.orchestration.build import make_environment
from paddock.orchestration.checkpoint import CheckpointStore, read_checkpoint
from paddock.orchestration.schema import ExperimentConfig
from paddock.rollout.actor import ActorModule, load_policy, read_description
from paddock.rollout.controllers import ControllerManager
from paddock.sim.rewards.custom import without_functions

ENVIRONMENT, CONTROLLERS = "environment.", "controllers."


@dataclass(frozen=True)
class Wanted:
    """How a subject is to be prepared, as `find_subject` was asked."""

    which: str
    controller: str | None
    overrides: Sequence[str]
    is_for_laps: bool
    keeps_reward: bool
    trusts: bool


def find_subject(
    given: str,
    runs_dir: Path,
    *,
    which: str = "best",
    controller: str | None = None,
    overrides: Sequence[str] = (),
    is_for_laps: bool = False,
    keeps_reward: bool = False,
    trusts: bool = False,
) -> Subject:
    """The policy named by `given`: an exported policy's folder, or a run's path or name.

    is_for_laps: the reward is not needed. keeps_reward: it is, even where the evaluator does without. trusts: the
    person trusts whatever the folder names to run.
    """
    wanted = Wanted(which, controller, overrides, is_for_laps, keeps_reward, trusts)
    if (Path(given) / "policy.json").is_file():
        if controller is not None:
            raise InputError(f"'{given}' is an exported policy; a controller can be chosen for a run only.")
        return _exported(Path(given), given, wanted)
    run = RunFolder.find(runs_dir, given)
    if controller is not None or any(text.startswith(CONTROLLERS) for text in overrides):
        return _from_checkpoint(run, wanted)
    folder = run.policy_folder(which)
    return _exported(folder, run.name, wanted, run) if folder else _from_checkpoint(run, wanted)


def _exported(folder: Path, name: str, wanted: Wanted, run: RunFolder | None = None) -> Subject:
    description = read_description(folder)
    if not isinstance(description.get("environment"), dict):
        raise InputError(f"the policy in '{folder}' does not say which environment it is for.")
    saved = {"environment": description["environment"]}
    environment = _with_overrides(saved, wanted.overrides, (ENVIRONMENT,))["environment"]
    target = str(environment.get("_target_"))
    evaluator = evaluator_of(target, run, wanted.overrides, trusts=wanted.trusts)
    environment, left_out = _for_evaluator(environment, evaluator, wanted)
    with checked(folder, description, used={"environment": environment}, trusts=wanted.trusts) as (_, code):
        config = validate(code.with_copies(environment), schema_of(target))
        make_env = permission.keep(partial(instantiate, config))
        actor = load_policy(folder, trusts=wanted.trusts)
    return Subject(name, run.path if run else folder, actor, make_env, evaluator, left_out)


def _for_evaluator(
    environment: dict[str, Any], evaluator: Evaluator, wanted: Wanted
) -> tuple[dict[str, Any], list[str]]:
    needs_reward = getattr(evaluator, "needs_reward", True) and not wanted.is_for_laps
    return (environment, []) if needs_reward or wanted.keeps_reward else without_functions(environment)


def _from_checkpoint(run: RunFolder, wanted: Wanted) -> Subject:
    """Build the run's components from its checkpoint and let the chosen controller act with them."""
    saved = migrate(run.read_config())
    values = _with_overrides(saved, wanted.overrides, (ENVIRONMENT, CONTROLLERS))
    changed = [text for text in wanted.overrides if text.startswith(ENVIRONMENT)]
    evaluator = evaluator_of(str(values["environment"]["_target_"]), run, changed, trusts=wanted.trusts)
    environment, left_out = _for_evaluator(values["environment"], evaluator, wanted)
    values = {**values, "environment": environment}
    # The environment has its own copy of the reward. Of buffers only the names are needed; nothing is logged or told.
    buffers = {name: {"_target_": dict(part).get("_target_")} for name, part in dict(values["buffers"]).items()}
    used = {**values, "reward": {}, "buffers": buffers, "logging": {}, "monitoring": {}}
    with checked(run.path, saved, used=used, trusts=wanted.trusts, with_links=True) as (_, code):
        config = validate(code.with_copies(values), ExperimentConfig)
        actor = _actor_from_checkpoint(run, config, wanted)
        make_env = permission.keep(partial(make_environment, config))
    return Subject(run.name, run.path, actor, make_env, evaluator, left_out)


def _actor_from_checkpoint(run: RunFolder, config: ExperimentConfig, wanted: Wanted) -> ActorModule:
    store = CheckpointStore(run.checkpoints, config.checkpoint)
    best = store.best() if wanted.which == "best" else None
    checkpoint = read_checkpoint(best) if best else store.load()
    if checkpoint is None:
        raise InputError(f"run '{run.name}' has no checkpoint yet; there is nothing to evaluate.")
    env = make_environment(config, 1)
    spec = spec_of(env)
    env.close()
    components = {name: instantiate(part, spec) for name, part in config.components.items()}
    for name, component in components.items():
        component.load_state_dict(checkpoint.state["components"][name])
    available = {name: instantiate(part, components, spec) for name, part in config.controllers.available.items()}
    manager = ControllerManager(available, config.controllers.default)
    manager.select(wanted.controller)
    return manager.active


def evaluator_of(
    environment: str, run: RunFolder | None, overrides: Sequence[str] = (), *, trusts: bool = False
) -> Evaluator:
    """The run's own evaluator, unless the environment is changed; else the shipped one of its environment.

    environment: the `_target_` of its configuration.
    """
    if run is not None and not overrides:
        saved = migrate(run.read_config())
        chosen = saved["evaluation"].get("evaluator")
        with checked(run.path, saved, used={"evaluation": {"evaluator": chosen}}, trusts=trusts):
            return instantiate(validate_target(chosen)) if chosen else evaluate
    files = choices("evaluation")
    name = short_name(environment)
    if name not in files:
        return evaluate
    shipped = yaml.safe_load(files[name].read_text(encoding="utf-8"))["evaluation"]["evaluator"]
    return instantiate(validate_target(shipped))


def _with_overrides(values: dict, overrides: Sequence[str], allowed: tuple[str, ...]) -> dict:
    for text in overrides:
        if not text.startswith(allowed):
            kinds = " and ".join(f"{prefix}*" for prefix in allowed)
            raise InputError(f"'{text}' has no place in this evaluation; only {kinds} can be changed.")
    return with_overrides(values, overrides)
