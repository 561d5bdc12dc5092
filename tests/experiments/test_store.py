"""The index over run folders: always what the folders say, whoever writes at the same time and whatever is damaged."""

import json
import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from paddock.core.errors import InputError
from paddock.experiments.run import RunFolder, manifest
from paddock.experiments.store.filters import find_runs
from paddock.experiments.store.store import FILE, Store, open_store, register

VERSION_1 = Path(__file__).parents[1] / "config" / "fixtures" / "version_1.yaml"
WRITERS, SECONDS = 8, float(os.environ.get("PADDOCK_STORE_SECONDS", "2"))


def names(records):
    return [record.name for record in records]


def test_what_a_real_run_tells_of_itself(real_runs):
    record = next(one for one in open_store(real_runs).summaries(metrics=["eval/return"]) if one.name == "slow")
    assert (record.status, record.algorithm, record.environment, record.seed) == ("finished", "ppo", "CartPole-v1", 1)
    assert record.agent_steps == 1536
    assert record.seconds > 0
    summary = record.metrics["eval/return"]
    rows = [row["eval/return"] for row in RunFolder(real_runs / record.folder).read_metrics() if "eval/return" in row]
    assert (summary.last, summary.low, summary.high) == (rows[-1], min(rows), max(rows))


def test_a_run_registers_itself(real_runs):
    """Nobody has listed anything yet when the run has ended."""
    rows = sqlite3.connect(real_runs / FILE).execute("SELECT name, status FROM runs").fetchall()
    assert sorted(rows) == [("fast", "finished")] * 2 + [("slow", "finished")] * 2


def test_the_index_follows_the_folders(tmp_path, make_run):
    a, b = make_run(tmp_path, "a"), make_run(tmp_path, "b", seed=2)
    store = open_store(tmp_path)
    assert names(store.summaries()) == ["a", "b"]
    shutil.rmtree(a.path)
    b.write_manifest(status="failed")
    b.write_labels(tags=["odd"], is_pinned=True)
    store.refresh()
    (record,) = store.summaries()
    assert (record.status, record.tags, record.is_pinned) == ("failed", ("odd",), True)


def test_only_new_lines_are_read_and_forgotten_ones_are_forgotten(tmp_path, make_run):
    run = make_run(tmp_path, "a", scores=(5.0, 9.0))
    store = open_store(tmp_path)
    with run.metrics_file.open("a") as file:
        file.write(json.dumps({"agent_steps": 300, "seconds": 3.0, "eval/return": 7.0}) + "\n" + '{"agent_st')
    store.refresh()
    summary = store.summaries(metrics=["eval/return"])[0].metrics["eval/return"]
    assert (summary.last, summary.low, summary.high, summary.step) == (7.0, 5.0, 9.0, 300)
    first = run.metrics_file.read_text().splitlines()[0]
    run.metrics_file.write_text(first + "\n")
    store.refresh()
    summary = store.summaries(metrics=["eval/return"])[0].metrics["eval/return"]
    assert (summary.last, summary.high) == (5.0, 5.0)


