"""The interface of docs/realtime.md works as it stands there: a cart in a process of its own, over UDP."""

import socket
import subprocess
import sys

import pytest

from documentation import run_command, section, write_files
from paddock.experiments.run import RunFolder

SHORT = ["training.total_steps=120", "training.phases.seed.duration_steps=60", "logging.tensorboard=false"]


@pytest.fixture
def port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_realtime_interface_of_ones_own_trains_as_documented(tmp_path, port):
    page = section("docs/realtime.md", "## An interface of your own")
    assert set(page.files) == {"cart_world.py", "my_robot.py"}
    write_files(page, tmp_path)
    assert len(page.files["my_robot.py"].splitlines()) <= 40
    world = subprocess.Popen([sys.executable, tmp_path / "cart_world.py", str(port)])
    try:
        (command,) = page.commands
        more = [f"environment.interface_kwargs.port={port}", "environment.ep_max_length=30", "logging.every_steps=60"]
        run_command(command, *SHORT, *more, folder=tmp_path)
    finally:
        world.kill()
        world.wait()
    run = RunFolder.find(tmp_path / "runs", "sac_realtime")
    assert run.read_manifest()["status"] == "finished"
    assert run.read_config()["environment"]["interface"] == "my_robot:Interface"
    metrics = [line for line in run.read_metrics() if "collect/realtime/send" in line]
    assert metrics
    assert 0 < metrics[-1]["collect/realtime/send"] < 0.05
