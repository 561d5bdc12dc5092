"""What the start page and a run's ending read: options, endings, replays, standings, limits of a resumed run."""

import json

import pytest

from paddock.config.compose import choices
from paddock.core.extras import EXTRAS
from paddock.dashboard import experiments
from paddock.dashboard.catalog import track_title
from paddock.dashboard.endings import describe_ending, film_file, last_lines, read_replay_of
from paddock.dashboard.errors import Refused
from paddock.dashboard.processes import log_file
from paddock.dashboard.runs import _last_weights
from paddock.dashboard.standings import Standings
from paddock.dashboard.story_api import longer
from paddock.experiments.run import RunFolder
from paddock.racing.agents import read_replay
from paddock.racing.laps.records import RecordedLap, write_lap


def test_start_options_place_every_experiment_in_a_group(monkeypatch):
    monkeypatch.setattr(experiments.importlib.util, "find_spec", lambda name: None)
    found = experiments.start_options(None)
    rows = {row["name"]: row for row in found["experiments"]}
    assert set(rows) == set(choices("experiment"))
    assert {row["group"] for row in rows.values()} <= {group["name"] for group in found["groups"]}
    assert set(experiments.TIMES) | set(experiments.RECOMMENDED) <= set(rows)
    assert set(experiments.EXTRA_OF.values()) | set(experiments.EXTRA_OF_ID.values()) <= set(EXTRAS)
    assert found["experiments"][0]["name"] == "racing"
    assert rows["racing"]["install"] is None
    assert rows["racing"]["track"] is None
    assert rows["ppo_lunarlander"]["install"] == "pip install 'paddock[box2d]'"
    assert (rows["racing_f1tenth"]["car"], rows["dreamer_racing"]["group"]) == ("f1tenth", "world_models")
    assert found["mine"] is None


def test_weights_after_the_end_are_those_of_the_last_change():
    config = {
        "reward": {"progress": {"weight": 0.1}, "apex": {"weight": 2.0}},
        "training": {"phases": {"second": {"reward": {"apex": 3.0}}}},
    }
    changed = {"event": "control", "command": "reward", "term": "progress", "weight": 0.85}
    foreign = {**changed, "term": "unknown"}
    events = [{"event": "phase", "phase": "first"}, changed, {"event": "phase", "phase": "second"}, foreign]
    assert _last_weights(config, events) == {"progress": 0.85, "apex": 3.0}


@pytest.fixture
def run(tmp_path):
    folder = RunFolder(tmp_path / "runs" / "mine")
    for place in (folder.path, folder.results, folder.videos, log_file(folder).parent):
        place.mkdir(parents=True)
    return folder


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("BrandsHatch", "Brands Hatch"),
        ("IMS", "IMS"),
        ("my_oval", "My oval"),
        ("oval", "Oval"),
        ("Mexico-City", "Mexico City"),
    ],
)
def test_titles_of_tracks_keep_their_capitals(name, title):
    assert track_title(name) == title


def test_ending_tells_laps_films_log_and_error(run):
    start = {"track": "oval", "start": 0.0, "lap_time": 20.0, "reference": 19.0, "clean": 1.0, "distance": 5.0}
    result = {"metrics": {"eval/finish_rate": 1.0}, "details": {"starts": [{**start, "sectors": [1, 2]}]}}
    run.result_file("best").write_text(json.dumps(result))
    (run.videos / "lap.mp4").write_bytes(b"film")
    (run.videos / "away.mp4").symlink_to("/etc/hostname")
    log_file(run).write_text("first\n\x1b[31mred\x1b[0m line\n10 %\r20 %\n")
    run.event("failed", agent_steps=3, error="the reward is NaN.")
    found = describe_ending(run)
    assert (found["starts"], found["has_policy"]) == ([start], False)
    assert found["films"] == ["lap.mp4"]
    assert found["log"] == ["first", "red line", "20 %"]
    assert found["error"] == "the reward is NaN."
    assert film_file(run, "lap.mp4").read_bytes() == b"film"
    for name in ("away.mp4", "../runs/mine/videos/lap.mp4"):
        with pytest.raises(Refused):
            film_file(run, name)


@pytest.mark.parametrize("text", ["", "[", "[]", '{"traces": {"tracks": []}}', '{"traces": {"tracks": [{"lap": 3}]}}'])
def test_ending_of_a_damaged_run_is_empty_and_has_no_replay(run, text):
    run.result_file("best").write_text(text)
    assert describe_ending(run)["starts"] == []
    assert last_lines(log_file(run)) == []
    assert read_replay_of(run, "best") is None
    with pytest.raises(Refused, match="allowed: best, latest"):
        read_replay_of(run, "../best")


def test_replay_of_an_older_result_has_the_road_alone(run):
    shipped = read_replay()
    scene, lap = shipped["scene"], shipped["laps"][0]
    times = [lap["dt"] * k for k in range(len(lap["x"]))]
    entry = {
        "name": "meadow",
        "length": scene["track"]["length"],
        "left": scene["track"]["left"],
        "right": scene["track"]["right"],
        "reference": {"lap_time": 49.2, "sectors": [1.0], "samples": scene["reference"]},
        "lap": {"lap_time": lap["lap_time"], "samples": {"time": times, "x": lap["x"], "y": lap["y"]}},
    }
    run.result_file("best").write_text(json.dumps({"traces": {"car": "gt", "tracks": [entry]}}))
    replay = read_replay_of(run, "best")
    assert replay["scene"]["track"].keys() == scene["track"].keys()
    assert replay["scene"]["track"]["scenery"].keys() == scene["track"]["scenery"].keys()
    assert replay["laps"][0]["lap_time"] == lap["lap_time"]
    assert replay["drives"] is None


async def _standings(folder):
    board = Standings(folder)
    try:
        return await board.of("meadow", "gt")
    finally:
        board.close()


def test_standings_list_classical_driver_shipped_agent_and_people(tmp_path, monkeypatch):
    import asyncio

    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    samples = {name: [0.0, 1.0] for name in ("time", "s", "x", "y", "speed")}
    for folder, driver, time in (
        (tmp_path / "home" / "classical_laps", "classical driver", 51.2),
        (tmp_path / "laps", "Ada", 50.0),
        (tmp_path / "laps", "Ben", 60.0),
    ):
        write_lap(folder / f"{driver[:3]}-gt.json", RecordedLap(driver, "meadow", "gt", time, (), samples))
    found = asyncio.run(_standings(tmp_path / "laps"))
    assert found["is_complete"]
    assert [(row["kind"], row["name"]) for row in found["rows"]] == [
        ("person", "Ada"),
        ("shipped", "Agent that ships"),
        ("classical", "Classical driver"),
        ("person", "Ben"),
    ]


def test_a_resumed_run_takes_limits_and_nothing_else():
    assert longer({"total_steps": 8_000, "max_seconds": None, "command": "id"}) == [
        "training.total_steps=8000",
        "training.max_seconds=null",
    ]
    for value in (0, -1, 1.5, "9", True, 10**13):
        with pytest.raises(Refused, match="total_steps"):
            longer({"total_steps": value})
