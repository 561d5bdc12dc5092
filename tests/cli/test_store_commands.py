"""The verbs of the experiment store on real runs, as a person uses them: on a terminal, in a pipe, with mistakes."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.experiments.run import RunFolder


@pytest.fixture(scope="module")
def folder(real_runs, tmp_path_factory):
    """A folder with runs in it: `fast` and `slow`, each with two seeds."""
    folder = tmp_path_factory.mktemp("store")
    shutil.copytree(real_runs, folder / "runs", symlinks=True)
    return folder


def piped(folder, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "paddock", *arguments],
        cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=240,
    )  # fmt: skip


def on_a_terminal(folder, *arguments, columns=140):
    """Exit code and what a terminal of so many columns was sent, without colours."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "paddock", *arguments],
        cwd=folder, stdin=follower, stdout=follower, stderr=follower,
        env={**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color"},
    )  # fmt: skip
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
    os.close(leader)
    return process.wait(), re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())


def test_list_in_a_pipe_is_one_line_a_run(folder):
    lines = piped(folder, "list", "--sort", "eval/return").stdout.splitlines()
    assert lines[0].split("\t")[:2] == ["run", "status"]
    assert len(lines) == 5
    assert all(len(line.split("\t")) == len(lines[0].split("\t")) for line in lines)
    scores = [float(line.split("\t")[lines[0].split("\t").index("eval/return")]) for line in lines[1:]]
    assert scores == sorted(scores, reverse=True)
    found = json.loads(piped(folder, "list", "--filter", "name=fast", "--filter", "seed=2", "--json").stdout)
    assert [one["seed"] for one in found] == [2]


@pytest.mark.parametrize("columns", [160, 70])
def test_list_on_a_terminal_never_cuts_a_name(folder, columns):
    code, text = on_a_terminal(folder, "list", columns=columns)
    assert code == 0
    assert "4 runs: 4 finished" in text
    for path in (folder / "runs").glob("*-*/"):
        assert path.name in text
    assert ("Hidden columns (terminal too narrow)" in text) == (columns == 70)


def test_list_starts_without_the_heavy_imports(folder):
    code = "import sys; sys.argv = ['paddock', 'list']; from paddock.cli.main import main\ntry:\n    main()\n"
    code += "except SystemExit: pass\nheavy = ('torch', 'numba', 'hydra', 'scipy', 'numpy')\n"
    code += "print([name for name in heavy if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=60)
    assert result.stdout.splitlines()[-1] == "[]"


def test_show_tells_everything(folder):
    code, text = on_a_terminal(folder, "show", "slow")
    assert code == 0
    for part in (
        "finished",
        "ppo on CartPole-v1, seed 2",
        "workflow.clip_ratio  0.2 → 0.1",
        "train from step 0",
        "evaluation",
    ):
        assert part in text
    assert re.search("[⠁-⣿]", text), "curves"
    values = json.loads(piped(folder, "show", "slow", "--json").stdout)
    assert values["config_differences"]["workflow.clip_ratio"] == [0.2, 0.1]
    assert values["metrics"]["eval/return"]["points"] >= 1


def test_tags_and_pins(folder):
    assert piped(folder, "tag", "fast", "--add", "good", "--pin").returncode == 0
    found = json.loads(piped(folder, "list", "--tag", "good", "--json").stdout)
    assert [(one["name"], one["is_pinned"]) for one in found] == [("fast", True)] * 2
    piped(folder, "tag", "fast", "--remove", "good", "--unpin")
    assert json.loads(piped(folder, "list", "--tag", "good", "--json").stdout) == []


def test_compare_in_the_terminal_and_as_a_page(folder):
    result = piped(folder, "compare", "fast", "slow")
    assert result.returncode == 0, result.stderr
    assert "fast > slow" in result.stdout
    assert "workflow.clip_ratio\t0.2\t0.1" in result.stdout
    assert (folder / "reports" / "comparison.html").stat().st_size > 20_000
    values = json.loads(
        piped(folder, "compare", "*", "--group-by", "config.workflow.clip_ratio", "--no-html", "--json").stdout
    )
    assert {group["group"] for group in values["groups"]} == {"clip_ratio=0.2", "clip_ratio=0.1"}
    code, text = on_a_terminal(folder, "compare", "fast", "slow", "--no-html")
    assert code == 0
    assert "95 % bootstrap intervals" in text


def test_filming_shows_its_progress_on_a_terminal(folder):
    code, text = on_a_terminal(folder, "evaluate", "fast", "--episodes", "1", "--video")
    assert code == 0
    assert re.search(r"filming evaluation-1000.mp4 .*\d+ frames 0:00:\d\d", text)


