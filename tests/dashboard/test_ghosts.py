"""Laps of people and of runs as ghosts: a damaged, hostile or endless file is passed over, alone."""

import json
import os

from paddock.dashboard.ghosts import Ghosts, people_laps
from paddock.experiments.run import RunFolder
from paddock.racing.laps.records import RecordedLap, write_lap

SAMPLES = {name: [0.0, 1.0, 2.0] for name in ("time", "s", "x", "y", "speed")}


def lap(driver: str, lap_time: float = 3.0) -> RecordedLap:
    return RecordedLap(driver, "oval", "gt", lap_time, (), SAMPLES)


def test_laps_that_are_deep_endless_or_no_files_leave_the_others_in_the_list(tmp_path):
    write_lap(tmp_path / "good.json", lap("Ada"))
    write_lap(tmp_path / "endless.json", lap("Eve", 1e6))
    (tmp_path / "deep.json").write_text("[" * 200_000)
    (tmp_path / "nowhere.json").symlink_to(tmp_path / "missing")
    os.mkfifo(tmp_path / "pipe.json")
    assert [name for name, _ in people_laps(tmp_path)] == ["good.json"]


def test_a_result_that_is_deep_or_endless_has_no_ghost(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.results.mkdir(parents=True)
    write_lap(tmp_path / "laps" / "good.json", lap("Ada"))
    endless = {"traces": {"tracks": [{"name": "oval", "lap": {"lap_time": 1e9, "samples": SAMPLES}}]}}
    for text in ("[" * 200_000, json.dumps(endless)):
        (run.results / "best.json").write_text(text)
        ghosts = Ghosts(run, tmp_path / "laps")
        ghosts.show("oval", "gt")
        assert [ghost["driver"] for ghost in ghosts.news()] == ["Ada"]
