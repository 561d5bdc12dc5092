"""The timeline of a run as the server reads it: names that are there, damaged files passed over, a page to share."""

import json
from dataclasses import replace

import pytest
from timeline_cases import racing_run

from paddock.core.results import drives_folder
from paddock.dashboard import timeline
from paddock.dashboard.errors import Refused
from paddock.experiments.run import RunFolder
from paddock.racing.laps.archive import keep_drives, read_evaluation


def test_timeline_lists_drives_and_the_policies_that_are_kept_of_them(tmp_path):
    run = racing_run(tmp_path)
    rows = timeline.timeline(run)
    assert [row["agent_steps"] for row in rows] == [1_000, 20_000, 30_000]
    assert rows[1]["policies"] == ["step-000000020000"]
    assert [row["drives"][0]["lap_time"] is None for row in rows] == [True, False, False]
    (drives_folder(run.path) / "step-000000020000.json").write_text("{}")
    assert [row["agent_steps"] for row in timeline.timeline(run)] == [1_000, 30_000], "a damaged one is passed over"


def test_timeline_of_a_run_of_an_earlier_version_is_empty(tmp_path):
    assert timeline.timeline(racing_run(tmp_path, has_drives=False)) == []


def test_timeline_gives_drives_and_roads_by_names_that_are_there_only(tmp_path):
    run = racing_run(tmp_path)
    (drive,) = timeline.evaluation(run, "20000")["drives"]
    assert timeline.road(run, drive["road"])["track"]["name"] == "oval"
    for given in ("7", "../../config", "1e3", "²", ""):
        with pytest.raises(Refused) as refusal:
            timeline.evaluation(run, given)
        assert refusal.value.status == 404
    for key in ("0" * 16, "../../../manifest", "*"):
        with pytest.raises(Refused) as refusal:
            timeline.road(run, key)
        assert refusal.value.status == 404


def test_share_gives_the_chosen_drives_or_the_best_lap_as_a_page(tmp_path):
    run = racing_run(tmp_path)

    def drivers(text: str) -> list[str]:
        data = json.loads(text.partition('type="application/json">')[2].partition("</script>")[0])
        return [lap["driver"] for lap in data["laps"]]

    best = f"{run.name}, step 30,000"
    assert drivers(timeline.shared_page(run, [], None)) == [best, "Reference lap"]
    chosen = timeline.shared_page(run, ["1000", "30000"], "oval")
    assert drivers(chosen) == [f"{run.name}, step 1,000", best, "Reference lap"]
    assert len(chosen) < 500_000
    with pytest.raises(Refused, match="nothing was driven on"):
        timeline.shared_page(run, ["1000"], "meadow")
    with pytest.raises(Refused, match="no stored laps"):
        timeline.shared_page(racing_run(tmp_path, name="old", has_drives=False), [], None)


def test_share_of_a_driving_session_has_the_best_lap_of_every_driver(tmp_path):
    run = racing_run(tmp_path)
    folder = drives_folder(run.path)
    kept = read_evaluation(folder, 30000)
    names = [("you", "person"), ("agent", "agent")]
    road, first = timeline.road(run, kept.drives[0].road), kept.drives[0]
    drives = [(road, replace(first.drive(name), kind=kind)) for name, kind in names]
    race = RunFolder(tmp_path / "race")
    with pytest.raises(Refused, match="nobody has completed a lap"):
        timeline.shared_race(race)
    keep_drives(drives_folder(race.path), 0, drives, kept=())
    text = timeline.shared_race(race)
    data = json.loads(text.partition('type="application/json">')[2].partition("</script>")[0])
    assert [lap["driver"] for lap in data["laps"]] == ["you", "agent", "Reference lap"]
    assert data["title"] == "Race on oval"
