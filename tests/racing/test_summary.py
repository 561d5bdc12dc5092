"""What a person is told of a racing run at its end."""

import json

import pytest

from paddock.experiments.run import RunFolder
from paddock.racing import summary as racing_summary
from paddock.racing.env.config import racing_config
from paddock.racing.summary import classical_time, findings

CONFIG = racing_config(track="oval")


@pytest.fixture
def run(tmp_path):
    """A run with a best evaluation; `run.evaluate(starts)` writes it as (track, lap time or None)."""
    folder = RunFolder(tmp_path)

    def evaluate(starts):
        rows = [{"track": track, "lap_time": time, "reference": 50.0} for track, time in starts]
        folder.results.mkdir(exist_ok=True)
        (folder.results / "best.json").write_text(json.dumps({"details": {"starts": rows}}))
        return folder

    folder.evaluate = evaluate
    return folder


def test_a_racing_run_ends_with_its_best_lap_its_finish_rate_and_the_classical_driver(run, monkeypatch):
    monkeypatch.setattr(racing_summary, "classical_time", lambda config, track: 52.0)
    found = findings(run.evaluate([("meadow", 51.5), ("meadow", 51.0), ("meadow", None)]), CONFIG)
    assert found == [
        ("Best lap", "51.000 s on meadow, 2.0 % over the reference lap (50.000 s)"),
        ("Classical driver", "52.000 s; the agent is 1.000 s faster"),
        ("Finish rate", "2 of 3 starts (67 %)"),
    ]
    (best, classical, _) = findings(run.evaluate([("meadow", None)]), CONFIG)
    assert best == ("Best lap", "no start completed a lap on meadow")
    assert classical == ("Classical driver", "52.000 s")


def test_many_tracks_are_summed_up(run):
    starts = [(f"procedural:{number}", 55.0) for number in range(6)]
    assert findings(run.evaluate(starts), CONFIG) == [
        ("Lap times", "1.100 x the reference lap on average, 1.100 x at best"),
        ("Finish rate", "6 of 6 starts (100 %) on 6 tracks"),
    ]


def test_a_run_without_a_readable_evaluation_tells_nothing_of_laps(run):
    assert findings(run, CONFIG) == []
    assert findings(run.evaluate([]), CONFIG) == []
    (run.results / "best.json").write_text("{")
    assert findings(run, CONFIG) == []


def test_the_classical_driver_is_timed_on_the_same_road():
    assert classical_time(CONFIG, "oval") == pytest.approx(30.9, abs=1.0)
    assert classical_time(CONFIG, "no such track") is None
