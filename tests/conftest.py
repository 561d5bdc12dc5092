"""What several tests use: runs made in a temporary folder, and the command line as a person runs it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Caches of the tests stay inside the clone.
os.environ.setdefault("PADDOCK_HOME", str(Path(__file__).parents[1] / ".cache" / "paddock"))


@pytest.fixture
def paddock(tmp_path):
    """Run `paddock ARGUMENTS` in a folder of its own; gives the completed process."""

    def run(*arguments: str, timeout: float = 240, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "paddock", *arguments],
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "200", **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run


@pytest.fixture
def experiment(tmp_path):
    """Build a small CartPole run in this process; gives its orchestrator."""

    def make(*overrides: str, name: str = "run", user: Path | None = None):
        from rich.console import Console

        from paddock.experiments.run import RunFolder, manifest
        from paddock.orchestration.build import build
        from paddock.orchestration.launch import Request, resolve

        small = [
            "environment.num_envs=4",
            "workflow.rollout_steps=128",
            "workflow.minibatch_size=64",
            "workflow.epochs=2",
            "training.total_steps=512",
            "evaluation.episodes=2",
            "logging.every_steps=128",
            "logging.terminal=false",
            "logging.tensorboard=false",
            f"runs_dir={tmp_path}",
        ]
        request = Request("ppo_cartpole", name=name, overrides=[*small, *overrides])
        if user is not None:
            request = Request(user=user, name=name, overrides=[f"runs_dir={tmp_path}", *overrides])
        config, _ = resolve(request)
        values = config.model_dump(mode="json", by_alias=True)
        run = RunFolder.create(tmp_path, name, values)
        run.write_manifest(**manifest(values, seed=config.seed))
        return build(config, run, Console(quiet=True))

    return make


def pytest_collection_modifyitems(items) -> None:
    """Tests that need a browser can be chosen: `pytest -m browser`."""
    for item in items:
        if {"browser", "pages"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("browser")


@pytest.fixture(scope="session")
def chromium_program() -> str:
    """Chromium's program. Fixtures that a page is opened with ask for it first: without one nothing is started."""
    from browser import chromium

    return chromium()


@pytest.fixture
def browser(chromium_program):
    """A real headless Chromium with one page: see tests/browser.py."""
    from browser import Browser

    opened = Browser()
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def real_runs(tmp_path_factory) -> Path:
    """A runs folder with two recipes of two seeds each, made once by the command line; not to be changed."""
    folder = tmp_path_factory.getbasetemp().parent / "real_runs"
    folder.mkdir(exist_ok=True)
    options = [
        "training.total_steps=1536", "evaluation.episodes=3", "logging.every_steps=256", "logging.tensorboard=false",
        "checkpoint.every_steps=512", "checkpoint.keep_last=4",
        "training.phases=[{name: train, buffer: rollout, workflow_hooks: [{collect: {steps: 512}}, update,"
        " {evaluate: {every_steps: 512}}]}]",
    ]  # fmt: skip
    recipes = {"fast": [], "slow": ["optimizers.main.learning_rate=1e-5", "workflow.clip_ratio=0.1"]}
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # The other workers wait for the first one.
        if not (folder / "made").exists():
            for name, more in recipes.items():
                command = ["train", "ppo_cartpole", "--name", name, "--seed", "1,2", *options, *more]
                subprocess.run([sys.executable, "-m", "paddock", *command], cwd=folder, check=True, capture_output=True)
            (folder / "made").touch()
    return folder / "runs"


@pytest.fixture
def prepared(tmp_path):
    """Build any shipped experiment with overrides, quietly, in this process; gives its orchestrator."""

    def make(name, *overrides, run="run"):
        from rich.console import Console

        from paddock.experiments.run import RunFolder, manifest
        from paddock.orchestration.build import build
        from paddock.orchestration.launch import Request, resolve

        quiet = ["logging.terminal=false", "logging.tensorboard=false", f"runs_dir={tmp_path}"]
        config, _ = resolve(Request(name, name=run, overrides=[*quiet, *overrides]))
        values = config.model_dump(mode="json", by_alias=True)
        folder = RunFolder.create(tmp_path, run, values)
        folder.write_manifest(**manifest(values, seed=config.seed))
        return build(config, folder, Console(quiet=True))

    return make
