"""What the attacks start from: made once, by another person's hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from strangers import CARTPOLE, RACING, make_run


@pytest.fixture(scope="session")
def strangers_run(tmp_path_factory) -> Path:
    """A finished CartPole run; not to be changed."""
    return make_run(tmp_path_factory.mktemp("stranger"), "ppo_cartpole", *CARTPOLE)


@pytest.fixture(scope="session")
def strangers_racing_policy(tmp_path_factory) -> Path:
    """A policy of the racing world, untrained; not to be changed."""
    from rich.console import Console

    from paddock.experiments.run import RunFolder
    from paddock.orchestration.build import build
    from paddock.orchestration.launch import Request, resolve

    folder = tmp_path_factory.mktemp("stranger")
    config, _ = resolve(Request("racing", overrides=RACING))
    run = RunFolder.create(folder, "racing", config.model_dump(mode="json", by_alias=True))
    orchestrator = build(config, run, Console(quiet=True))
    orchestrator.workflow.actor().save(folder / "fast_car", config.environment.to_dict())
    orchestrator.context.environment.close()
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
