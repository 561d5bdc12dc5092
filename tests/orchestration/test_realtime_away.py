"""A run whose world stays away pauses with a sentence, goes on when it is back, and can be ended meanwhile."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

WORLD = """
import pathlib, time
from paddock.environments.realtime.cart import Cart

class Interface(Cart):
    def get_obs_rew_terminated_info(self):
        while pathlib.Path("away").exists():
            time.sleep(0.02)
        return super().get_obs_rew_terminated_info()
"""
OPTIONS = [
    "environment.interface=away_world:Interface", "environment.time_step_duration=0.02",
    "environment.start_obs_capture=0.02", "environment.stall_timeout=0.2", "environment.reset_timeout=0.3",
    "training.phases.seed.duration_steps=100000", "training.total_steps=100000", "logging.every_steps=20",
]  # fmt: skip


def until(holds, what, patience=90.0):
    end = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.05)


@pytest.fixture
def run(tmp_path):
    (tmp_path / "away_world.py").write_text(WORLD)
    error = (tmp_path / "stderr").open("w")
    command = [sys.executable, "-m", "paddock", "train", "sac_realtime", "--plugin", "away_world", *OPTIONS]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=error,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"},
    )  # fmt: skip
    yield process
    process.kill()
    process.wait()
    error.close()


def events(folder, name):
    files = list((folder / "runs").glob("*/events.jsonl"))
    lines = files[0].read_text().splitlines() if files else []
    return [event for line in lines if (event := json.loads(line))["event"] == name]


def steps(folder):
    files = list((folder / "runs").glob("*/metrics.jsonl"))
    lines = files[0].read_text().splitlines() if files else []
    return json.loads(lines[-1])["agent_steps"] if lines else 0


def test_a_realtime_run_pauses_while_the_world_is_away_and_ends_saved_when_interrupted(run, tmp_path):
    until(lambda: steps(tmp_path) >= 20, "the first steps")
    (tmp_path / "away").touch()
    until(lambda: events(tmp_path, "paused"), "the pause")
    paused = events(tmp_path, "paused")[0]
    assert paused["by"] == "environment"
    assert "has not come back" in paused["reason"]
    assert run.poll() is None
    before = steps(tmp_path)
    (tmp_path / "away").unlink()
    until(lambda: events(tmp_path, "continued"), "the world's return")
    until(lambda: steps(tmp_path) >= before + 20, "further steps")
    (tmp_path / "away").touch()
    until(lambda: len(events(tmp_path, "paused")) == 2, "the second pause")
    run.send_signal(signal.SIGINT)
    assert run.wait(60) == 0
    manifest = json.loads(next((tmp_path / "runs").glob("*/manifest.json")).read_text())
    assert manifest["status"] == "stopped"
    assert list((tmp_path / "runs").glob("*/checkpoints/step-*"))
    assert "paused: the interface" in (tmp_path / "stderr").read_text()
