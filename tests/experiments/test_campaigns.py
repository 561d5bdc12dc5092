"""Sweeps and searches: what they run, what a kill costs, what a failure costs."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import yaml

from paddock.core.errors import InputError
from paddock.experiments.campaigns.sweep import SweepConfig
from paddock.experiments.campaigns.trials import Campaign, Trial, checked_campaign, override_value, read_campaign
from paddock.experiments.campaigns.tune import Attempt, JournalLock, TuneConfig, open_study
from paddock.experiments.report.tune import write_tune_report
from paddock.experiments.run import RunFolder
from paddock.experiments.store.store import open_store

EVALUATING = [
    {"name": "train", "buffer": "rollout",
     "workflow_hooks": [{"collect": {"steps": 512}}, "update", {"evaluate": {"every_steps": 512}}]}
]  # fmt: skip
BASE = {
    "base_config": "ppo_cartpole",
    "overrides": {
        "training.total_steps": 1536,
        "training.phases": EVALUATING,
        "workflow.epochs": 2,
        "evaluation.episodes": 2,
        "logging.every_steps": 512,
        "logging.tensorboard": False,
    },
}


def write(folder, name, **values):
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump({**BASE, **values}))
    return file


def start(folder, verb, file, *arguments):
    command = [sys.executable, "-m", "paddock", verb, str(file), *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_grid_a_list_and_ranges():
    grid = SweepConfig(name="x", base_config="b", seeds=[1, 2], parameters={
        "a": [1, 2], "b": {"range": {"low": 1e-4, "high": 1e-2, "count": 3, "scale": "log"}}})  # fmt: skip
    assert len(grid.trials()) == 2 * 3 * 2
    assert sorted({trial.values["b"] for trial in grid.trials()}) == [1e-4, 1e-3, 1e-2]
    steps = SweepConfig(name="x", base_config="b", parameters={"a": {"range": {"low": 1, "high": 7, "step": 3}}})
    assert [trial.values["a"] for trial in steps.trials()] == [1, 4, 7]
    pairs = SweepConfig(name="x", base_config="b", combine="list", parameters={"a": [1, 2], "b": [3, 4]})
    assert [trial.values for trial in pairs.trials()] == [{"a": 1, "b": 3}, {"a": 2, "b": 4}]


def test_a_trial_is_the_same_trial_whatever_else_changes(tmp_path):
    one = SweepConfig(name="x", base_config="b", parameters={"a": [1, 2]})
    more = SweepConfig(name="x", base_config="b", parameters={"a": [0, 2, 1]}, seeds=[1, 2], parallel_jobs=4)
    keys = {Campaign(one).key(trial) for trial in one.trials()}
    assert keys < {Campaign(more).key(trial) for trial in more.trials()}


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1, "0.1"), (None, "null"), (True, "true"), ("it's", r"'it\'s'"), ([1, "a"], "[1, 'a']"), ({"k": 1}, "{k: 1}")],
)
def test_values_as_overrides(value, text):
    assert override_value(value) == text


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"parameters": {"workflow.clip_rato": [1]}}, "Did you mean 'workflow.clip_ratio'"),
        ({"parameters": {"workflow.clip_ratio": []}}, "at least 1"),
        ({"paramters": {}}, "Did you mean 'parameters'"),
        ({"parameters": {"a": {"range": {"low": 2, "high": 1, "count": 2}}}}, "high above its low"),
        ({"combine": "list", "parameters": {"a": [1], "b": [1, 2]}}, "lists of one length"),
        ({"base_config": "ppo_cartpol"}, "Did you mean 'ppo_cartpole'"),
    ],
)
def test_a_bad_file_is_refused_before_anything_runs(tmp_path, values, message):
    def load():
        config = read_campaign(write(tmp_path, "bad", **values), SweepConfig)
        return checked_campaign(config, config.parameters)

    with pytest.raises(InputError, match=message):
        load()


def test_a_sweep_that_is_killed_goes_on_and_repeats_nothing(tmp_path):
    """One trial fails; the sweep is killed, and so is a run of it."""
    file = write(tmp_path, "clips", parameters={"workflow.minibatch_size": [128, 0, 64]}, parallel_jobs=2)
    first = start(tmp_path, "sweep", file)
    while not (seen := [path for path in (tmp_path / "runs").glob("clips-*/metrics.jsonl") if path.stat().st_size]):
        assert first.poll() is None
        time.sleep(0.05)
    first.kill()
    first.communicate()
    run = RunFolder(seen[0].parent)
    os.kill(run.read_manifest()["pid"], signal.SIGKILL)
    started = run.read_manifest()["created"]

    second = start(tmp_path, "sweep", file, "--json")
    output, errors = second.communicate(timeout=200)
    assert second.returncode == 1, errors
    progress = json.loads(output)
    assert [one["status"] for one in progress] == ["finished", "failed", "finished"]
    records = [one for one in open_store(tmp_path / "runs").summaries() if one.name == "clips"]
    assert [one.status for one in records] == ["finished"] * 2
    assert run.read_manifest()["created"] == started, "what was killed was resumed, not repeated"
    ended = [one.ended for one in records]

    third = start(tmp_path, "sweep", file)
    output, _ = third.communicate(timeout=100)
    assert [one.ended for one in open_store(tmp_path / "runs").summaries()] == ended, (
        "what was finished was not touched"
    )
    assert "Next: paddock compare clips --group-by config.workflow.minibatch_size" in output

    (run.path / "manifest.json").write_text("{")
    for retry, statuses in (
        ([], ["damaged", "failed", "finished"]),
        (["--retry-failed"], ["finished", "failed", "finished"]),
    ):
        fourth = start(tmp_path, "sweep", file, "--json", *retry)
        output, _ = fourth.communicate(timeout=100)
        assert [one["status"] for one in json.loads(output)] == statuses


@pytest.mark.timeout(60)
def test_the_lock_of_a_killed_search_is_free(tmp_path):
    program = (
        "import sys, time; from pathlib import Path; from paddock.experiments.campaigns.tune import JournalLock; "
        "JournalLock(Path(sys.argv[1])).acquire(); print('held', flush=True); time.sleep(100)"
    )
    holder = subprocess.Popen([sys.executable, "-c", program, tmp_path / "lock"], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    holder.kill()
    holder.communicate()
    lock = JournalLock(tmp_path / "lock")
    assert lock.acquire()
    lock.release()


def test_a_search_that_is_killed_goes_on(tmp_path):
    parameters = {"optimizers.main.learning_rate": {"low": 1e-5, "high": 1e-2, "scale": "log"}}
    settings = {"parameters": parameters, "trials": 4, "parallel_jobs": 2}
    file = write(tmp_path, "rates", **settings, pruning={"startup_trials": 1, "warmup_evaluations": 0})
    first = start(tmp_path, "tune", file)
    while not list((tmp_path / "runs").glob("rates-*/results/latest.json")):
        assert first.poll() is None
        time.sleep(0.05)
    first.kill()
    first.communicate()
    second = start(tmp_path, "tune", file, "--json")
    output, errors = second.communicate(timeout=250)
    assert second.returncode == 0, errors
    values = json.loads(output)
    assert len(values["trials"]) == 4
    assert {trial["status"] for trial in values["trials"]} <= {"finished", "pruned"}
    rates = [trial["values"]["optimizers.main.learning_rate"] for trial in values["trials"]]
    assert len(set(rates)) == 4, "a search that goes on draws nothing twice"
    runs = {trial["run"] for trial in values["trials"]}
    assert runs == {path.name for path in (tmp_path / "runs").glob("rates-*/")}, "no run more than trials"
    best = values["trials"][values["best"]]
    assert best["value"] == max(trial["value"] for trial in values["trials"] if trial["status"] == "finished")
    assert (tmp_path / values["report"]).stat().st_size > 10_000


def test_a_search_space_has_one_kind_of_values():
    with pytest.raises(ValueError, match="either low and high, or choices"):
        TuneConfig(name="x", base_config="b", parameters={"a": {"low": 1}})


def test_the_page_about_a_search(tmp_path, browser):
    space = {"a": {"low": 1e-3, "high": 1.0, "scale": "log"}, "b": {"choices": ["x", "y"]}}
    config = TuneConfig(name="s", base_config="b", metric="eval/return", runs_dir=str(tmp_path), parameters=space)
    campaign = Campaign(config)
    attempts = []
    with campaign.held():
        study = open_study(config, campaign)
        distributions = {name: one.distribution() for name, one in config.parameters.items()}
        for number in range(6):
            trial = study.ask(distributions)
            study.tell(trial, 100 * trial.params["a"])
            attempts.append(Attempt(number, Trial(trial.params, 1), "finished", None, 100 * trial.params["a"]))
        page = write_tune_report(tmp_path / "s.html", config, study, attempts)
    browser.open(page)
    assert browser.problems == []
    assert browser.run("[...document.querySelectorAll('h2')].map((one) => one.textContent)") == [
        "Best trial", "How it went", "Slices", "Every trial"]  # fmt: skip
    assert browser.run("document.querySelectorAll('figure svg').length") == 4
