"""What the attacks start from: made once, by another person's hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from strangers import CARTPOLE, RACING, make_run

from quiet_runs import quiet_run


@pytest.fixture(scope="session")
def strangers_run(tmp_path_factory) -> Path:
    """A finished CartPole run; not to be changed."""
    return make_run(tmp_path_factory.mktemp("stranger"), "ppo_cartpole", *CARTPOLE)


@pytest.fixture(scope="session")
def strangers_racing_policy(tmp_path_factory) -> Path:
    """A policy of the racing world, untrained; not to be changed."""
    folder = tmp_path_factory.mktemp("stranger")
    orchestrator = quiet_run(folder, "racing", *RACING, name="racing")
    orchestrator.workflow.actor().save(folder / "fast_car", orchestrator.config.environment.to_dict())
    orchestrator.context.experience.close()
    return folder / "fast_car"


@pytest.fixture
def person(tmp_path, monkeypatch) -> Path:
    """Whoever is attacked: a folder to work in and a PADDOCK_HOME in which nothing was ever trusted."""
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert os.environ["PADDOCK_HOME"] == str(tmp_path / "home")
    return folder


@pytest.fixture(scope="module")
def wall(tmp_path_factory):
    """`paddock dashboard` over a folder of its own, shared by the tests of a file."""
    from viewer import Wall

    opened = Wall(tmp_path_factory.mktemp("wall"))
    yield opened
    opened.close()
