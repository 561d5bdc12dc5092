"""From what a person asked for to an orchestrator that is ready to run: a new run, or one to go on with."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from paddock.config.compose import Composed, compose
from paddock.config.inheritance import settle
from paddock.config.migrate import migrate
from paddock.config.overriding import with_overrides
from paddock.config.validate import validate
from paddock.core.errors import InputError
from paddock.core.files import files_like
from paddock.core.reading import DamagedError, require_regular
from paddock.core.trust import MARK, checked, mark, sign
from paddock.core.user_code import KeptCode
from paddock.experiments.run import RunFolder, manifest
from paddock.orchestration.budget import with_capacities
from paddock.orchestration.build import build
from paddock.orchestration.discount import with_discount
from paddock.orchestration.learners.ranks import opened
from paddock.orchestration.orchestrator import Orchestrator
from paddock.orchestration.schema import ExperimentConfig

log = logging.getLogger(__name__)

MAY_CHANGE_ON_RESUME = (
    "training.total_steps",
    "training.max_seconds",
    "experience.address",
    "evaluation",
    "checkpoint",
    "logging",
    "monitoring",
    "learners",
    "updates",
    "tags",
)
RESUME_RULE = (
    f"A resumed run may change {', '.join(MAY_CHANGE_ON_RESUME)}, and nothing else: "
    "anything more would be another experiment, which deserves a run of its own."
)


@dataclass(frozen=True)
class Request:
    """What a person asked to be run."""

    experiment: str | None = None
    user: Path | None = None
    preset: str | None = None
    name: str | None = None
    seed: int | None = None
    overrides: list[str] = field(default_factory=list)

    def origin(self) -> dict[str, Any]:
        """What a run's manifest tells of where its configuration came from."""
        user = str(self.user.resolve()) if self.user else None
        chosen: dict[str, Any] = {"experiment": self.experiment, "user": user, "preset": self.preset}
        chosen["overrides"] = self.overrides
        if user:
            with suppress(OSError):  # without a home of their own, a person does without `show`'s differences
                chosen[MARK] = mark(chosen)
        return {"origin": chosen}

    @property
    def chosen_name(self) -> str | None:
        return self.name or self.experiment or (self.user.stem if self.user and self.user.is_file() else None)


def resolve(request: Request) -> tuple[ExperimentConfig, Composed]:
    """The validated configuration of a request, and where its values came from."""
    overrides = list(request.overrides)
    if request.chosen_name is not None:
        overrides.insert(0, f"name='{request.chosen_name}'")
    if request.seed is not None:
        overrides.append(f"seed={request.seed}")
    composed = settle(compose(request.experiment, preset=request.preset, user=request.user, overrides=overrides))
    values = with_capacities(with_discount(composed.values, composed.origins), composed.origins)
    return validate(values, ExperimentConfig, composed.origins), composed


def experiment_of(manifest: Mapping[str, Any], name: str) -> str:
    """What a run was made from: a shipped experiment, or the stem of a person's own file; else the run's name."""
    origin = manifest.get("origin") or {}
    return str(origin.get("experiment") or (Path(origin["user"]).stem if origin.get("user") else name))


@contextmanager
def run_settings(folder: Path) -> Iterator[tuple[ExperimentConfig, str]]:
    """The configuration of a run, with what it may do, and the name of its experiment."""
    run = RunFolder(folder)
    saved = migrate(run.read_config())
    with checked(run.path, saved, used=saved):
        config = validate(saved, ExperimentConfig)
        yield config, experiment_of(run.read_manifest(), config.name)


@contextmanager
def new_run(config: ExperimentConfig, console: Console, request: Request | None = None) -> Iterator[Orchestrator]:
    """A new run's orchestrator; the run's folder is held by this process meanwhile."""
    values = config.model_dump(mode="json", by_alias=True)
    run = RunFolder.create(Path(config.runs_dir), config.name, values, seed=config.seed)
    with files_like(run.path), KeptCode.of(run.path).in_use(), run.lock():
        run.write_manifest(**manifest(values, seed=config.seed), **(request.origin() if request else {}))
        with opened(config) as ranks:
            try:
                orchestrator = build(config, run, console, ranks)
            except BaseException:
                shutil.rmtree(run.path)  # Nothing has happened in it that anybody could want.
                raise
            yield orchestrator


