"""What several tests use: runs made in a temporary folder, and the command line as a person runs it."""

from __future__ import annotations

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
