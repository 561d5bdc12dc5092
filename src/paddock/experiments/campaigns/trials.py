"""What sweeps and searches share: a base, values for some of its options, and the runs that these become.

The state of a campaign is nothing but its runs: each carries the tags `campaign:<name>` and `trial:<key>`, so that a
campaign that was killed finds what is done, what goes on and what has to be resumed.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import Field

from paddock.config.compose import SHIPPED, compose
from paddock.config.renamed import old_keys, rename_key
from paddock.config.schema import Schema
from paddock.config.validate import validate
from paddock.core.errors import InputError, did_you_mean
from paddock.core.mappings import flatten
from paddock.core.system import lock
from paddock.experiments.campaigns.executor import Job
from paddock.experiments.run import RunFolder
from paddock.experiments.store.store import Store, open_store
from paddock.experiments.store.summaries import ALIVE, CRASHED, RunSummary

CAMPAIGN, TRIAL = "campaign:", "trial:"
INTERRUPTED = ("stopped", CRASHED)


class CampaignConfig(Schema):
    """What every campaign has. base_config: an experiment that ships, or a YAML file of one's own; overrides: options
    that all runs share."""

    name: str = Field(pattern=r"^[\w.-]+$")
    base_config: str
    preset: str | None = None
    overrides: dict[str, Any] = Field(default_factory=dict)
    tags: list[str] = Field(default_factory=list)
    runs_dir: str = "runs"
    parallel_jobs: int = Field(default=1, ge=1)
    metric: str | None = None


Config = TypeVar("Config", bound=CampaignConfig)
Kind = TypeVar("Kind", bound=Schema)


@dataclass(frozen=True)
class Trial:
    """Values of the options that are tried, and the seed."""

    values: Mapping[str, Any]
    seed: int

    @property
    def label(self) -> str:
        return ", ".join(f"{name.split('.')[-1]}={_shown(value)}" for name, value in self.values.items()) or "base"


def read_campaign(file: Path, schema: type[Config]) -> Config:
    """The campaign that a YAML file describes; its base may be given relative to it."""
    config = read_yaml(file, schema, page="docs/sweeps.md")
    beside = file.parent / config.base_config
    return config.model_copy(update={"base_config": str(beside.resolve())}) if beside.is_file() else config


def read_yaml(file: Path, schema: type[Kind], *, page: str) -> Kind:
    """What a YAML file describes; its name is the file's unless it gives one. page: where an example stands."""
    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise InputError(f"'{file}' cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise InputError(f"'{file}' holds no keys and values; see {page} for an example.")
    return validate({"name": file.stem, **values}, schema)


def checked_campaign(config: Config, names: Iterable[str]) -> Config:
    """The campaign with its metric filled in; an option that its base does not have is refused at once."""
    experiment, user = _base(config)
    shown = compose(experiment, preset=config.preset, user=user)
    leaves = [key for key, _ in flatten(shown.values)]
    groups = [folder.name for folder in SHIPPED.iterdir() if folder.is_dir()]
    old = old_keys(shown.values)
    for name in [rename_key(one, old) for one in [*names, *config.overrides]]:
        if name not in groups and not any(leaf == name or leaf.startswith(f"{name}.") for leaf in leaves):
            known = {*leaves, *(leaf.rpartition(".")[0] for leaf in leaves)}
            raise InputError(f"'{config.base_config}' has no option '{name}'.{did_you_mean(name, known)}")
    metric = config.metric or shown.values["evaluation"]["metric"]
    return config.model_copy(update={"metric": metric})


class Campaign:
    """Finds a campaign's runs and writes the commands of its trials."""

    def __init__(self, config: CampaignConfig) -> None:
        self.config = config
        self.runs_dir = Path(config.runs_dir)
        self.folder = self.runs_dir / "campaigns" / config.name
        self._store: Store | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the campaign, so that two do not start the same trials."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as file:
            if not lock(file.fileno()):
                raise InputError(f"'{self.config.name}' is being carried out by another process already.")
            with self.opened():
                yield

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Read the campaign's runs, whether or not another process holds it."""
        self._store = open_store(self.runs_dir)
        try:
            yield
        finally:
            self._store.close()

    def key(self, trial: Trial) -> str:
        """The same for the same base, options and seed, whatever else changes in the file."""
        config = self.config
        parts = [config.base_config, config.preset, config.overrides, dict(trial.values), trial.seed]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:12]

    def runs(self, metrics: Iterable[str] | None = None) -> dict[str, RunSummary]:
        """The newest run of each trial, by the trial's key; with the campaign's metric, or those that are named."""
        assert self._store is not None, "the campaign is not open"
        self._store.refresh()
        mine, wanted = f"{CAMPAIGN}{self.config.name}", list(metrics or [self.config.metric or ""])
        summaries = [one for one in self._store.summaries(metrics=wanted) if mine in one.tags]
        return {tag.removeprefix(TRIAL): one for one in summaries for tag in one.tags if tag.startswith(TRIAL)}

    def job(self, trial: Trial, summary: RunSummary | None, *, key: str | None = None) -> Job:
        """The command that starts a trial, or goes on with its run; key: where it is not that of the trial's values."""
        key = key or self.key(trial)
        log = self.folder / f"{key}.log"
        if summary is not None:
            return Job(key, ["train", "--resume", str(self.runs_dir / summary.folder)], log)
        config = self.config
        experiment, user = _base(config)
        tags = [*config.tags, f"{CAMPAIGN}{config.name}", f"{TRIAL}{key}"]
        arguments = ["train", *([experiment] if experiment else ["--config", str(user)])]
        arguments += ["--preset", config.preset] if config.preset else []
        arguments += ["--name", config.name, "--seed", str(trial.seed)]
        options = {**config.overrides, **trial.values, "runs_dir": config.runs_dir, "tags": tags}
        return Job(key, [*arguments, *(f"{name}={override_value(value)}" for name, value in options.items())], log)

    def stop(self, summary: RunSummary) -> None:
        """Ask a run that another process started to save and end."""
        run = RunFolder(self.runs_dir / summary.folder)
        if summary.status in ALIVE and run.is_held():
            with suppress(ProcessLookupError):
                if (pid := run.read_manifest().get("pid")) is not None:
                    os.kill(pid, signal.SIGTERM)

    def label(self, summary: RunSummary, word: str) -> None:
        """Tag a run of the campaign."""
        run = RunFolder(self.runs_dir / summary.folder)
        labels = run.read_labels()
        run.write_labels(tags=[*labels["tags"], word], is_pinned=labels["pinned"])


def override_value(value: Any) -> str:
    """A value in Hydra's grammar of overrides."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {override_value(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(override_value(one) for one in value) + "]"
    return repr(value)


def _base(config: CampaignConfig) -> tuple[str | None, Path | None]:
    path = Path(config.base_config)
    return (None, path) if path.suffix in (".yaml", ".yml") or path.is_file() else (config.base_config, None)


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
