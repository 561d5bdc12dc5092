"""Who can read what Paddock writes."""

import fcntl
import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from strangers import CARTPOLE, make_run, modes, resume

from paddock.core.files import append_line, open_to_append, write_synced
from paddock.experiments.run import RunFolder
from paddock.render.video import write_video


@pytest.fixture
def usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_run_files_are_for_their_user_alone(person, usual_umask):
    run = make_run(person / "runs", "ppo_cartpole", *CARTPOLE)
    assert modes(run) == ({"0o700"}, {"0o600"})
    before = os.umask(0o022)
    os.umask(before)
    assert before == 0o022  # The process keeps its own habit.


def test_share_lets_the_group_read_and_resume_keeps_it(person, usual_umask, paddock, tmp_path):
    done = paddock("train", "ppo_cartpole", "--name", "open", "--share", *CARTPOLE)
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").glob("open-*")
    folders, files = modes(run)
    assert folders == {"0o750"}
    assert files == {"0o640", "0o600"}
    assert stat.S_IMODE((tmp_path / "runs").stat().st_mode) == 0o750
    private = [file.name for file in run.iterdir() if file.is_file() and file.stat().st_mode & 0o777 == 0o600]
    assert private == ["lock"]
    resume(run, "training.total_steps=256")
    assert modes(run) == (folders, files)


def test_lock_is_for_its_user_alone(person, usual_umask):
    run = RunFolder.create(person / "runs", "x", {})
    with run.lock():
        assert stat.S_IMODE((run.path / "lock").stat().st_mode) == 0o600
        assert run.is_held()
    assert not run.is_held()


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("flock") is None, reason="only root can act as another user")
def test_lock_cannot_be_held_by_another_user(usual_umask):
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder), "x", {})
        with run.lock():
            pass
        for path in [*run.path.parents, run.path]:
            if path.is_relative_to(folder):
                path.chmod(0o755)  # Even where the folder is open to all.
        if subprocess.run(["test", "-x", run.path], user=65534).returncode != 0:
            pytest.skip("the folder of temporary files is closed to other users")
        nobody = subprocess.run(["flock", "-x", "-n", run.path / "lock", "true"], user=65534, capture_output=True)
        assert nobody.returncode != 0
        with run.lock():
            pass


def test_share_warns_where_the_folder_of_runs_is_closed(person, monkeypatch, caplog):
    (person / "runs").mkdir(mode=0o700)
    monkeypatch.setenv("PADDOCK_SHARE", "1")
    RunFolder.create(person / "runs", "x", {})
    assert "is closed to your group" in caplog.text


def test_lock_is_not_truncated(person):
    run = RunFolder.create(person / "runs", "x", {})
    (run.path / "lock").write_text("kept")
    with run.lock(), (run.path / "lock").open() as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert (run.path / "lock").read_text() == "kept"


@pytest.mark.parametrize(
    "write",
    [
        lambda file: append_line(file, b"x"),
        lambda file: write_synced(file, b"x"),
        lambda file: open_to_append(file).close(),
    ],
)
def test_files_are_not_written_through_links(tmp_path, write):
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(ValueError, match="nothing is written there"):
            write(tmp_path / name)
    assert (tmp_path / "precious").read_text() == "kept"


def test_video_is_not_written_through_links(tmp_path):
    (tmp_path / "precious").write_text("kept")
    videos = tmp_path / "run" / "videos"
    videos.mkdir(parents=True)
    for name in (".evaluation-1000.mp4", "evaluation-1000.mp4"):
        (videos / name).symlink_to(tmp_path / "precious")
    frames = [np.zeros((64, 64, 3), np.uint8)] * 2
    assert write_video(videos / "evaluation-1000.mp4", frames, frames_per_second=20) == 2
    assert (tmp_path / "precious").read_text() == "kept"
    (tmp_path / "run" / "linked").symlink_to(tmp_path)
    with pytest.raises(ValueError, match="is a link, not a folder"):
        write_video(tmp_path / "run" / "linked" / "x.mp4", frames, frames_per_second=20)
