"""The command line as a person uses it: real processes, read output, exit codes."""

import json
import os
import pty
import re
import subprocess
import sys
from itertools import pairwise

import pytest
import yaml

from paddock.experiments.run import RunFolder

LONG_ROLLOUT = [
    "training.total_steps=24_000",
    "workflow.rollout_steps=24_000",
    "workflow.minibatch_size=2_000",
    "workflow.epochs=1",
]
TINY = ["training.total_steps=1024", "evaluation.episodes=3", "logging.every_steps=512", "logging.tensorboard=false"]


def test_a_newcomer_trains_is_told_what_was_learned_and_what_to_type_next(paddock, tmp_path):
    result = paddock("train", "ppo_cartpole", *TINY)
    assert result.returncode == 0, result.stderr
    assert "train  step 512" in result.stdout
    assert "steps/s" in result.stdout
    assert "Training finished" in result.stdout
    assert "Return while learning" in result.stdout
    (run,) = (tmp_path / "runs").glob("*/")
    assert f"paddock evaluate runs/{run.name} --video" in result.stdout

    evaluated = paddock("evaluate", run.name, "--episodes", "4", "--video", "--json")
    assert evaluated.returncode == 0, evaluated.stderr
    values = json.loads(evaluated.stdout)
    assert len(values["returns"]) == 4
    assert values["protocol"] == {"episodes": 4, "seed": 1000, "deterministic": True}
    assert (tmp_path / values["video"]).stat().st_size > 1000
    assert re.search(r"filming evaluation-1000.mp4: \d+ frames, done", evaluated.stderr)

    table = paddock("evaluate", str(run / "policy" / "latest"), "--stochastic", "--episodes", "2")
    assert "eval/return" in table.stdout
    assert "sampled" in table.stdout
    random = paddock("evaluate", run.name, "controller=random", "--episodes", "2", "--json")
    assert json.loads(random.stdout)["eval/return"] < 100


def test_train_takes_runs_dir_as_every_other_command(paddock, tmp_path):
    result = paddock("train", "ppo_cartpole", "--name", "mine", "--runs-dir", "it's/here", *TINY)
    assert result.returncode == 0, result.stderr
    (path,) = (tmp_path / "it's" / "here").glob("mine-*/")
    longer = ["training.total_steps=1536", "--json"]
    resumed = paddock("train", "--resume", "mine", "--runs-dir", "it's/here", *longer)
    assert json.loads(resumed.stdout)["agent_steps"] == 1536
    assert RunFolder(path).read_manifest()["agent_steps"] == 1536
    assert not (tmp_path / "runs").exists()


def test_what_would_be_run_is_shown_with_origins_and_loads_as_yaml(paddock, tmp_path):
    result = paddock("train", "ppo_cartpole", "--preset", "smoke", "--print-config", "workflow.clip_ratio=0.3")
    assert result.returncode == 0, result.stderr
    values = yaml.safe_load(result.stdout)
    assert values["workflow"]["clip_ratio"] == 0.3
    assert values["training"]["total_steps"] == 8192
    lines = {line.split("#")[0].strip(): line for line in result.stdout.splitlines()}
    assert lines["clip_ratio: 0.3"].endswith("# command line")
    assert lines["total_steps: 8192"].endswith("# preset/smoke.yaml:4")
    assert not (tmp_path / "runs").exists()


def test_a_run_that_its_time_limit_ended_says_so_and_how_far_it_came(paddock):
    result = paddock("train", "ppo_cartpole", *TINY, "training.total_steps=1_000_000", "training.max_seconds=2")
    assert re.search(r"Stopped at its time limit \(\d %+ of steps\)", result.stdout)
    assert "Training finished" not in result.stdout
    assert "training.max_seconds=4" in result.stdout
    assert re.search(r"Last evaluation +eval/return [\d.]+ ± [\d.]+; the best was [\d.]+", result.stdout)


def test_the_experiments_that_ship_are_listed(paddock):
    result = paddock("train", "--list")
    assert "ppo_cartpole" in result.stdout
    assert "PPO balances a pole" in result.stdout
    assert "ppo_cartpole" in json.loads(paddock("train", "--list", "--json").stdout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "ppo_cartpol"], "Did you mean 'ppo_cartpole'?"),
        (["train"], "say what to train"),
        (["train", "ppo_cartpole", "workflow.cilp=1", "seed=x"], "has 2 problems"),
        (["train", "ppo_cartpole", "environment.id=CartPol-v1"], "Did you mean 'CartPole-v1'?"),
        (["train", "ppo_cartpole", "environment.id=NoSuch-v0"], "The closest ids: "),
        (["train", "ppo_cartpole", "learning_rate=0.1"], "Did you mean 'optimizers.main.learning_rate'?"),
        (["train", "ppo_cartpole", "learning_rat=0.1"], "Did you mean 'optimizers.main.learning_rate'?"),
        (["train", "ppo_cartpole", "--runs-dir", "/dev/null/x"], "no run can be written"),
        (["train", "ppo_cartpole", "--seed", "a"], "--seed 'a'"),
        (["train", "ppo_cartpole", "--preset", "smok"], "Did you mean 'smoke'?"),
        (["train", "ppo_cartpole", "--name", "../x"], "cannot name a run"),
        (["train", "ppo_cartpole", "runs_dir=/dev/null/x"], "no run can be written"),
        (["train", "ppo_cartpole", "ppo_pendulum"], "one experiment at a time"),
        (["train", "--config", "nowhere.yaml"], "neither a file nor a directory"),
        (["train", "--resume", "nothing"], "there is no run 'nothing'"),
        (["evaluate", "nothing"], "there is no run 'nothing'"),
    ],
)
def test_bad_input_gets_one_readable_message_exit_code_2_and_writes_nothing(paddock, tmp_path, arguments, message):
    result = paddock(*arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not list((tmp_path / "runs").glob("*")) if (tmp_path / "runs").exists() else True


def test_an_unknown_verb_is_refused(paddock):
    assert paddock("trian").returncode == 2


def test_on_a_terminal_there_is_a_progress_bar(tmp_path):
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "paddock", "train", "ppo_cartpole", *TINY, *LONG_ROLLOUT, "evaluation.episodes=500"],
        cwd=tmp_path,
        stdout=follower,
        stderr=follower,
        env={**os.environ, "COLUMNS": "80", "TERM": "xterm-256color"},
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            chunk = os.read(leader, 4096)
        except OSError:  # The other side has closed.
            break
        if not chunk:
            break
        shown += chunk
    assert process.wait() == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    lines = [line for line in text.replace("\r", "\n").splitlines() if "━" in line]
    assert lines
    assert all(re.search(r"^\w+ .*━.* \d+ % .* elapsed .* left", line) for line in lines), lines
    assert any("evaluating" in line for line in lines)
    assert "steps/s" in text
    assert "Training finished" in text
    ticks = sorted({int(found) for found in re.findall(r"(\d+) s elapsed", text)})
    gaps = [later - earlier for earlier, later in pairwise(ticks)]
    assert max(gaps) <= 2, (
        "frames keep coming, also while steps are being collected"
    )  # a busy machine may miss a second


def test_a_misspelt_command_is_told_what_was_meant(paddock):
    result = paddock("dashbord")
    assert result.returncode == 2
    assert "Did you mean 'dashboard'?" in result.stderr
