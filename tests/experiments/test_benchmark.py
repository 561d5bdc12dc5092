"""`paddock benchmark`: tasks with published values over seeds, what a kill costs, and the report."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import yaml

from paddock.core.errors import InputError
from paddock.experiments.campaigns.benchmark import (
    Benchmark,
    BenchmarkConfig,
    read_benchmark,
    results,
    shipped_benchmarks,
)
from paddock.experiments.report.benchmark import markdown, write_benchmark_page
from paddock.experiments.run import RunFolder
from paddock.experiments.store.summaries import MetricSummary, RunSummary

TINY = {
    "environment.num_envs": 2,
    "workflow.rollout_steps": 256,
    "workflow.minibatch_size": 64,
    "workflow.epochs": 2,
    "evaluation.episodes": 2,
    "logging.tensorboard": False,
}
ROWS = [
    {"workflow": "ppo", "environment": "CartPole-v1", "experiment": "ppo", "steps": 2048, "random": 20.0,
     "published": 500.0, "source": "a table", "overrides": {"environment.id": "CartPole-v1", **TINY}},
    {"workflow": "ppo", "environment": "Acrobot-v1", "experiment": "ppo", "steps": 1024, "random": -500.0,
     "overrides": {"environment.id": "Acrobot-v1", **TINY}},
]  # fmt: skip


def summary(seed, last, high, status="finished"):
    values = {"eval/return": MetricSummary(last=last, low=0.0, high=high, step=100)}
    return RunSummary(
        folder=f"run-{seed}", id=str(seed), name="b", status=status, created="", ended=None, algorithm="ppo",
        environment="x", seed=seed, agent_steps=100, seconds=10.0 * seed, git_commit=None, is_dirty=False,
        config_hash="", recipe="", is_pinned=False, tags=(), metric="eval/return", metrics=values,
    )  # fmt: skip


@pytest.fixture
def benchmark():
    made = Benchmark(BenchmarkConfig(name="b", seeds=[1, 2, 3, 4], tasks=ROWS))
    made.check()
    return made


def test_benchmark_results_are_iqm_share_and_kept_over_finished_runs(benchmark):
    task = "CartPole-v1 ppo default"
    scores = {1: (100.0, 200.0), 2: (300.0, 300.0), 3: (400.0, 500.0)}
    runs = {benchmark.key(task, seed): summary(seed, *values) for seed, values in scores.items()}
    runs[benchmark.key(task, 4)] = summary(4, 0.0, 0.0, status="running")
    first, second = results(benchmark, runs)
    assert first.finished == 3
    assert first.last.value == pytest.approx(np.mean([100, 300, 400]))  # of three nothing is trimmed
    assert first.last.low < first.last.value < first.last.high
    assert first.best == pytest.approx(np.mean([200, 300, 500]))
    assert first.share == pytest.approx((first.last.value - 20) / 480)
    assert first.kept == pytest.approx(np.mean([80 / 180, 1.0, 380 / 480]))
    assert first.seconds == pytest.approx(20.0)
    assert (second.finished, second.last, second.share) == (0, None, None)


def test_benchmark_report_has_command_source_and_both_values(benchmark, tmp_path, browser):
    task = "CartPole-v1 ppo default"
    runs = {benchmark.key(task, seed): summary(seed, 250.0 + seed, 300.0) for seed in (1, 2, 3)}
    found = results(benchmark, runs)
    text = markdown(benchmark, found)
    assert "paddock train ppo environment.id=CartPole-v1" in text
    assert "--seed 1,2,3,4" in text
    assert "(a table)" in text
    row = next(line for line in text.splitlines() if line.startswith("| CartPole-v1 | ppo | default"))
    assert "3 of 4" in row
    assert "| 500 |" in row
    browser.open(write_benchmark_page(tmp_path / "b.html", benchmark, found))
    assert browser.problems == []
    assert browser.run("[...document.querySelectorAll('h2')].map((one) => one.textContent)") == [
        "Against published values", "Default and tuned settings", "Every task", "Commands and sources"]  # fmt: skip
    assert browser.run("document.querySelectorAll('section.long tbody tr').length") == 2


def test_benchmark_report_has_default_and_tuned_settings_in_one_row():
    rows = [{**ROWS[0], "settings": "tuned"}, *ROWS]
    made = Benchmark(BenchmarkConfig(name="b", seeds=[1], tasks=rows))
    made.check()
    runs = {
        made.key("CartPole-v1 ppo tuned", 1): summary(1, 480.0, 480.0),
        made.key("CartPole-v1 ppo default", 1): summary(1, 460.0, 470.0),
    }
    lines = markdown(made, results(made, runs)).splitlines()
    assert "| CartPole-v1 | ppo | 460 | 480 | 500 |" in lines
    assert "| Acrobot-v1 | ppo |  |  |  |" in lines


def test_benchmark_report_says_what_a_score_is_where_it_is_no_return():
    row = {"workflow": "ppo", "environment": "meadow", "experiment": "racing", "steps": 1024}
    made = Benchmark(BenchmarkConfig(name="laps", seeds=[1], tasks=[row]))
    made.check()
    assert "`paddock train racing training.total_steps=1024 --seed 1` (score: eval/clean_pace)" in markdown(
        made, results(made, {})
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": None}, "needs a source"),
        ({"published": 20.0}, "equals that of random"),
        ({"stepz": 1}, "Did you mean 'steps'"),
        ({"experiment": "ppoo"}, "Did you mean 'ppo'"),
        ({"overrides": {"workflow.clip_rato": 1}}, "Did you mean 'workflow.clip_ratio'"),
    ],
)
def test_benchmark_file_that_is_wrong_is_refused_before_anything_runs(tmp_path, change, message):
    file = tmp_path / "bad.yaml"
    file.write_text(yaml.safe_dump({"tasks": [{**ROWS[0], **change}]}))
    with pytest.raises(InputError, match=message):
        Benchmark(read_benchmark(str(file))).check()


def test_benchmark_with_two_equal_tasks_or_an_unknown_name_is_refused(tmp_path):
    file = tmp_path / "twice.yaml"
    file.write_text(yaml.safe_dump({"tasks": [ROWS[0], ROWS[0]]}))
    with pytest.raises(InputError, match="two tasks are the same"):
        read_benchmark(str(file))
    with pytest.raises(InputError, match="zoo"):
        read_benchmark("zo")


@pytest.mark.parametrize("name", shipped_benchmarks())
def test_benchmark_that_ships_names_experiments_and_options_that_there_are(name):
    Benchmark(read_benchmark(name)).check()


def test_benchmark_that_is_killed_goes_on_and_runs_every_trial_once(tmp_path):
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump({"seeds": [1, 2], "parallel_jobs": 2, "tasks": ROWS}))

    def start(*arguments):
        command = [sys.executable, "-m", "paddock", "benchmark", *arguments]
        return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    first = start("run", str(file))
    while not (found := list((tmp_path / "runs").glob("tiny-*/checkpoints/step-*/checkpoint.json"))):
        assert first.poll() is None, first.communicate()
        time.sleep(0.05)
    first.kill()
    first.communicate()
    killed = RunFolder(found[0].parents[2])
    if killed.is_held():
        os.kill(killed.read_manifest()["pid"], signal.SIGKILL)

    second = start("run", str(file), "--json")
    output, errors = second.communicate(timeout=250)
    assert second.returncode == 0, errors
    assert [task["finished"] for task in json.loads(output)["tasks"]] == [2, 2]
    runs = [RunFolder(path) for path in (tmp_path / "runs").glob("tiny-*/")]
    trials = [(run.read_config()["environment"]["id"], run.read_manifest()["seed"]) for run in runs]
    assert sorted(trials) == [("Acrobot-v1", 1), ("Acrobot-v1", 2), ("CartPole-v1", 1), ("CartPole-v1", 2)]

    third = start("report", str(file), "--markdown", "table.md", "--only", "cartpole")
    output, errors = third.communicate(timeout=100)
    assert third.returncode == 0, errors
    assert "2 of 2" in (tmp_path / "table.md").read_text()
    assert "Acrobot" not in (tmp_path / "table.md").read_text()
    assert (tmp_path / "reports" / "tiny.html").stat().st_size > 10_000
