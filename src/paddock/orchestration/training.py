"""Training from Python: the same runs as the command line's, in the process that asks for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from paddock.config.compose import choices
from paddock.config.plugins import register_plugins
from paddock.core.errors import InputError
from paddock.core.seeding import get_random_state, set_random_state
from paddock.experiments.campaigns.trials import override_value
from paddock.experiments.run import RunFolder
from paddock.experiments.store.summaries import status_now
from paddock.orchestration import summary
from paddock.orchestration.agent import Agent, load_agent
from paddock.orchestration.launch import Request, new_run, resolve, resumed_run
from paddock.orchestration.orchestrator import Orchestrator

Overrides = Sequence[str] | Mapping[str, Any]
_under_way = threading.Lock()


class Run:
    """A run's folder: what `paddock.train` gives. Everything is read when it is asked for."""

    def __init__(self, folder: str | Path) -> None:
        self._files = RunFolder(Path(folder))

    @property
    def folder(self) -> Path:
        return self._files.path

    @property
    def name(self) -> str:
        """The folder's name: the run's name and when it began."""
        return self._files.name

    @property
    def status(self) -> str:
        """finished, stopped, failed, running, paused, or crashed: the process ended without a word."""
        status = str(self._files.read_manifest().get("status", "unknown"))
        return status_now(status, self._files)

    @property
    def config(self) -> dict[str, Any]:
        """The resolved configuration."""
        return self._files.read_config()

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """Every logged point, oldest first: step counts, phase, seconds, and the metrics by name."""
        return self._files.read_metrics()

    def load(self, which: str = "best") -> Agent:
        """The run's `best` or `latest` policy as an agent."""
        return load_agent(self.folder, which=which)

    def resume(self, overrides: Overrides = (), *, quiet: bool = False, **options: Any) -> Run:
        """Go on with the run, as `paddock.resume` does."""
        return resume(self.folder, overrides, quiet=quiet, **options)

    def __repr__(self) -> str:
        return f"<Run '{self.folder}': {self.status}>"


def train(
    experiment: str | None = None,
    *,
    config: str | Path | None = None,
    preset: str | None = None,
    name: str | None = None,
    seed: int | None = None,
    overrides: Overrides = (),
    runs_dir: str | Path | None = None,
    plugins: Sequence[str] = (),
    quiet: bool = False,
    **options: Any,
) -> Run:
    """Train an agent, as `paddock train` does, and give its run.

    overrides: `["training.total_steps=100_000"]` as on the command line, or a mapping by dotted key. `options` are
    further ones by their first key: `training={"total_steps": 100_000}`, `workflow="sac"`. config: a YAML file or
    directory of one's own. plugins: packages of one's own that a `_target_` may name. Ctrl-C, or interrupting the
    notebook's kernel, saves and gives the run, whose status is then `stopped`.
    """
    if experiment is None and config is None:
        raise InputError(
            f"say what to train: paddock.train(EXPERIMENT). There are: {', '.join(choices('experiment'))}."
        )
    register_plugins(plugins)
    chosen = [*as_overrides(overrides), *as_overrides(options)]
    if runs_dir is not None:
        chosen.append(f"runs_dir={override_value(str(runs_dir))}")
    request = Request(experiment, Path(config) if config is not None else None, preset, name, seed, chosen)
    settings, _ = resolve(request)
    console = Console(quiet=quiet)
    with _guest(), new_run(settings, console, request) as orchestrator:
        return _carried_out(orchestrator, console)


def resume(
    run: str | Path,
    overrides: Overrides = (),
    *,
    runs_dir: str | Path = "runs",
    plugins: Sequence[str] = (),
    quiet: bool = False,
    trust: bool = False,
    **options: Any,
) -> Run:
    """Go on with a run from its newest checkpoint, as `paddock train --resume` does; see `train` for the arguments.

    trust: also a run from elsewhere that would run code of its maker's.
    """
    register_plugins(plugins)
    found = RunFolder.find(Path(runs_dir), str(run))
    console = Console(quiet=quiet)
    chosen = [*as_overrides(overrides), *as_overrides(options)]
    with _guest(), resumed_run(found, chosen, console, trusts=trust) as orchestrator:
        return _carried_out(orchestrator, console)


def as_overrides(given: Overrides) -> list[str]:
    """Overrides as the command line writes them; a mapping's keys may be dotted, nested, or a group's name."""
    if isinstance(given, str):
        raise InputError(f"overrides is a list, so that there can be several: overrides=['{given}'].")
    if not isinstance(given, Mapping):
        return [str(text) for text in given]
    return [f"{key}={_written(key, value)}" for key, value in _leaves(given)]


def _leaves(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Leaves by dotted key; a list is one of them, for a list is replaced as a whole."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from ((f"{name}.{key}", leaf) for key, leaf in _leaves(value))
        else:
            yield str(name), value


def _written(key: str, value: Any) -> str:
    is_choice = isinstance(value, str) and "." not in key and choices(key)  # A group's, which may also be a file's.
    return value if is_choice else override_value(str(value) if isinstance(value, Path) else value)


def _carried_out(orchestrator: Orchestrator, console: Console) -> Run:
    orchestrator.control.is_guest = True
    outcome = orchestrator.run()
    run = orchestrator.run_folder
    if not console.quiet:
        summary.print_outcome(console, run, outcome, orchestrator.config)
    return Run(run.path)


@contextmanager
def _guest() -> Iterator[None]:
    """Leave the process as it was: its random numbers and torch's threads. One training at a time uses them."""
    if not _under_way.acquire(blocking=False):
        raise InputError(
            "another training is under way in this process, and both would draw from the same random numbers. "
            "Wait for it, or start this one as a process of its own: paddock train."
        )
    random_state, threads = get_random_state(), torch.get_num_threads()
    try:
        yield
    finally:
        set_random_state(random_state)
        torch.set_num_threads(threads)
        _under_way.release()
