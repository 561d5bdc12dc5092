"""Several learners: two ranks against one, a rank that is killed, and a resume with another number of ranks."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from learner_cases import CASES, collected, largest_difference, losses_of
from paddock.core.errors import InputError, PaddockError
from paddock.experiments.run import RunFolder
from paddock.orchestration.launch import Request, new_run, resolve, resumed_run

SMALL = [
    "logging.terminal=false", "logging.tensorboard=false", "logging.every_steps=64", "environment.num_envs=2",
    "workflow.rollout_steps=64", "workflow.minibatch_size=16", "workflow.epochs=1", "evaluation.episodes=1",
    "checkpoint.every_steps=null", "checkpoint.every_seconds=null",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _find_tasks(monkeypatch):
    """The other ranks import the tests' tasks, too."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*sys.path, str(Path(__file__).parents[1])]))


@pytest.mark.parametrize("case", CASES)
def test_learners_two_ranks_learn_what_one_learns(prepared, case):
    expected = losses_of(*collected(prepared, case, run="one"))
    run, phase = collected(prepared, case, "learners=2", run="two")
    try:
        assert largest_difference(losses_of(run, phase), expected) < 1e-5
    finally:
        run.ranks.close()
    assert not _children()


def test_learners_a_killed_rank_ends_the_run_which_resumes_with_two_and_with_one(tmp_path):
    request = Request("ppo_cartpole", name="run", overrides=[*SMALL, "learners=2", "training.total_steps=1_000_000"])
    config, _ = resolve(Request(**{**vars(request), "overrides": [*request.overrides, f"runs_dir={tmp_path}"]}))
    with new_run(config, Console(quiet=True), request) as run:
        _kill_after(run, updates=20)
        with pytest.raises(PaddockError, match=r"learner 1 of 2 was killed \(SIGKILL\), after .* learners=1"):
            run.run()
        folder = run.run_folder
    assert not _children()
    manifest = folder.read_manifest()
    assert (manifest["status"], manifest["learners"]) == ("failed", 2)
    assert "is saved in 'step-" in manifest["error"]
    for learners in (2, 1):
        steps = folder.read_manifest()["agent_steps"] + 128
        changes = [f"learners={learners}", f"training.total_steps={steps}"]
        with resumed_run(RunFolder(folder.path), changes, Console(quiet=True)) as resumed:
            outcome = resumed.run()
        assert outcome.counters.agent_steps >= steps
        assert folder.read_manifest()["learners"] == learners
    assert not _children()


def test_learners_of_torchrun_are_the_ranks_of_the_run(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", "-m", "paddock"]
    command += ["train", "ppo_cartpole", "--name", "run", *SMALL, "training.total_steps=128", f"runs_dir={tmp_path}"]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=240, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert ended.returncode == 0, ended.stderr
    (folder,) = tmp_path.glob("run-*")
    manifest = RunFolder(folder).read_manifest()
    assert (manifest["status"], manifest["learners"], manifest["agent_steps"]) == ("finished", 2, 128)


def test_learners_are_refused_where_updates_are_not_shared(prepared):
    with pytest.raises(InputError, match=r"learners = 2 cannot be used with TDMPC.* workflow=ppo, sac"):
        prepared("tdmpc2_pendulum", "learners=2")


def _kill_after(run, updates):
    """Kill the other rank inside of an update, once there were so many."""
    descend = run.workflow.optimizer.descend

    def killing(*arguments):
        if run.counters.updates >= updates:
            for child in _children():
                child.send_signal(signal.SIGKILL)
        return descend(*arguments)

    run.workflow.optimizer.descend = killing


def _children():
    return [child for child in psutil.Process().children() if "follower" in " ".join(child.cmdline())]
