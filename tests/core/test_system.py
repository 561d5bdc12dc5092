"""What differs between operating systems: locks between real processes, and the lab without what Windows lacks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.core.system import lock, open_file, read_at

WINDOWS_LIKE = Path(__file__).parents[1] / "windows_like"
HOLDER = """
import os, sys
from paddock.core.system import lock, open_file
held = open_file(sys.argv[1], os.O_RDWR | os.O_CREAT)
assert lock(held)
print("held", flush=True)
sys.stdin.read()
"""


def like_windows(**more: str) -> dict[str, str]:
    paths = [str(WINDOWS_LIKE), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "COLUMNS": "200", **more}


@pytest.mark.parametrize("environment", [dict(os.environ), like_windows()], ids=["unix", "windows_like"])
def test_a_lock_is_held_by_one_process_until_it_ends(tmp_path, environment):
    file = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDER, str(file)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    assert holder.stdout.readline() == b"held\n"
    second = subprocess.run(command, capture_output=True, text=True, env=environment, input="")
    assert "AssertionError" in second.stderr
    holder.kill()
    holder.communicate()
    assert subprocess.run(command, capture_output=True, text=True, env=environment, input="").returncode == 0


def test_a_shared_lock_does_not_keep_out_another_shared_one(tmp_path):
    descriptors = [open_file(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(3)]
    assert lock(descriptors[0], shared=True)
    assert lock(descriptors[1], shared=True)
    assert not lock(descriptors[2])
    for descriptor in descriptors:
        os.close(descriptor)


def test_open_file_follows_no_link_and_read_at_leaves_bytes_as_they_are(tmp_path):
    (tmp_path / "file").write_bytes(b"one\r\ntwo\n")
    (tmp_path / "link").symlink_to("file")
    with pytest.raises(OSError, match="symbolic links"):
        open_file(tmp_path / "link", os.O_RDONLY)
    descriptor = open_file(tmp_path / "file", os.O_RDONLY)
    assert read_at(descriptor, 4, 3) == b"\r\ntw"
    os.close(descriptor)


def test_paddock_trains_resumes_and_lists_without_what_windows_lacks(tmp_path):
    def paddock(*arguments: str) -> str:
        command = [sys.executable, "-m", "paddock", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=like_windows(), capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    small = ["environment.num_envs=4", "evaluation.episodes=1", "logging.tensorboard=false"]
    paddock("train", "ppo_cartpole", "--name", "here", "training.total_steps=1024", *small)
    run = next((tmp_path / "runs").glob("here*"))
    assert not (run / "checkpoints" / "latest").exists()  # Links are not allowed; the newest is found without one.
    paddock("train", "--resume", run.name, "training.total_steps=2048")
    assert "2,048" in paddock("list")


def test_workers_collect_without_what_windows_lacks(tmp_path):
    arguments = ["train", "sac_pendulum", "experience=workers", "experience.workers=1", "training.total_steps=600"]
    small = ["training.phases.seed.duration_steps=300", "evaluation.episodes=1", "logging.tensorboard=false"]
    done = subprocess.run(
        [sys.executable, "-m", "paddock", *arguments, *small],
        cwd=tmp_path, env=like_windows(), capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
