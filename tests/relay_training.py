"""Trainer, relay and two workers as real processes, killed again and again; then every transition is counted."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import counting_task
from warm_program import WarmProcess, warm_program

CONFIG = """
# @package _global_
defaults: [sac_pendulum, _self_]
environment: {id: "counting_task:Counting-v0", num_envs: 1}
components: {policy: {network: {hidden: [8]}}, critics: {hidden: [8]}}
experience: {chunk_steps: 16, chunk_seconds: 0.2, publish_every: 5, ahead_steps: 100_000}
buffers: {replay: {batch_size: 8, capacity: 1_000_000}}
training:
  total_steps: 100_000_000
  phases:
    seed: {duration_steps: 32}
    joint: {workflow_hooks: {collect: {steps: 16}, update: {ratio: 0.05}, evaluate: null}}
checkpoint: {every_steps: null, every_seconds: 1.0}
logging: {every_steps: 50, tensorboard: false}
"""


@dataclass
class Cluster:
    """The processes of one training, each started again after its end."""

    folder: Path
    workers: int = 2
    processes: dict[str, WarmProcess] = field(default_factory=dict)
    relay_folder: str = "relay"  # where trainer and workers look for the relay's address

    def __post_init__(self) -> None:
        (self.folder / "lives").mkdir(parents=True)
        (self.folder / "own.yaml").write_text(CONFIG)

    @property
    def names(self) -> list[str]:
        return ["relay", "trainer", *(f"worker-{number}" for number in range(self.workers))]

    def start(self, name: str) -> None:
        relay = ["--relay-folder", str(self.folder / self.relay_folder)]
        own = ["--config", str(self.folder / "own.yaml"), "--plugin", "counting_task"]
        command = {
            "relay": ["relay", "--port", "0", "--config-folder", str(self.folder / "relay")],
            "trainer": self._trainer(own),
        }.get(name) or ["worker", *own, *relay, "--name", name, "--spool", str(self.folder / name)]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
            "PADDOCK_HOME": str(self.folder / "home"),
            "OMP_NUM_THREADS": "1",
            counting_task.VARIABLE: str(self.folder / "lives"),
        }
        log = self.folder / f"{name}.log"
        self.processes[name] = warm_program().start(command, self.folder, log, environment)

    def start_relay(self) -> None:
        """The relay first: trainer and workers look for its address."""
        self.start("relay")
        deadline = time.monotonic() + 60
        while not (self.folder / "relay" / "local.json").exists():
            assert time.monotonic() < deadline, self.report()
            assert not self.ended(), self.report()
            time.sleep(0.05)

    def start_others(self) -> None:
        for name in self.names[1:]:
            self.start(name)

    def _trainer(self, own: list[str]) -> list[str]:
        run = self.run_folder()
        if run is None:
            relay = [f"experience.relay_folder={self.folder / self.relay_folder}"]
            return ["trainer", *own, "--name", "killed", *relay]
        return ["trainer", "--resume", str(run), "--plugin", "counting_task"]

    def run_folder(self) -> Path | None:
        found = sorted((self.folder / "runs").glob("killed-*")) if (self.folder / "runs").exists() else []
        return found[0] if found and (found[0] / "manifest.json").exists() else None

    def kill(self, name: str) -> None:
        process = self.processes[name]
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.wait()

    def ended(self) -> list[str]:
        return [name for name, process in self.processes.items() if process.poll() is not None]

    def wait_until_learning(self, seconds: float) -> None:
        """Until every worker has made steps and the trainer has logged something since now."""
        before, lives = self._logged(), self._steps_begun()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            moving = sum(count > lives.get(life, 0) for life, count in self._steps_begun().items())
            if self._logged() > before and moving >= self.workers:
                return
            if ended := self.ended():
                raise AssertionError(f"{ended} ended:\n{self.report()}")
            time.sleep(0.2)
        raise AssertionError(f"training did not go on within {seconds} s:\n{self.report()}")

    def _logged(self) -> int:
        run = self.run_folder()
        file = run / "metrics.jsonl" if run is not None else None
        return file.stat().st_size if file is not None and file.exists() else 0

    def _steps_begun(self) -> dict[int, int]:
        return steps_begun(self.folder / "lives")

    def stop(self, seconds: float = 60.0) -> None:
        """Ask the workers to end, which hand over what they have; then the trainer; then the relay."""
        for group in ([name for name in self.names if name.startswith("worker")], ["trainer"], ["relay"]):
            for name in group:
                self.processes[name].send_signal(signal.SIGINT)
            for name in group:
                code = self.processes[name].wait(seconds)
                assert code == 0, f"{name} ended with {code}:\n{self.report()}"

    def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()

    def report(self) -> str:
        parts = []
        for name in self.names:
            log = self.folder / f"{name}.log"
            text = log.read_text(errors="replace")[-1_500:] if log.exists() else ""
            parts.append(f"--- {name}\n{text}")
        return "\n".join(parts)


def kill_at_random(cluster: Cluster, kills: int, seconds: float, seed: int) -> list[str]:
    """Kill one process after the other at random instants and start it again; which ones."""
    chance, killed = random.Random(seed), []
    order = (cluster.names * kills)[:kills]
    chance.shuffle(order)
    for name in order:
        time.sleep(chance.uniform(0.5, 1.5) * seconds / kills)
        cluster.kill(name)
        killed.append(name)
        cluster.start(name)
    return killed


def transitions_in_buffer(run: Path) -> np.ndarray:
    """(life, step) of every transition in the newest checkpoint's buffer, in the order in which they arrived."""
    from rich.console import Console

    from paddock.config.plugins import register_plugins
    from paddock.experiments.run import RunFolder
    from paddock.orchestration.launch import resumed_run

    register_plugins(["counting_task"])
    quiet = ["logging.terminal=false"]
    with resumed_run(RunFolder(run), quiet, Console(quiet=True), trusts=True) as orchestrator:
        replay = orchestrator.context.buffers["replay"]
        rows = np.arange(replay.oldest, replay.total)
        valid = replay._arrays["valid"][rows % replay.rows, 0]
        observed = replay._observation["observation"][rows % (replay.rows + 1), 0]
        orchestrator.context.experience.close()
    return observed[valid].astype(int)


def steps_begun(lives: Path) -> dict[int, int]:
    """How many steps every process began that ever made an environment."""
    return {int(file.name.removeprefix("life-")): int(file.read_text() or 0) for file in lives.glob("life-*")}


def check_counts(found: np.ndarray, lives: Path) -> dict[str, int]:
    """No transition twice, and none missing between others of its process."""
    assert len(np.unique(found, axis=0)) == len(found), "a transition is in the buffer twice"
    begun = steps_begun(lives)
    for life in begun:
        steps = found[found[:, 0] == life][:, 1]
        assert np.array_equal(steps, np.arange(len(steps))), f"process {life} has a hole in its steps, or another order"
    return {"begun": sum(begun.values()), "in the buffer": len(found), "processes": len(begun)}
