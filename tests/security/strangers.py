"""Runs and policies as they come from somebody else: made under another PADDOCK_HOME, then tampered with."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

CARTPOLE = [
    "environment.num_envs=2",
    "workflow.rollout_steps=64",
    "workflow.minibatch_size=64",
    "workflow.epochs=1",
    "training.total_steps=128",
    "evaluation.episodes=1",
    "logging.every_steps=64",
    "logging.terminal=false",
    "logging.tensorboard=false",
]
RACING = [*CARTPOLE, "environment.track=oval", "environment.num_envs=4"]


def make_run(folder: Path, experiment: str, *overrides: str, name: str = "shared") -> Path:
    """A run, trained for a moment in this process; its folder."""
    from paddock.orchestration.launch import Request, new_run, resolve

    request = Request(experiment, name=name, overrides=[*overrides, f"runs_dir={folder}"])
    config, _ = resolve(request)
    with new_run(config, Console(quiet=True), request) as orchestrator:
        orchestrator.run()
    return orchestrator.run_folder.path


def resume(run: Path, *overrides: str, trusts: bool = False) -> Any:
    """Go on with a run in this process; its orchestrator."""
    from paddock.experiments.run import RunFolder
    from paddock.orchestration.launch import resumed_run

    with resumed_run(RunFolder(run), overrides, Console(quiet=True), trusts=trusts) as orchestrator:
        orchestrator.run()
    return orchestrator


def tampered(source: Path, target: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A copy of a run whose configuration was changed by hand."""
    shutil.copytree(source, target, symlinks=True)
    values = yaml.safe_load((target / "config.yaml").read_text())
    change(values)
    (target / "config.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    return target


def tampered_policy(source: Path, target: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A copy of a policy whose description was changed by hand."""
    shutil.copytree(source, target)
    values = json.loads((target / "policy.json").read_text())
    change(values)
    (target / "policy.json").write_text(json.dumps(values))
    return target


def trap(folder: Path, name: str = "notes.py") -> Path:
    """A Python file that leaves a marker when it is run; the marker."""
    marker = folder / "MARKER"
    touch = f"import pathlib\npathlib.Path({str(marker)!r}).touch()\n"
    (folder / name).write_text(touch + "def f(car):\n    return 0.0\ndef drive(seen):\n    return None\n")
    return marker


class Catcher:
    """A server on this machine that notes what is sent to it."""

    def __init__(self) -> None:
        caught: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                caught.append(self.path)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *arguments: Any) -> None:
                pass

        self.caught = caught
        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def modes(folder: Path) -> tuple[set[str], set[str]]:
    """The modes of all folders, the first one included, and of all files below one."""
    folders = {oct(os.lstat(parent).st_mode & 0o777) for parent, _, _ in os.walk(folder)}
    files = [Path(parent, name) for parent, _, names in os.walk(folder) for name in names]
    return folders, {oct(file.lstat().st_mode & 0o777) for file in files if not file.is_symlink()}
