"""TAB in the shell: what bash, zsh and fish are answered, and a real bash that is typed into."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from paddock.cli.completion import CARS, joined_words
from paddock.cli.main import main

PROGRAM = Path(sys.executable).with_name("paddock")


@pytest.fixture(scope="module")
def folder(real_runs, tmp_path_factory):
    """A folder with runs in it: `fast` and `slow`, each with two seeds."""
    folder = tmp_path_factory.mktemp("completion")
    shutil.copytree(real_runs, folder / "runs", symlinks=True)
    return folder


@pytest.fixture
def answers(folder, monkeypatch, capsys):
    """What a shell is told to offer for a line that was typed so far, by the program's own protocol."""

    def ask(shell, line):
        words = ["paddock", *re.split(r"\s+|(?<=[=:])|(?=[=:])", line)[1:]]  # bash also breaks words there
        asked = {
            "bash": {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)},
            "zsh": {"_TYPER_COMPLETE_ARGS": line},
            "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
        }[shell]
        monkeypatch.chdir(folder)
        for name, value in (asked | {"_PADDOCK_COMPLETE": f"complete_{shell}"}).items():
            monkeypatch.setenv(name, value)
        with suppress(SystemExit):
            main()
        told, complaint = capsys.readouterr()
        assert complaint == ""
        if shell == "zsh":
            return re.findall(r'(?<!:)"([^"\s]+)"', told)
        return [one.split("\t")[0] for one in told.splitlines()]

    return ask


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("paddock evaluate fa", "fast"),
        ("paddock race slow fa", "fast"),
        ("paddock dashboard sl", "slow"),
        ("paddock train --resume fa", "fast"),
        ("paddock drive --against cl", "classical"),
        ("paddock drive --against sl", "slow"),
        ("paddock show fa", "fast"),
        ("paddock compare fast sl", "slow"),
        ("paddock verify fa", "fast"),
        ("paddock export fa", "fast"),
        ("paddock tag fa", "fast"),
        ("paddock train ppo_cart", "ppo_cartpole"),
        ("paddock train racing --preset smo", "smoke"),
        ("paddock race fast --track mea", "meadow"),
        ("paddock drive --track ov", "oval"),
        ("paddock drive --car f1", "f1tenth"),
        ("paddock tracks show ser", "serpent"),
        ("paddock train racing training.to", "training.total_steps="),
        ("paddock train --resume fast training.to", "training.total_steps="),
        ("paddock evaluate fast environment.i", "environment.id="),
        ("paddock evaluate fast --whi", "--which"),
        ("paddock train --res", "--resume"),
        ("paddock eva", "evaluate"),
    ],
)
def test_tab_completes_runs_experiments_tracks_keys_and_options_in_bash(answers, line, expected):
    assert expected in answers("bash", line)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("paddock train racing reward=", {"baseline", "racing_line", "time_optimal"}),
        ("paddock train racing reward=ba", {"baseline"}),
        ("paddock train racing environment.track=me", {"meadow"}),
        ("paddock train racing environment.car=f", {"f1tenth"}),
        ("paddock race fast --track=me", {"meadow"}),
        ("paddock train rac", {"racing", "racing_multi_track"}),
        ("paddock evaluate sl", {"slow"}),
    ],
)
def test_tab_completes_values_in_every_shell(answers, shell, line, expected):
    found = answers(shell, line)
    prefix = line.split()[-1].partition("=")[0] + "=" if "=" in line and "--" not in line else ""
    if shell == "bash":  # bash replaces what stands behind the equals sign, the others the whole word.
        prefix = ""
    assert {f"{prefix}{value}" for value in expected} <= set(found), found
    assert all(one.startswith(prefix) for one in found)


def test_tab_after_a_mistake_offers_nothing_and_prints_no_error(answers):
    assert answers("bash", "paddock nosuchverb ") == []
    assert answers("bash", "paddock evaluate nosuchrun environment.") == []


def test_tab_does_not_import_what_is_slow(folder, answers):
    code = (
        "import os, sys\n"
        "os.environ |= {'_PADDOCK_COMPLETE': 'complete_zsh', '_TYPER_COMPLETE_ARGS': sys.argv.pop()}\n"
        "from paddock.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit: pass\n"
        "print([name for name in ('torch', 'numba', 'numpy', 'scipy', 'hydra') if name in sys.modules])"
    )
    lines = ["paddock train racing training.to", "paddock race fa", "paddock drive --track me", "paddock evaluate fa"]
    answers("zsh", lines[0])  # The keys of an experiment are composed once, then remembered.
    for line in lines:
        result = subprocess.run(
            [sys.executable, "-c", code, line], cwd=folder, capture_output=True, text=True, timeout=60
        )
        assert result.stdout.splitlines()[-1] == "[]", line


def test_the_cars_that_are_offered_are_all_there_are():
    from paddock.sim.cars.car import CARS as KNOWN

    assert sorted(CARS) == sorted(KNOWN)


@pytest.mark.parametrize(
    ("words", "current", "joined", "prefix"),
    [
        ("paddock train reward = ba", 4, "reward=ba", "reward="),
        ("paddock train reward =", 3, "reward=", "reward="),
        ("paddock train --track = procedural : 3", 6, "--track=procedural:3", "--track=procedural:"),
        ("paddock train rac", 2, "rac", ""),
        ("paddock train", 2, "", ""),
    ],
)
def test_words_that_bash_takes_apart_are_put_together(words, current, joined, prefix):
    found, before = joined_words(words.replace(" ", "\n"), current)
    assert (found[-1], before) == (joined, prefix)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_person_presses_tab_in_bash(folder, tmp_path):
    script = subprocess.run(
        [PROGRAM, "--show-completion", "bash"], capture_output=True, text=True, timeout=60,
        env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
    ).stdout  # fmt: skip
    start = tmp_path / "bashrc"
    start.write_text(f"PS1='> '\nbind 'set bell-style none'\nbind 'set enable-bracketed-paste off'\n{script}")
    leader, follower = pty.openpty()
    shell = subprocess.Popen(
        ["bash", "--noprofile", "--rcfile", start, "-i"], cwd=folder, stdin=follower, stdout=follower, stderr=follower,
        env={**os.environ, "TERM": "dumb", "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}, start_new_session=True,
    )  # fmt: skip
    os.close(follower)
    try:
        _wait_for(leader, "> ")
        os.write(leader, b"paddock train racing training.to\t")
        _wait_for(leader, "training.total_steps=")
        os.write(leader, b"10 reward=base\t")
        _wait_for(leader, "10 reward=baseline ")
    finally:
        shell.kill()
        shell.wait()
        os.close(leader)


def _wait_for(leader, text, patience=30.0):
    """Read what the terminal shows until the text is there."""
    shown, until = "", time.monotonic() + patience
    while text not in shown:
        assert time.monotonic() < until, shown
        if select.select([leader], [], [], 0.2)[0]:
            shown += os.read(leader, 4096).decode()
