"""What a run does when something under it fails: its disk, its folder, its environment. Real processes and files."""

import os
import shutil
import signal
import subprocess
import time

import pytest
from test_resume import the_run

from paddock.core.errors import PaddockError
from paddock.experiments.run import RunFolder
from paddock.orchestration.checkpoint import CheckpointConfig, CheckpointStore
from paddock.orchestration.folder_watch import Home
from warm_program import warm_program

SMALL = [
    "environment.num_envs=2",
    "workflow.rollout_steps=128",
    "workflow.minibatch_size=64",
    "components.policy.network.hidden=[8]",
    "components.value.network.hidden=[8]",
    "logging.every_steps=128",
    "evaluation.episodes=1",
    "checkpoint.every_steps=128",
]
ENDLESS = [*SMALL, "training.total_steps=1_000_000"]

ENVIRONMENTS = '''
"""Environments that go wrong after a while, each in its own way."""
import os
import sys
import time

import gymnasium
import numpy as np


class Bad(gymnasium.Env):
    def __init__(self, kind="raise", after=100, render_mode=None):
        if kind == "make":
            raise KeyError("no engine")
        self.kind, self.after, self.steps = kind, after, 0
        self.observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.kind == "reset":
            raise ValueError("no grid to stand on")
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.steps += 1
        observation, reward = np.zeros(3, np.float32), 1.0
        if self.steps > self.after:
            if self.kind == "raise":
                raise RuntimeError("the gearbox fell out")
            if self.kind == "hang":
                while True:
                    time.sleep(1)
            if self.kind == "exit":
                os._exit(7)
            if self.kind == "leave":
                sys.exit(9)
            if self.kind == "text":
                reward = "a lot"
            if self.kind == "shape":
                observation = np.zeros(5, np.float32)
        return observation, reward, False, self.steps % 20 == 0, {}


gymnasium.register("Bad-v0", entry_point="bad_environments:Bad")
'''


STARTED = []


@pytest.fixture(autouse=True)
def nothing_goes_on():
    """Runs without an end do not outlive a test that failed."""
    yield
    for process in STARTED:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    STARTED.clear()


def start(folder, *arguments):
    environment = {**os.environ, "COLUMNS": "500", "PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}"}
    process = warm_program().start(["train", *arguments], folder, folder / "output.txt", environment)
    STARTED.append(process)
    return process


def wait_until(is_so, process):
    while not is_so():
        assert process.poll() is None, "the run ended too early"
        time.sleep(0.02)


def rows(folder):
    files = list(folder.glob("runs/*/metrics.jsonl"))
    return files[0].read_bytes().count(b"\n") if files else 0


def ended_badly(folder, process):
    """What the run said when it ended with 1; one sentence, and nothing left that says it still runs."""
    assert process.wait(timeout=120) == 1
    said = (folder / "output.txt").read_text()
    assert "Traceback" not in said
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, said
    return errors[0]


