"""The command line for racing people: train a moment, evaluate, race."""

import json
import re

import pytest

from paddock.cli.main import main
from paddock.core.errors import InputError
from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.laps.classical import classical_lap
from paddock.racing.laps.drive import evaluation_config
from paddock.racing.laps.records import RecordedLap, write_lap
from paddock.racing.race.race import run_race

SMALL = [
    "environment.num_envs=8",
    "environment.track=oval",
    "workflow.rollout_steps=128",
    "workflow.minibatch_size=64",
    "workflow.epochs=1",
    "training.total_steps=256",
    "evaluation.episodes=2",
    "logging.tensorboard=false",
]


@pytest.fixture
def here(tmp_path, monkeypatch, capsys):
    """Run `paddock ARGUMENTS` in this process; what it printed and what it said on standard error."""

    def run(*arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("sys.argv", ["paddock", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return capsys.readouterr()

    return run


def test_train_evaluate_and_race(paddock, tmp_path):
    trained = paddock("train", "racing", "--name", "demo", *SMALL)
    assert trained.returncode == 0, trained.stderr
    assert "eval finish rate" in trained.stdout
    (run,) = (tmp_path / "runs").glob("demo-s1-*/")
    for told in ("Best lap ", "on oval", "Finish rate ", "of 2 starts", "Classical driver ", "steps/s overall"):
        assert told in trained.stdout
    for command in (f"paddock race runs/{run.name}", f"drive --against runs/{run.name}", f"dashboard {run.name}"):
        assert command in trained.stdout

    evaluated = paddock("evaluate", "demo", "--episodes", "2", "--track", "oval", "--track", "kidney", "--json")
    assert evaluated.returncode == 0, evaluated.stderr
    values = json.loads(evaluated.stdout)
    assert [start["track"] for start in values["starts"]] == ["oval", "kidney"]
    assert 0.0 <= values["eval/finish_rate"] <= 1.0
    assert "was trained on oval; it has never seen kidney." in evaluated.stderr

    lap = classical_lap(evaluation_config(RacingVectorEnv(1, track="oval")), 0)
    assert lap is not None
    write_lap(tmp_path / "laps" / "ada.json", RecordedLap("Ada", "oval", "gt", lap.lap_time, lap.sectors, lap.samples))
    raced = paddock("race", "demo", "--starts", "1", "--save-laps", "--json")
    assert raced.returncode == 0, raced.stderr
    standings = json.loads(raced.stdout)
    assert [row["kind"] for row in standings["standings"]] in (
        ["program", "person", "agent"],
        ["person", "program", "agent"],
    )
    assert standings["standings"][0]["ratio"] == pytest.approx(1.04, abs=0.04)
    files = {name: tmp_path / file for name, file in standings["files"].items()}
    assert files["picture"].stat().st_size > 10_000
    page = files["page"].read_text()
    assert "classical driver" in page
    assert "Ada" in page
    assert "src='http" not in page
    assert "default-src 'none'" in page, "the page may ask for nothing"


def test_a_race_on_a_circuit_that_the_agent_never_saw_says_so(paddock, here, tmp_path):
    assert paddock("train", "racing", "--name", "demo", *SMALL).returncode == 0
    told, doing = here("race", "demo", "--track", "kidney", "--starts", "1", "--video")
    assert "was trained on oval; it has never seen kidney." in told
    assert "paddock train racing_multi_track" in told, "it completed no lap"
    assert "--track oval" in told.partition("Next:")[2], "its own track, and no other one"
    assert "serpent" not in told
    assert "No film: no agent completed a lap." in doing
    assert "drives on kidney" in doing
    rows = run_race(["demo"], tmp_path / "runs", track="kidney", starts=1).values()["standings"]
    assert {row["kind"]: row["is_unseen"] for row in rows} == {"program": None, "agent": True}

    told, doing = here("evaluate", "demo", "--episodes", "2")
    assert re.search(r"off track\t[\d.]+ s\n", told), "values have units"
    assert "never seen" not in doing
    with pytest.raises(InputError, match="Did you mean 'oval'"):
        run_race(["demo"], tmp_path / "runs", track="ovl")


def test_who_is_not_there_cannot_race(tmp_path):
    with pytest.raises(InputError, match="there is no run 'demo'"):
        run_race(["demo"], tmp_path)
    with pytest.raises(InputError, match="say who races"):
        run_race([], tmp_path)