def test_export_and_cleanup(folder):
    lines = piped(folder, "export", "fast", "--metrics", "eval/return").stdout.splitlines()
    assert lines[0].startswith("run,seed,")
    assert piped(folder, "export", "*", "--format", "latex").stdout.startswith(r"\begin{tabular}")
    looked = piped(folder, "cleanup", "--keep-best", "1", "--keep-recent", "1", "--dry-run")
    assert "would free" in looked.stdout
    assert all((path / "checkpoints").exists() for path in (folder / "runs").glob("*-*/"))
    refused = piped(folder, "cleanup", "--keep-recent", "1")
    assert refused.returncode == 2
    assert "--yes" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "--filter", "eval/retrun>3"], "Did you mean 'eval/return'"),
        (["list", "--filter", "ppo"], "is not a condition"),
        (["list", "--sort", "sed"], "Did you mean 'seed'"),
        (["show", "nothing"], "there is no run 'nothing'"),
        (["show", "*"], "could be any of"),
        (["compare", "fast", "--metrics", "eval/retur"], "Did you mean 'eval/return'"),
        (["compare", "fsat"], "Did you mean"),
        (["export", "fast", "--format", "exel"], "unknown format 'exel'"),
        (["export", "fast", "--format", "parquet"], "--output"),
        (["cleanup"], "say what to keep"),
        (["cleanup", "--max-size", "lots"], "is not a size"),
        (["tag", "fast"], "say what to change"),
        (["verify", "fast", "--from", "step-7"], "has no checkpoint"),
        (["sweep", "nowhere.yaml"], "cannot be read"),
    ],
)
def test_mistakes_get_one_readable_message(folder, arguments, message):
    result = piped(folder, *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(("words", "expected"), [("paddock show fa", "fast"), ("paddock compare slow ", "slow-")])
def test_run_names_complete_in_the_shell(folder, words, expected):
    program = Path(sys.executable).with_name("paddock")
    asked = {"_PADDOCK_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": words}
    result = subprocess.run(
        [program], cwd=folder, env={**os.environ, **asked}, capture_output=True, text=True, timeout=60
    )
    assert expected in result.stdout


def test_verify_says_identical_or_where_it_diverges(folder):
    run = sorted((folder / "runs").glob("slow-*/"))[-1]
    result = piped(folder, "verify", "slow", "--from", "1024", "--json")
    values = json.loads(result.stdout)
    assert values["is_identical"], values
    assert (values["start"], values["agent_steps"]) == ("step-000000001024", 1536)

    lines = (run / "metrics.jsonl").read_text().splitlines()
    row = json.loads(lines[1])
    (run / "metrics.jsonl").write_text("\n".join([lines[0], json.dumps({**row, "train/kl": 0.5}), *lines[2:]]) + "\n")
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["versions"]["torch"] = "1.0"
    (run / "manifest.json").write_text(json.dumps(manifest))
    found = piped(folder, "verify", "slow")
    assert found.returncode == 1
    assert f"diverges at step {row['agent_steps']:,}: train/kl was 0.5, is now" in found.stdout
    assert "versions torch was 1.0" in found.stdout


def test_verify_from_the_seed(folder):
    result = piped(folder, "verify", "fast")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "identical to step 1,536" in result.stdout
    assert "final policies bit by bit" in result.stdout
    assert "same code, versions and machine" in result.stdout


HOSTILE = "\x1b[2J\x1b]0;owned\x07[red]\\[/] [/x]"


@pytest.fixture
def hostile(real_runs, tmp_path):
    """A run whose folder, name, tags, metrics and events are full of what terminals and rich act on."""
    (original, *_) = sorted(real_runs.glob("fast-*"))
    run = RunFolder(tmp_path / "runs" / f"odd{HOSTILE.replace('/', '')}")
    shutil.copytree(original, run.path, symlinks=True)
    run.write_config({**run.read_config(), "name": f"odd{HOSTILE}"})
    run.write_labels(tags=[HOSTILE], is_pinned=True)
    run.write_manifest(status=f"finished{HOSTILE}", error=HOSTILE, versions={HOSTILE: HOSTILE})
    run.event(HOSTILE, phase=HOSTILE, note=HOSTILE)
    run.event("phase", phase=HOSTILE, agent_steps=1)
    rows = [json.loads(line) for line in run.metrics_file.read_text().splitlines()]
    lines = [json.dumps({**row, f"eval/{HOSTILE}": float(k)}) for k, row in enumerate(rows)]
    run.metrics_file.write_text("\n".join(lines) + "\n")
    shutil.copytree(sorted(real_runs.glob("slow-*"))[0], tmp_path / "runs" / "slow", symlinks=True)
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "--metric", f"eval/{HOSTILE}"],
        ["list", "--filter", HOSTILE],
        ["show", "odd*"],
        ["show", HOSTILE],
        ["compare", "*", "--no-html"],
        ["compare", "*", "--no-html", "--metrics", f"eval/{HOSTILE}"],
        ["tag", "odd*", "--add", "more"],
        ["cleanup", "--keep-recent", "1", "--dry-run"],
        ["export", "*", "--format", "markdown"],
        ["export", "*", "--table", "runs"],
    ],
)
def test_names_from_files_cannot_act_on_the_terminal(hostile, arguments):
    _, text = on_a_terminal(hostile, *arguments)
    assert "Traceback" not in text
    assert "\x1b]" not in text, "sequences that set the title"
    assert "\x07" not in text
    assert "\\x1b" in text, "written out"
    result = piped(hostile, *arguments)
    assert "Traceback" not in result.stderr
    if arguments[0] != "export":  # Which gives other programs what is there.
        assert "\x1b" not in result.stdout + result.stderr


def test_a_run_with_hostile_names_opens_as_a_report(hostile, browser):
    result = piped(hostile, "compare", "*", "--html", "report.html")
    assert result.returncode == 0, result.stderr
    browser.open(hostile / "report.html")
    assert browser.problems == []
    assert "owned" in browser.run("document.querySelector('h1').textContent")
