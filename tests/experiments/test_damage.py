"""Damaged files of runs: whatever stands in the place of one, it is a sentence about that run, and about no other one.

Eleven files, each damaged in every way that fits, go through `list`, `show`, `compare`, `export`, `tag`, `cleanup`,
`train --resume` and the page's catalog of runs. A traceback fails the test by itself, a hang ends at a time limit.
"""

import contextlib
import hashlib
import io
import json
import os
import random
import re
import shutil
import signal
import sys

import pytest
from rich.console import Console

from paddock.cli.main import main
from paddock.core.errors import InputError
from paddock.dashboard.errors import Refused
from paddock.dashboard.runs import RunCatalog
from paddock.experiments.run import RunFolder
from paddock.experiments.store.store import FILE
from paddock.orchestration.launch import resumed_run

LIMIT = 60  # s for all commands on one damage; they take less than one on an idle machine
SEAL = "checkpoints/latest/checkpoint.json"
FILES = [
    "config.yaml", "manifest.json", "labels.json", "metrics.jsonl", "events.jsonl", "lock", "results/best.json",
    "policy/best/policy.json", SEAL, "channel.json", FILE,
]  # fmt: skip
RECORDS = FILES[:5]  # files that every list of runs is made from
MANDATORY = [file for file in RECORDS if file != "labels.json"]
PARTS = ["results/best.json", "policy/best/policy.json", SEAL, "channel.json"]  # that `show` looks at
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
INNER = {  # the right keys with values of wrong types
    "config.yaml": "schema_version: 3\nevaluation: text\nenvironment: [1, 2]\n",
    "manifest.json": '{"status": 3, "created": [], "seed": "x", "git": "y", "agent_steps": {}, "seconds": "long"}',
    "labels.json": '{"tags": 5, "pinned": "perhaps"}',
    "metrics.jsonl": '{"agent_steps": "many", "seconds": [], "eval/return": {}}\n' * 3,
    "events.jsonl": '{"time": 3, "event": ["phase"]}\n' * 3,
    "results/best.json": '{"traces": {"tracks": [{"name": 1}]}}',
    "policy/best/policy.json": '{"format": [], "environment": 5}',
    SEAL: '{"format": 1, "agent_steps": "x", "score": [], "files": {"../../../../etc/passwd": 1}}',
    "channel.json": '{"port": "x", "token": 1, "pid": -1}',
}


def empty(path):
    path.write_bytes(b"")


def half(path):
    content = path.read_bytes()
    middle = len(content) // 2
    if path.suffix == ".yaml":  # Within a key: cut after a whole line, YAML would be sound.
        middle += re.search(rb"\n *\w\w(?=\w+:)", content[middle:]).end()
    path.write_bytes(content[:middle])


