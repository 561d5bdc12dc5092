"""Campaigns on Ray: every trial once, whatever is killed; and runs that come home from another node's disk."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
import yaml

pytest.importorskip("ray", reason="needs the extra `ray`")

from paddock.core.errors import InputError, PaddockError
from paddock.distributed.ray.trials import (
    LOG,
    Delivery,
    TrialHost,
    TrialOrder,
    all_files,
    moved,
    resumed_folder,
    take_home,
    write_files,
)
from paddock.experiments.run import RunFolder
from paddock.experiments.store.store import open_store

SWEEP = {
    "base_config": "ppo_cartpole",
    "overrides": {
        "training.total_steps": 1024,
        "training.phases.train.workflow_hooks.evaluate": None,
        "workflow.epochs": 1,
        "logging.tensorboard": False,
        "checkpoint.every_steps": 512,
    },
    "parameters": {"workflow.clip_ratio": [0.1, 0.2, 0.3, 0.4]},
    "seeds": [1, 2],
    "parallel_jobs": 2,
}


def start(folder, *arguments):
    command = [sys.executable, "-m", "paddock", "sweep", "clips.yaml", *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.timeout(900)
def test_ray_sweep_of_eight_trials_that_is_killed_goes_on_and_runs_every_trial_once(tmp_path):
    (tmp_path / "clips.yaml").write_text(yaml.safe_dump(SWEEP))
    first = start(tmp_path, "--on", "ray", "--bring-home")
    runs = tmp_path / "runs"
    while not (seen := [path.parent for path in runs.glob("clips-*/manifest.json")]):
        assert first.poll() is None, first.communicate()
        time.sleep(0.1)
    first.kill()
    first.communicate()
    created = RunFolder(seen[0]).read_manifest()["created"]

    second = start(tmp_path, "--on", "ray", "--json")
    output, errors = second.communicate(timeout=800)
    assert second.returncode == 0, errors
    progress = json.loads(output)
    assert [one["status"] for one in progress] == ["finished"] * 8
    records = [one for one in open_store(runs).summaries() if one.name == "clips"]
    assert sorted(one.folder for one in records) == sorted(one["run"] for one in progress), "no run more than trials"
    assert RunFolder(seen[0]).read_manifest()["created"] == created, "what was killed was resumed, not repeated"


def test_ray_trial_runs_on_its_own_disk_and_its_run_comes_home(tmp_path):
    home = tmp_path / "runs"
    order = TrialOrder(["list", "--runs-dir", str(tmp_path)], str(tmp_path), str(tmp_path / "log"), True, {})
    host = TrialHost(order)
    assert host.run() == 0
    write_files(host_folder(host), {"a-1/manifest.json": b"{}", "a-1/checkpoints/step-1/x": b"1", "index.sqlite": b"-"})
    take_home(host.delivery(), home, tmp_path / "trial.log")
    assert sorted(all_files(home / "a-1")) == ["a-1/checkpoints/step-1/x", "a-1/manifest.json"]
    assert (tmp_path / "trial.log").exists()
    assert host.delivery().files == {}, "only what is new travels"

    (home / "a-1" / "labels.json").write_text("{}")
    (host_folder(host) / "a-1/checkpoints/step-1/x").unlink()
    write_files(host_folder(host), {"a-1/checkpoints/step-2/x": b"2"})
    take_home(host.delivery(), home, tmp_path / "trial.log")
    kept = sorted(all_files(home / "a-1"))
    assert kept == ["a-1/checkpoints/step-2/x", "a-1/labels.json", "a-1/manifest.json"]


def host_folder(host):
    from pathlib import Path

    return Path(host._away)


def test_ray_trial_cannot_write_outside_the_folder_of_runs(tmp_path):
    for path in ("../x", "/tmp/x", "a/../../x"):
        with pytest.raises(PaddockError, match="not below its folder"):
            take_home(Delivery({path: b"x"}, ()), tmp_path / "runs", tmp_path / LOG)


def test_ray_trial_commands_are_moved_to_the_nodes_folder(tmp_path):
    begins = ["train", "ppo_cartpole", "runs_dir='runs'", "seed=1"]
    assert moved(begins, tmp_path) == ["train", "ppo_cartpole", f"runs_dir='{tmp_path}'", "seed=1"]
    resumes = ["train", "--resume", "runs/clips-1"]
    assert moved(resumes, tmp_path) == ["train", "--resume", f"{tmp_path}/clips-1"]
    assert resumed_folder(begins) is None


def test_options_of_ray_campaigns_need_on_ray():
    from paddock.cli.executors import OnRay, Place, make_executor

    with pytest.raises(InputError, match="--on ray"):
        make_executor(Place.LOCAL, 1, "runs", OnRay(None, 2.0, None, False))
