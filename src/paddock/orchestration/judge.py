"""Finding the policy that a person means: a run's best, its latest, another controller over its model, or an export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml
from omegaconf import OmegaConf

from paddock.config.compose import choices
from paddock.config.migrate import migrate
from paddock.config.schema import TargetSchema, instantiate, validate_target
from paddock.config.validate import validate
from paddock.core.errors import InputError
from paddock.environments.spaces import spec_of
from paddock.experiments.run import RunFolder
from paddock.orchestration.build import make_environment
from paddock.orchestration.checkpoint import CheckpointStore, read_checkpoint
from paddock.orchestration.experiment import ExperimentConfig
from paddock.rollout.actor import ActorModule, load_policy, read_description
from paddock.rollout.controllers import ControllerManager
from paddock.rollout.evaluation import Judge, MakeEnv, evaluate

ENVIRONMENT, CONTROLLERS = "environment.", "controllers."


@dataclass(frozen=True)
class Subject:
    """Somebody to be judged, and where."""

    name: str
    folder: Path
    actor: ActorModule
    make_env: MakeEnv
    judge: Judge


def find_subject(
    given: str, runs_dir: Path, *, which: str = "best", controller: str | None = None, overrides: Sequence[str] = ()
) -> Subject:
    """The policy named by `given`: an exported policy's folder, or a run's path or name."""
    if (Path(given) / "policy.json").is_file():
        if controller is not None:
            raise InputError(f"'{given}' is an exported policy; a controller can be chosen for a run only.")
        return _exported(Path(given), given, overrides)
    run = RunFolder.find(runs_dir, given)
    if controller is not None or any(text.startswith(CONTROLLERS) for text in overrides):
        return _from_checkpoint(run, which, controller, overrides)
    folder = run.policy / which
    if not folder.exists():
        folder = run.policy / "latest"
    if not folder.exists():
        return _from_checkpoint(run, which, None, overrides)
    return _exported(folder, run.name, overrides, run.path)


def _exported(folder: Path, name: str, overrides: Sequence[str], home: Path | None = None) -> Subject:
    description = read_description(folder)
    if not description.get("environment"):
        raise InputError(f"the policy in '{folder}' does not say which environment it is for.")
    environment = _with_overrides({"environment": description["environment"]}, overrides, (ENVIRONMENT,))["environment"]
    config = validate_target(environment)
    judge = judge_of(config, RunFolder(home) if home else None, overrides)
    return Subject(name, home or folder, load_policy(folder), partial(instantiate, config), judge)


def _from_checkpoint(run: RunFolder, which: str, controller: str | None, overrides: Sequence[str]) -> Subject:
    """Build the run's components from its checkpoint and let the chosen controller act with them."""
    values = _with_overrides(migrate(run.read_config()), overrides, (ENVIRONMENT, CONTROLLERS))
    config = validate(values, ExperimentConfig)
    store = CheckpointStore(run.checkpoints, config.checkpoint)
    best = store.best() if which == "best" else None
    checkpoint = read_checkpoint(best) if best else store.load()
    if checkpoint is None:
        raise InputError(f"run '{run.name}' has no checkpoint yet; there is nothing to judge.")
    env = make_environment(config, 1)
    spec = spec_of(env)
    env.close()
    components = {name: instantiate(part, spec) for name, part in config.components.items()}
    for name, component in components.items():
        component.load_state_dict(checkpoint.state["components"][name])
    available = {name: instantiate(part, components, spec) for name, part in config.controllers.available.items()}
    manager = ControllerManager(available, config.controllers.default)
    manager.select(controller)
    judge = judge_of(config.environment, run, [text for text in overrides if text.startswith(ENVIRONMENT)])
    return Subject(run.name, run.path, manager.active, partial(make_environment, config), judge)


def judge_of(environment: TargetSchema, run: RunFolder | None, overrides: Sequence[str] = ()) -> Judge:
    """Who judges: the run's own judge, unless the environment is changed; else the shipped one of its environment."""
    if run is not None and not overrides:
        chosen = migrate(run.read_config())["evaluation"].get("judge")
        return instantiate(validate_target(chosen)) if chosen else evaluate
    files = choices("judging")
    name = environment.target_.split(".")[-2]
    if name not in files:
        return evaluate
    return instantiate(validate_target(yaml.safe_load(files[name].read_text(encoding="utf-8"))["evaluation"]["judge"]))


def _with_overrides(values: dict, overrides: Sequence[str], allowed: tuple[str, ...]) -> dict:
    for text in overrides:
        if not text.startswith(allowed):
            kinds = " and ".join(f"{prefix}*" for prefix in allowed)
            raise InputError(f"'{text}' has no place in this evaluation; only {kinds} can be changed.")
    merged = OmegaConf.merge(OmegaConf.create(values), OmegaConf.from_dotlist(list(overrides)))
    return OmegaConf.to_container(merged, resolve=True)  # type: ignore[return-value]