# --- disks and folders ---


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 3 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder]).returncode:
        pytest.skip("no file system may be mounted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(folder):
    """Leave not one byte."""
    with (folder / "filler").open("wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


@pytest.mark.parametrize("tensorboard", ["true", "false"])
def test_a_full_disk_while_logging_is_a_sentence_and_a_failed_run_that_can_be_resumed(small_disk, paddock, tensorboard):
    logged = ["checkpoint.every_steps=1_000_000", "checkpoint.every_seconds=null", f"logging.tensorboard={tensorboard}"]
    process = start(small_disk, "ppo_cartpole", *ENDLESS, *logged)
    wait_until(lambda: rows(small_disk) >= 2, process)
    fill(small_disk)
    assert process.wait(timeout=120) == 1
    run = the_run(small_disk)
    manifest = run.read_manifest()
    assert manifest["status"] == "failed"
    assert "No space left on device" in manifest["error"]
    assert run.read_events()[-1]["event"] == "failed"
    left = {path.name for path in run.path.iterdir()}
    assert not left & {"channel.json", ".reserve"}

    (small_disk / "filler").unlink()
    resumed = paddock("train", "--resume", str(run.path), "training.total_steps=1_024")
    assert resumed.returncode == 0, resumed.stderr
    assert [row["agent_steps"] for row in run.read_metrics()][:3] == [128, 256, 384]
    assert run.read_manifest()["status"] == "finished"


def test_a_full_disk_is_told_on_the_terminal_in_one_sentence(small_disk, tmp_path):
    process = start(tmp_path, "ppo_cartpole", *ENDLESS, "checkpoint.every_steps=1_000_000", f"runs_dir={small_disk}")
    wait_until(lambda: len(list(small_disk.glob("*/metrics.jsonl"))) == 1, process)
    fill(small_disk)
    assert "No space left on device. What was saved before is whole" in ended_badly(tmp_path, process)


def test_a_read_only_run_folder_cannot_be_resumed_and_says_so(small_disk, paddock):
    trained = paddock("train", "ppo_cartpole", *SMALL, "training.total_steps=256", f"runs_dir={small_disk}")
    assert trained.returncode == 0, trained.stderr
    (path,) = small_disk.glob("ppo_cartpole-*")
    before = RunFolder(path).read_manifest()
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    refused = paddock("train", "--resume", str(path), "training.total_steps=512")
    assert refused.returncode == 2
    assert "Read-only file system" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert RunFolder(path).read_manifest() == before


def test_a_run_folder_that_is_moved_ends_the_run_without_a_second_folder(tmp_path, paddock):
    process = start(tmp_path, "ppo_cartpole", *ENDLESS)
    wait_until(lambda: any(tmp_path.glob("runs/*/checkpoints/latest/checkpoint.json")), process)
    run = the_run(tmp_path)
    run.path.rename(tmp_path / "moved")
    said = ended_badly(tmp_path, process)
    assert f"was moved to '{tmp_path / 'moved'}' while it ran" in said
    assert not run.path.exists()
    moved = RunFolder(tmp_path / "moved")
    assert moved.read_manifest()["status"] == "failed"
    assert not (moved.path / "channel.json").exists()
    assert CheckpointStore(moved.checkpoints, CheckpointConfig()).load() is not None
    steps = moved.read_manifest()["agent_steps"]
    resumed = paddock("train", "--resume", str(moved.path), f"training.total_steps={steps + 256}")
    assert resumed.returncode == 0, resumed.stderr


def test_a_run_folder_that_is_deleted_ends_the_run(tmp_path):
    process = start(tmp_path, "ppo_cartpole", *ENDLESS)
    wait_until(lambda: rows(tmp_path) >= 1, process)
    run = the_run(tmp_path)
    process.send_signal(signal.SIGSTOP)  # Else it writes another file while they are deleted.
    shutil.rmtree(run.path)
    process.send_signal(signal.SIGCONT)
    assert "was deleted while it ran" in ended_badly(tmp_path, process)
    assert not run.path.exists()


def test_a_logger_that_cannot_be_closed_does_not_hide_the_first_error(experiment, caplog):
    orchestrator = experiment()

    class Stubborn:
        def log(self, row):
            raise PaddockError("the first error")

        def close(self):
            raise OSError(28, "No space left on device")

    orchestrator._make_loggers = lambda steps: [Stubborn()]
    with pytest.raises(PaddockError, match="the first error"):
        orchestrator.run()
    assert "No space left on device" in caplog.text
    assert orchestrator.run_folder.read_manifest()["status"] == "failed"
    assert not (orchestrator.run_folder.path / "channel.json").exists()


# --- environments ---


@pytest.fixture
def bad(tmp_path):
    (tmp_path / "bad_environments.py").write_text(ENVIRONMENTS)

    def run(kind, vectorization="sync", *more):
        made = ["environment.id=bad_environments:Bad-v0", f"+environment.arguments.kind={kind}"]
        return start(
            tmp_path, "ppo_cartpole", *ENDLESS, *made, f"environment.vectorization={vectorization}",
            "logging.tensorboard=false", *more,
        )  # fmt: skip

    return run


WRONGS = {
    "raise": "raised RuntimeError: the gearbox fell out in step",
    "text": "could not convert string to float: 'a lot'",
    "shape": "does not fit its spaces: ValueError",
    "leave": "raised SystemExit(9) in step",
    "reset": "raised ValueError: no grid to stand on in reset",
    "raise in a process": "raised RuntimeError: the gearbox fell out in step",
    "shape in a process": "(5,) into shape (3,) in step",
    "exit in a process": "a process of environment 'bad_environments:Bad-v0' died in step (exit code 7)",
}


@pytest.mark.parametrize("wrong", WRONGS)
def test_an_environment_that_goes_wrong_is_named_in_one_sentence(bad, tmp_path, wrong):
    kind, _, process = wrong.partition(" in a ")
    said = ended_badly(tmp_path, bad(kind, "async" if process else "sync"))
    assert "environment 'bad_environments:Bad-v0'" in said
    assert WRONGS[wrong] in said
    run = the_run(tmp_path)
    assert run.read_manifest()["status"] == "failed"
    assert not (run.path / "channel.json").exists()
    (kept,) = run.faults.glob("step-*/traceback.txt")
    assert f"'{kept.relative_to(tmp_path)}'" in said
    if wrong != "exit in a process":
        assert "bad_environments.py" in kept.read_text() or "shape" in wrong or "text" in wrong
    if wrong != "reset":
        checkpoint = CheckpointStore(run.checkpoints, CheckpointConfig()).load()
        assert checkpoint.state["counters"]["agent_steps"] == 128
        assert len(run.read_metrics()) == 1


def test_an_environment_that_cannot_be_made_is_named_with_its_line(bad, tmp_path):
    process = bad("make")
    assert process.wait(timeout=120) == 2
    said = (tmp_path / "output.txt").read_text()
    assert "environment 'bad_environments:Bad-v0' cannot be made: KeyError: 'no engine' (" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_the_first_interrupt_ends_a_run_whose_environment_hangs(bad, tmp_path, vectorization):
    process = bad("hang", vectorization)
    wait_until(lambda: rows(tmp_path) >= 1, process)
    time.sleep(1.0)
    os.killpg(process.pid, signal.SIGINT)  # As a terminal does: to the environments' processes as well.
    said = ended_badly(tmp_path, process)
    assert "did not come back from step" in said
    assert "Ctrl-C once more exits at once" in (tmp_path / "output.txt").read_text()
    run = the_run(tmp_path)
    assert run.read_manifest()["status"] == "failed"
    assert CheckpointStore(run.checkpoints, CheckpointConfig()).load() is not None


def test_an_interrupt_lets_an_environment_in_processes_save_and_leave(tmp_path):
    process = start(tmp_path, "ppo_cartpole", *ENDLESS, "environment.vectorization=async")
    wait_until(lambda: rows(tmp_path) >= 1, process)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=120) == 0
    assert "Traceback" not in (tmp_path / "output.txt").read_text()
    assert the_run(tmp_path).read_manifest()["status"] == "stopped"


def test_a_reward_of_ones_own_that_leaves_the_program_is_told(tmp_path):
    (tmp_path / "mine.py").write_text("import sys\n\ndef mine(car):\n    sys.exit(7)\n")
    process = start(
        tmp_path, "racing", "+reward.custom.mine={function: 'mine.py:mine', weight: 1.0}", "environment.num_envs=2",
        "workflow.rollout_steps=64", "logging.tensorboard=false",
    )  # fmt: skip
    assert process.wait(timeout=240) in (1, 2)
    said = (tmp_path / "output.txt").read_text()
    assert "mine.py, line 4, in mine: SystemExit: 7" in said
    assert "Traceback" not in said


def test_files_that_a_kill_left_half_written_are_removed_by_the_next_process(tmp_path):
    run = RunFolder.create(tmp_path, "killed", {"schema_version": 3})
    (run.path / ".manifest.json.4711.123456789").write_text("{")
    (run.path / ".own_notes").write_text("kept")
    home = Home(run)
    home.open()
    home.close()
    assert not list(run.path.glob(".manifest*"))
    assert (run.path / ".own_notes").read_text() == "kept"
    assert run.manifest_file.exists() or run.config_file.exists()