@contextmanager
def resumed_run(
    run: RunFolder, overrides: Sequence[str], console: Console, *, trusts: bool = False
) -> Iterator[Orchestrator]:
    """The orchestrator of a run that was interrupted, standing where its newest whole checkpoint stands.

    trusts: a run that was made elsewhere may do what its configuration says, see `paddock.core.trust`.
    """
    saved = migrate(run.read_config())
    values = _changed(saved, overrides)
    _check_writable(run)
    permitted = checked(run.path, saved, used=values, trusts=trusts, with_links=True)
    with permitted as (verdict, code), files_like(run.path), _held(run), ExitStack() as stack:
        _tell_changes(run, code)
        config = validate(values, ExperimentConfig)
        orchestrator = build(config, run, console, stack.enter_context(opened(config)))
        checkpoint = orchestrator.checkpoints.load()
        if checkpoint is None:
            log.warning(
                "run '%s' was interrupted before its first checkpoint; it starts again from its seed.", run.name
            )
            run.metrics_file.unlink(missing_ok=True)
        else:
            orchestrator.restore(checkpoint)
        if "id" not in run.read_manifest():  # Cut off before it could say what it is.
            run.write_manifest(**manifest(saved, seed=config.seed))
        if overrides:
            written = config.model_dump(mode="json", by_alias=True)
            run.write_config(written)
            if verdict.may_sign:
                sign(run.path, written)
        run.write_manifest(status="running", pid=os.getpid())
        run.event("resumed", checkpoint=checkpoint and checkpoint.path.name, overrides=list(overrides))
        if checkpoint is not None and checkpoint.info.get("has_cut_off_update"):
            log.warning(
                "the checkpoint was saved when a learner was lost, inside an update, which is done again: sound, but "
                "not bit-identical to an uninterrupted run."
            )
        if checkpoint is not None and not checkpoint.info["is_exact"]:
            log.warning(
                "this environment cannot give its state, so the resumed run starts fresh episodes from derived "
                "seeds: sound, but not bit-identical to an uninterrupted run."
            )
        yield orchestrator


@contextmanager
def _held(run: RunFolder) -> Iterator[None]:
    """Hold a run, unless its manifest is damaged or something else is in the place of a file that it writes."""
    try:
        run.read_manifest()
    except DamagedError as error:
        raise InputError(f"{error} Put back a copy of it, or remove it: a resumed run begins another one.") from error
    require_regular(run.metrics_file, run.events_file, run.config_file)
    with run.lock():
        yield


def _check_writable(run: RunFolder) -> None:
    """Refuse a folder that cannot be written to before anything is built."""
    try:
        tempfile.TemporaryFile(dir=run.path).close()
    except OSError as error:
        raise InputError(
            f"run '{run.name}' cannot be resumed: nothing can be written to its folder '{run.path}' "
            f"({error.strerror}). Make it writable, or copy it to where it is."
        ) from error


def _changed(saved: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """The saved values with the overrides applied, if the rule allows them."""
    for text in overrides:
        key = text.partition("=")[0].lstrip("+~")
        if not any(key == allowed or key.startswith(allowed + ".") for allowed in MAY_CHANGE_ON_RESUME):
            raise InputError(f"'{text}' cannot be changed in a resumed run. {RESUME_RULE}")
    return with_overrides(saved, overrides)


def _tell_changes(run: RunFolder, code: KeptCode) -> None:
    """A run goes on with the code that it began with, whatever has become of it since."""
    for name in code.changed():
        kept = "its own copy" if code.has_copy(name) else "the new one, as there is no copy"
        log.warning("'%s' has changed since run '%s' began; the run continues with %s.", name, run.name, kept)
