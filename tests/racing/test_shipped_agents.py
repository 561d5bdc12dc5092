"""Agents that ship: small, loadable without trust, and they complete laps; and how one is exported."""

import pytest

from paddock.core.errors import InputError
from paddock.orchestration.subject import find_subject
from paddock.racing.agents import FOLDER, agent_folder, agent_names, describe_agents, read_replay
from paddock.racing.agents.export import export_agent
from paddock.racing.board import lap_board
from paddock.racing.drive.setup import DriveRequest, opponent_folder, unseen_by_opponent
from paddock.sim.cars.car import CARS

MOST_BYTES = 700_000


def test_shipped_agents_are_small_and_one_for_each_car():
    files = [file for name in agent_names() for file in (FOLDER / name).iterdir()]
    assert sum(file.stat().st_size for file in files) < MOST_BYTES
    assert set(CARS) <= set(agent_names())
    for agent in describe_agents():
        assert agent["car"] in CARS
        assert agent["lap_time"] > 0
        assert read_replay(agent["name"])["scene"]["track"]["name"] in agent["tracks"]


def test_against_agent_means_the_one_that_fits(tmp_path):
    def chosen(**wanted):
        return opponent_folder(DriveRequest(against="agent", runs_dir=tmp_path, **wanted)).name

    assert chosen() == "gt"
    assert chosen(track="meadow", car="road") == "road"
    assert chosen(car="f1tenth") == "f1tenth"
    assert opponent_folder(DriveRequest(against="agent/arcade")).name == "arcade"
    assert chosen(track="meadow") == "gt", "the quickest there"
    assert chosen(track="serpent") == "circuits"
    assert chosen(track="serpent", car="road") == "road", "no other one knows this car"
    assert chosen(track="kidney") == "gt", "none gets round"
    with pytest.raises(InputError, match="shipped agent"):
        agent_folder("agent/../../gt")


def test_agent_for_several_circuits_laps_them_and_says_where_it_does_not(tmp_path):
    (agent,) = [row for row in describe_agents() if row["name"] == "circuits"]
    assert len(agent["laps_on"]) >= 3
    subject = find_subject(str(FOLDER / "circuits"), tmp_path, overrides=["environment.track=ribbon"], is_for_laps=True)
    _, values = subject.evaluate(episodes=4, seed=7, deterministic=True)
    assert values["eval/finish_rate"] >= 0.75
    request = DriveRequest(against="agent/circuits", track="kidney")
    assert "kidney from only" in unseen_by_opponent(request, "kidney")
    assert unseen_by_opponent(request, "ribbon") is None


def test_an_exported_agent_drives_the_lap_that_it_ships_with(tmp_path):
    subject = find_subject(str(FOLDER / "gt"), tmp_path, is_for_laps=True)
    values = export_agent(subject, "best", tmp_path / "mine")
    assert values["best_lap"] == pytest.approx(read_replay()["laps"][0]["lap_time"], abs=0.02)
    assert values["finish_rate"] == 1.0
    assert values["bytes"] < MOST_BYTES / 5


def test_lap_board_of_the_default_circuit_is_sorted_and_has_the_shipped_agent(tmp_path):
    rows = lap_board("meadow", "gt", tmp_path)
    assert [row["kind"] for row in rows] == ["reference", "shipped", "classical", "shipped"]
    assert [row["name"] for row in rows if row["kind"] == "shipped"] == ["agent/gt", "agent/circuits"]
    assert [row["lap_time"] for row in rows] == sorted(row["lap_time"] for row in rows)