@pytest.mark.parametrize("damage", ["garbage", "middle", "old version", "gone"])
def test_a_damaged_index_is_built_anew(tmp_path, make_run, damage):
    for seed in range(40):
        make_run(tmp_path, "a", seed=seed)
    open_store(tmp_path).close()
    file = tmp_path / FILE
    if damage == "garbage":
        file.write_bytes(b"not a database" * 100)
    elif damage == "middle":
        text = bytearray(file.read_bytes())
        text[4096 : len(text) // 2] = os.urandom(len(text) // 2 - 4096)
        file.write_bytes(bytes(text))
    elif damage == "old version":
        sqlite3.connect(file).execute("PRAGMA user_version=0")
    else:
        file.unlink()
    assert len(open_store(tmp_path).summaries()) == 40


def test_runs_that_cannot_be_written_to_are_listed_too(tmp_path, make_run):
    make_run(tmp_path, "a")
    (tmp_path / FILE).mkdir()  # Also holds for who may write anywhere.
    assert names(open_store(tmp_path).summaries()) == ["a"]


def test_a_killed_run_is_shown_as_crashed_and_a_living_one_as_running(tmp_path):
    command = [
        sys.executable,
        "-m",
        "paddock",
        "train",
        "ppo_cartpole",
        "training.total_steps=1_000_000",
        f"runs_dir={tmp_path}",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    store = Store(tmp_path)
    while True:
        store.refresh()
        if any(record.agent_steps for record in store.summaries()):
            break
        assert process.poll() is None
        time.sleep(0.1)
    assert [record.status for record in store.summaries()] == ["running"]
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert [record.status for record in store.summaries()] == ["crashed"]


def test_a_configuration_of_an_older_version_lists_and_filters(tmp_path):
    values = yaml.safe_load(VERSION_1.read_text())
    run = RunFolder.create(tmp_path, "old", values)
    run.write_manifest(**{**manifest(values, seed=5), "status": "finished"})
    store = open_store(tmp_path)
    assert names(find_runs(store, filters=["algorithm=ppo", "checkpoint.every_steps=64"])) == ["old"]


def _write(runs_dir, number, seconds, made):
    end, count = time.monotonic() + seconds, 0
    rows = 0
    while time.monotonic() < end:
        config = {"schema_version": 2, "name": f"writer{number}", "seed": count}
        run = RunFolder.create(runs_dir, f"writer{number}", config)
        with run.lock():
            run.write_manifest(**{**manifest(config, seed=count), "git": None})
            register(run)
            with run.metrics_file.open("a") as file:
                for step in range(1, 21):
                    file.write(
                        json.dumps({"agent_steps": step, "seconds": 0.1 * step, "eval/return": float(step)}) + "\n"
                    )
                    file.flush()
                    rows += 1
            run.event("done")
            run.write_manifest(status="finished", agent_steps=20)
        register(run)
        count += 1
    made.put((count, rows))


def test_many_processes_register_and_log_at_once(tmp_path):
    """PADDOCK_STORE_SECONDS=60 makes it the minute of the claim."""
    context = multiprocessing.get_context("fork")
    made = context.Queue()
    writers = [context.Process(target=_write, args=(tmp_path, k, SECONDS, made)) for k in range(WRITERS)]
    for writer in writers:
        writer.start()
    counts = [made.get() for _ in writers]
    for writer in writers:
        writer.join()
    runs, rows = (sum(one[k] for one in counts) for k in (0, 1))
    registered = sqlite3.connect(tmp_path / FILE).execute("SELECT count(*) FROM runs").fetchone()[0]
    assert registered == runs, "every run had entered itself before anybody looked"
    store = open_store(tmp_path)
    records = store.summaries(metrics=["eval/return"])
    assert len(records) == runs
    assert {record.status for record in records} == {"finished"}
    assert {record.metrics["eval/return"].last for record in records} == {20.0}
    assert sum(len(RunFolder(tmp_path / record.folder).read_metrics()) for record in records) == rows
    assert sqlite3.connect(tmp_path / FILE).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_kill_in_the_middle_of_writing_leaves_a_readable_store(tmp_path):
    context = multiprocessing.get_context("fork")
    made = context.Queue()
    for attempt in range(6):
        writers = [context.Process(target=_write, args=(tmp_path, k, 30, made)) for k in range(2)]
        for writer in writers:
            writer.start()
        time.sleep(0.05 + 0.04 * attempt)
        for writer in writers:
            os.kill(writer.pid, signal.SIGKILL)
            writer.join()
        records = open_store(tmp_path).summaries()
        folders = [RunFolder(path.parent) for path in tmp_path.glob("*/config.yaml")]
        assert len(records) == len(folders)
        assert sum(record.status in ("crashed", "unknown") for record in records) <= 2 * (attempt + 1)
        for run in folders:
            assert all(row["eval/return"] == row["agent_steps"] for row in run.read_metrics())
    assert sqlite3.connect(tmp_path / FILE).execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (["name=a"], ["a"]),
        (["name=a*"], ["a", "ab"]),
        (["name!=a"], ["ab", "b"]),
        (["eval/return>3"], ["ab", "b"]),
        (["eval/return.max>=9", "eval/return<=9"], ["ab"]),
        (["eval/return.min<1.5"], ["a"]),
        (["config.workflow.clip_ratio=0.3"], ["b"]),
        (["workflow.clip_ratio<0.3", "status=finished"], ["a"]),
        (["tag=blue"], ["b"]),
        (["tag!=blue"], ["a", "ab"]),
        (["dirty=true", "seed>=2"], ["ab", "b"]),
        (["created>=2026-01-01T00:00:03"], ["b"]),
        (["status=failed"], ["ab"]),
    ],
)
def test_filters(tmp_path, make_run, filters, expected):
    make_run(tmp_path, "a", seed=1, scores=(1.0, 2.0))
    make_run(tmp_path, "ab", seed=2, scores=(9.0, 8.0), status="failed")
    make_run(tmp_path, "b", seed=3, scores=(5.0, 20.0), clip=0.3, tags=["blue"])
    assert names(find_runs(open_store(tmp_path), filters=filters)) == expected


def test_sorting_puts_the_best_first_and_runs_without_a_value_last(tmp_path, make_run):
    make_run(tmp_path, "a", seed=1, scores=(1.0, 2.0))
    make_run(tmp_path, "b", seed=2, scores=())
    make_run(tmp_path, "c", seed=3, scores=(5.0,))
    store = open_store(tmp_path)
    assert names(find_runs(store, sort="eval/return")) == ["c", "a", "b"]
    assert names(find_runs(store, sort="eval/return", is_ascending=True)) == ["a", "c", "b"]
    assert names(find_runs(store, sort="eval/return", limit=1)) == ["c"]
    assert names(find_runs(store, limit=1)) == ["c"], "the newest"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("eval/retrun>3", "Did you mean 'eval/return'"),
        ("algoritm=ppo", "Did you mean 'algorithm'"),
        ("workflow.clp=1", "Did you mean 'workflow.clip_ratio'"),
        ("ppo", "is not a condition"),
        ("seed=", "is not a condition"),
        ("eval/return>high", "is not a number"),
    ],
)
def test_a_bad_filter_gets_a_suggestion(tmp_path, make_run, text, message):
    make_run(tmp_path, "a")
    with pytest.raises(InputError, match=message):
        find_runs(open_store(tmp_path), filters=[text])


def test_runs_are_found_by_glob_id_and_name(tmp_path, make_run):
    runs = [make_run(tmp_path, "a", seed=1), make_run(tmp_path, "a", seed=2), make_run(tmp_path, "ab", seed=3)]
    assert [run.path for run in RunFolder.find_all(tmp_path, "a")] == sorted(run.path for run in runs[:2])
    assert len(RunFolder.find_all(tmp_path, "a*")) == 3
    assert RunFolder.find(tmp_path, "ab*").path == runs[2].path
    assert RunFolder.find(tmp_path, "ab3").path == runs[2].path, "by its id"
    with pytest.raises(InputError, match="could be any of"):
        RunFolder.find(tmp_path, "*")
