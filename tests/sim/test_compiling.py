"""The first compile of the simulator says what it does and how long it takes; a warm start says nothing."""

import json
import os
import re
import subprocess
import sys

import gymnasium
import numba
import pytest

import paddock.environments
from paddock.sim import world as world_module
from paddock.sim.kernels.compiling import announced
from paddock.sim.tracks.sources import load_track
from paddock.sim.world import World


def test_the_first_compile_is_announced_and_a_warm_start_is_silent(tmp_path):
    """As somebody meets it who has just installed Paddock: an empty cache, then a full one."""
    places = {"PADDOCK_HOME": str(tmp_path / "home"), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def show():
        command = [sys.executable, "-m", "paddock", "tracks", "show", "oval", "--json"]
        done = subprocess.run(
            command, cwd=tmp_path, env=os.environ | places, capture_output=True, text=True, timeout=250
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["name"] == "oval"
        return done.stderr

    first, second = show().splitlines(), show()
    assert first[0] == "Compiling the code for reference laps for this machine: once, about 10 s."
    assert re.fullmatch(r"Compiled the code for reference laps in \d+ s\.", first[1])
    assert len(first) == 2
    assert second == ""


@pytest.fixture
def cold(monkeypatch):
    """A world whose kernel has yet to be compiled: a small one in place of the real one."""

    def forget() -> None:
        def kernel(*arguments):
            return len(arguments)

        kernel.__module__ = "paddock.sim.kernels.step"
        compiled = numba.njit(kernel)
        monkeypatch.setattr(world_module, "launch", lambda function, count, block, *arguments: compiled(count, block))

    forget()
    return forget


def test_a_world_announces_its_first_compile_on_stderr(cold, capsys):
    World(load_track("oval"), "gt", 1)
    printed = capsys.readouterr()
    assert printed.out == ""
    first, second = printed.err.splitlines()
    assert first == "Compiling the simulator for this machine: once, about 30 s."
    assert re.fullmatch(r"Compiled the simulator in \d+ s\.", second)
    World(load_track("oval"), "gt", 1)
    assert capsys.readouterr().err == ""


def test_make_vec_announces_the_first_compile_once(cold, capsys):
    assert paddock.environments
    gymnasium.make_vec("paddock/Racing-v0", num_envs=2, track="oval").close()
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("Compiling the simulator for this machine") == 1
    assert printed.err.count("Compiled the simulator in") == 1


def test_other_peoples_kernels_are_not_announced(capsys):
    def foreign(value):
        return value + 1

    with announced():
        numba.njit(foreign)(1)
    assert capsys.readouterr().err == ""


def test_an_error_while_compiling_leaves_no_announcement_open(cold, capsys):
    @announced()
    def fail():
        World(load_track("oval"), "gt", 1)
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert "Compiled the simulator" in capsys.readouterr().err
    cold()
    World(load_track("oval"), "gt", 1)
    assert capsys.readouterr().err.count("Compiling the simulator") == 1
