"""`paddock train --seed 1,2,3`: one run per seed, one after the other or side by side, and a table over them."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from paddock.core.errors import InputError
from paddock.experiments.run import RunFolder

TINY = ["training.total_steps=512", "evaluation.episodes=2", "logging.tensorboard=false"]
ENDLESS = ["training.total_steps=100_000_000", "evaluation.episodes=2", "logging.tensorboard=false"]


def test_seeds_are_in_folder_names_and_in_a_table_at_the_end(paddock, tmp_path):
    result = paddock("train", "ppo_cartpole", "--seed", "3,4", "--name", "mine", *TINY)
    assert result.returncode == 0, result.stderr
    runs = {int(path.name.split("-")[1][1:]): RunFolder(path) for path in (tmp_path / "runs").glob("mine-s*/")}
    assert {seed: run.read_manifest()["seed"] for seed, run in runs.items()} == {3: 3, 4: 4}
    table = result.stdout.partition("seed\tstatus\tsteps\ttime\teval/return\trun\n")[2].splitlines()
    assert [line.split("\t")[0] for line in table[:3]] == ["3", "4", "mean"]
    assert table[0].endswith(runs[3].name)
    assert table[3] == "Next: paddock compare mine"
    assert RunFolder.find(tmp_path / "runs", "mine").name == runs[4].name, "the newest of the name"
    assert RunFolder.find(tmp_path / "runs", "mine-s3").name == runs[3].name
    assert paddock("compare", "mine", "--no-html").returncode == 0


def test_seeds_side_by_side_are_processes_with_logs_and_a_list_as_json(paddock, tmp_path):
    options = ["--seed", "1,2", "--jobs", "2", "--name", "both", "--runs-dir", "elsewhere", "--json"]
    result = paddock("train", "ppo_cartpole", *options, *TINY)
    assert result.returncode == 0, result.stderr
    endings = json.loads(result.stdout)
    assert [(one["seed"], one["status"], one["agent_steps"]) for one in endings] == [
        (1, "finished", 512),
        (2, "finished", 512),
    ]
    manifests = [RunFolder(tmp_path / "elsewhere" / one["run"]).read_manifest() for one in endings]
    assert len({manifest["pid"] for manifest in manifests}) == 2
    assert all("Training finished" in (tmp_path / one["log"]).read_text() for one in endings)
    assert not (tmp_path / "runs").exists()


def test_several_seeds_as_json_are_one_list(paddock):
    result = paddock("train", "ppo_cartpole", "--seed", "1,2", "--json", *TINY)
    assert [one["seed"] for one in json.loads(result.stdout)] == [1, 2]
    assert json.loads(paddock("train", "ppo_cartpole", "--seed", "7", "--json", *TINY).stdout)["seed"] == 7


def test_ctrl_c_stops_all_seeds_and_everything_is_saved(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "paddock", "train", "ppo_cartpole", "--seed", "1,2", "--jobs", "2", *ENDLESS],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    until = time.monotonic() + 120
    while len([*(tmp_path / "runs").glob("*/metrics.jsonl")]) < 2:
        assert time.monotonic() < until
        assert process.poll() is None
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=120)
    runs = [RunFolder(path.parent) for path in (tmp_path / "runs").glob("*/config.yaml")]
    assert [run.read_manifest()["status"] for run in runs] == ["stopped", "stopped"], printed
    assert all((run.checkpoints / "latest").exists() for run in runs)
    assert printed.count("paddock train --resume ppo_cartpole-s") == 2


def test_a_seed_that_fails_is_named_with_its_log(paddock, tmp_path):
    result = paddock("train", "ppo_cartpole", "environment.id=NoSuch-v0", "--seed", "1,2", "--jobs", "2", *TINY)
    assert result.returncode == 1
    assert "seed 1 failed; see runs/logs/ppo_cartpole-" in result.stdout
    log = result.stdout.partition("seed 1 failed; see ")[2].splitlines()[0]
    assert "there is no Gymnasium environment" in (tmp_path / log).read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--jobs", "2"], "--seed 1,2,3"),
        (["--seed", "1,1"], "names a seed twice"),
        (["--seed", "1,2", "--jobs", "2", "--dashboard"], "paddock dashboard"),
    ],
)
def test_seeds_and_jobs_that_make_no_sense_are_refused(paddock, tmp_path, arguments, message):
    result = paddock("train", "ppo_cartpole", *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert not (tmp_path / "runs").exists()


def test_the_newest_run_of_a_name_is_found_whatever_its_seed(tmp_path):
    for name in ("demo-s7-20260101-120000", "demo-s2-20260101-130000", "demo-20250101-120000", "demo2-20270101-120000"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text("name: demo\n")
    assert [run.name[:7] for run in RunFolder.find_all(tmp_path, "demo")] == ["demo-20", "demo-s7", "demo-s2"]
    assert RunFolder.find(tmp_path, "demo").name == "demo-s2-20260101-130000"
    with pytest.raises(InputError, match="could be any of"):
        RunFolder.find(tmp_path, "dem")
