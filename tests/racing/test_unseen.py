"""Agents on circuits that they never saw in training."""

import json

import pytest

from paddock.racing.drive.setup import DriveRequest, unseen_by_opponent
from paddock.racing.unseen import is_unseen, own_track, saved_environment, trained_on, unseen_note

ONE = {"track": "meadow", "procedural": 0}
THREE = {"track": ["oval", "default", "tracks/Spielberg.csv"], "procedural": 0}
MANY = {"track": "meadow", "procedural": 300, "procedural_seed": 10, "procedural_style": "mixed"}


@pytest.mark.parametrize(
    ("environment", "track", "expected"),
    [
        (ONE, "meadow", False),
        (ONE, "oval", True),
        (ONE, "procedural:3", True),
        (THREE, "meadow", False),
        (THREE, "Spielberg", False),
        (THREE, "kidney", True),
        (MANY, "meadow", True),
        (MANY, "procedural:10", False),
        (MANY, "procedural:309:style=circuit:width=9.1", False),
        (MANY, "procedural:310", True),
    ],
)
def test_a_circuit_that_was_no_part_of_the_training_is_unseen(environment, track, expected):
    assert is_unseen(environment, track) == expected


def test_an_agent_on_an_unseen_circuit_is_said_to_be_that():
    assert unseen_note("demo", ONE, "oval") == "demo was trained on meadow; it has never seen oval."
    assert unseen_note("demo", ONE, "meadow") is None
    assert unseen_note("demo", {"id": "CartPole-v1"}, "oval") is None
    assert trained_on(THREE) == "oval, meadow, Spielberg"
    assert trained_on(MANY) == "300 procedural tracks"
    assert [own_track(one) for one in (ONE, THREE, MANY)] == ["meadow", "oval", "procedural:10"]


def test_an_opponent_from_another_circuit_is_announced_before_one_drives_against_it(tmp_path):
    (tmp_path / "policy.json").write_text(json.dumps({"environment": ONE}))
    assert saved_environment(tmp_path) == ONE
    request = DriveRequest(track="oval", against=str(tmp_path))
    note = unseen_by_opponent(request, "oval")
    assert note is not None
    assert "was trained on meadow; it has never seen oval. It may not get round." in note
    assert "paddock train racing_multi_track" in note
    assert unseen_by_opponent(request, "meadow") is None
    assert unseen_by_opponent(DriveRequest(track="oval", against="classical"), "oval") is None