def flipped(path):
    content = bytearray(path.read_bytes() or b"x")
    content[len(content) // 2] ^= 0x80
    path.write_bytes(content)


def noise(path):
    path.write_bytes(random.Random(0).randbytes(5_000))


def nuls(path):
    path.write_bytes(bytes(5_000))


def not_utf8(path):
    path.write_bytes(path.read_bytes()[:-2] + b"\xff\xfe\n")


def deep(path):
    path.write_bytes(b"[" * 200_000 + b"\n")


def other_type(path):
    path.write_text("[1, 2]\n")


def bomb(path):
    path.write_text(BOMB)


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def directory(path):
    path.unlink()
    path.mkdir()


def loop(path):
    path.unlink()
    path.symlink_to(path)


def endless(path):
    path.unlink()
    path.symlink_to("/dev/zero")


def removed(path):
    path.unlink()


ANY = [empty, half, flipped, noise, nuls, not_utf8, deep, other_type, bomb, pipe, directory, loop, endless, removed]

CASES = [(file, damage) for file in FILES for damage in ANY] + [(file, "inner types") for file in INNER]
assert len(CASES) >= 150


@pytest.fixture(scope="module")
def template(real_runs, tmp_path_factory):
    """Two real runs, `fast`, which will be damaged, and `slow`, which must not notice; every file is there."""
    folder = tmp_path_factory.mktemp("template") / "runs"
    folder.mkdir()
    for name in ("fast", "slow"):
        shutil.copytree(sorted(real_runs.glob(f"{name}-*"))[0], folder / name, symlinks=True)
        run = RunFolder(folder / name)
        run.write_labels(tags=["kept"], is_pinned=False)
        (run.path / "channel.json").write_text('{"port": 1, "token": "x", "pid": 1}')
    command("list", "--json", "--runs-dir", str(folder))
    return folder


@pytest.fixture
def runs(template, tmp_path):
    shutil.copytree(template, tmp_path / "runs", symlinks=True)
    return tmp_path / "runs"


@pytest.fixture(autouse=True)
def time_limit():
    def give_up(*_):
        raise TimeoutError(f"a command took more than {LIMIT} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(LIMIT)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def command(*arguments):
    """Exit code and output of `paddock ARGUMENTS`, run in this process: an error without a sentence gets out."""
    output, errors, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["paddock", *arguments]
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            main()
    except SystemExit as end:
        return end.code or 0, output.getvalue(), errors.getvalue()
    finally:
        sys.argv = before
    raise AssertionError("the command does not end")


def fingerprint(folder):
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.rglob("*") if file.is_file()}


def damage_file(runs, file, damage):
    path = runs / file if file == FILE else (runs / "fast" / file).resolve()
    if damage == "inner types":
        path.write_text(INNER[file])
    else:
        damage(path)
    return path


@pytest.mark.parametrize(("file", "damage"), CASES, ids=lambda one: getattr(one, "__name__", str(one)))
def test_a_damaged_file_is_a_sentence_about_one_run(runs, file, damage, tmp_path):
    where, sound = ("--runs-dir", str(runs)), fingerprint(runs / "slow")
    path = damage_file(runs, file, damage)

    code, listed, _ = command("list", "--json", *where)
    records = {record["folder"]: record for record in json.loads(listed)}
    assert (code, sorted(records)) == (0, ["fast", "slow"])
    assert (records["slow"]["status"], records["slow"]["damage"]) == ("finished", [])
    if file in RECORDS and not (file not in MANDATORY and damage is removed):
        assert records["fast"]["status"] == "damaged"
        assert path.name in " ".join(records["fast"]["damage"])
    elif file == FILE:
        assert records["fast"]["status"] == "finished"

    code, shown, _ = command("show", "fast", *where)
    assert code == 0
    is_seen = file in RECORDS or (file in PARTS and damage not in (other_type, "inner types"))
    if is_seen and not (file not in MANDATORY and damage is removed):
        assert f"{path.name}'" in shown.replace("\n", "")

    report = tmp_path / "report.html"
    code, compared, errors = command("compare", "fast", "slow", "--json", *where, "--html", str(report))
    assert code == 0, errors
    assert "slow" in [group["group"] for group in json.loads(compared)["groups"]]
    assert report.stat().st_size > 10_000

    code, exported, _ = command("export", "*", "--table", "runs", "--format", "json", *where)
    assert code == 0
    assert "slow" in [row["run"] for row in json.loads(exported)]

    code, _, _ = command("cleanup", "--keep-recent", "0", "--dry-run", *where)
    assert code == 0
    code, _, errors = command("tag", "fast", "--add", "odd", *where)
    assert code == 0 or "error:" in errors

    catalog = RunCatalog(runs)
    rows = {row["id"]: row for row in catalog.rows()}
    assert (rows["slow"]["status"], rows["fast"]["status"]) == ("finished", records["fast"]["status"])
    assert catalog.details(RunFolder(runs / "slow"))["config"]["name"] == "slow"
    catalog.policies(RunFolder(runs / "fast"))
    if file in ("config.yaml", "manifest.json") and damage is not removed:
        with pytest.raises(Refused, match=path.name) as refusal:
            catalog.details(RunFolder(runs / "fast"))
        assert refusal.value.status == 409

    with contextlib.suppress(InputError), resumed_run(RunFolder(runs / "fast"), [], Console(quiet=True)):
        pass
    assert fingerprint(runs / "slow") == sound
    if path.is_dir():
        path.rmdir()  # Lest the clean-up of temporary folders stumbles over it.


@pytest.mark.parametrize(
    ("file", "damage", "arguments"),
    [
        ("config.yaml", bomb, []),
        ("metrics.jsonl", pipe, []),
        ("metrics.jsonl", nuls, []),
        (SEAL, deep, ["--from", "latest"]),
        (SEAL, "inner types", ["--from", "latest"]),
    ],
)
def test_verify_refuses_a_damaged_run_in_a_sentence(runs, file, damage, arguments):
    damage_file(runs, file, damage)
    code, _, errors = command("verify", "fast", *arguments, "--runs-dir", str(runs))
    assert (code, errors.startswith("error:")) == (2, True)


@pytest.mark.parametrize("damage", [half, pipe, loop])
def test_a_run_is_found_by_its_id_beside_damaged_ones(runs, damage):
    wanted = RunFolder(runs / "slow").read_manifest()["id"]
    damage_file(runs, "manifest.json", damage)
    assert RunFolder.find(runs, wanted).name == "slow"
    assert RunFolder.find(runs, str(runs / "fast")).name == "fast"


def test_only_damaged_runs_are_refused_with_all_their_sentences(runs):
    damage_file(runs, "config.yaml", half)
    damage_file(runs, "manifest.json", pipe)
    for arguments in (["compare", "fast", "--no-html"], ["export", "fast"]):
        code, _, errors = command(*arguments, "--runs-dir", str(runs))
        assert code == 2
        assert "config.yaml" in errors
        assert "manifest.json" in errors


def test_compare_says_in_the_terminal_which_runs_and_lines_it_left_out(runs):
    lines = (runs / "slow" / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (runs / "slow" / "metrics.jsonl").write_bytes(b"".join([lines[0], b"\x00\xff\n", *lines[1:]]))
    damage_file(runs, "config.yaml", bomb)
    _, shown, _ = command("compare", "fast", "slow", "--no-html", "--runs-dir", str(runs))
    assert "note: Run 'fast' is damaged and left out:" in shown
    assert "has 1 line that cannot be read and is left out" in shown
    _, listed, _ = command("list", "--filter", "status=damaged", "--json", "--runs-dir", str(runs))
    assert [record["folder"] for record in json.loads(listed)] == ["fast", "slow"]


def test_cleanup_leaves_a_damaged_run_alone_and_frees_the_others(runs):
    damage_file(runs, "labels.json", half)  # It may have been pinned.
    (runs / "slow" / "lock").unlink(missing_ok=True)
    code, _, _ = command("cleanup", "--keep-recent", "0", "--yes", "--runs-dir", str(runs))
    assert code == 0
    assert (runs / "fast" / "checkpoints").exists()
    assert not (runs / "slow" / "checkpoints").exists()


def test_a_line_that_a_kill_cut_short_is_no_damage(runs):
    run = RunFolder(runs / "fast")
    with run.events_file.open("ab") as file:
        file.write(b'{"time": "2026-01-01T00:00:00", "eve')
    run.event("resumed", checkpoint=None)
    _, listed, _ = command("list", "--json", "--runs-dir", str(runs))
    assert [record["status"] for record in json.loads(listed)] == ["finished", "finished"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("file", RECORDS)
def test_a_file_that_may_not_be_read_is_a_damaged_run(runs, file):
    (runs / "fast" / file).chmod(0)
    _, listed, _ = command("list", "--json", "--runs-dir", str(runs))
    assert [record["status"] for record in json.loads(listed)] == ["damaged", "finished"]


def test_a_resumed_run_whose_log_lost_its_end_goes_on_after_the_last_whole_line(runs, caplog):
    run = RunFolder(runs / "fast")
    half(run.metrics_file)
    before = run.metrics_file.read_bytes()
    with resumed_run(run, [], Console(quiet=True)):
        assert run.metrics_file.read_bytes() == before[: before.rfind(b"\n") + 1]
    assert "what it lost stays lost" in caplog.text
