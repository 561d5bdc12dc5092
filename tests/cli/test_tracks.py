import json
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from paddock.cli.tracks import app
from paddock.core.errors import InputError
from paddock.sim.circuits import circuit_names
from paddock.sim.track import load_track


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None, result.exception
    assert result.exit_code == 0
    return result.output


def refused(*arguments: str) -> str:
    error = CliRunner().invoke(app, list(arguments)).exception
    assert isinstance(error, InputError)
    assert error.exit_code == 2
    return str(error)


def test_list_shows_every_circuit_and_imported_tracks() -> None:
    run("generate", "--seed", "5", "--output", "five.csv")
    run("import", "five.csv", "--name", "my-track")
    table = run("list")
    for name in [*circuit_names(), "my-track", "very hard"]:
        assert name in table
    entries = json.loads(run("list", "--json", "--car", "f1tenth"))
    assert [entry["name"] for entry in entries] == [*circuit_names(), "my-track"]
    assert entries[0]["length_m"] == pytest.approx(101.1, abs=0.1)
    assert all(entry["reference_s"] < entry["centreline_s"] for entry in entries)


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_show_draws_a_picture(ending: str) -> None:
    output = run("show", "kidney", "--car", "road", "--output", f"pictures/kidney.{ending}")
    assert "kidney" in output
    assert Path(f"pictures/kidney.{ending}").stat().st_size > 10_000


def test_show_names_the_picture_after_the_track_and_speaks_json() -> None:
    facts = json.loads(run("show", "procedural:3", "--json"))
    assert facts["picture"] == "procedural-3.png"
    assert sum(facts["sectors_s"]) == pytest.approx(facts["reference_s"], abs=0.01)
    with Image.open("procedural-3.png") as picture:
        assert picture.width == 1400


def test_generate_writes_the_same_track_for_the_same_seed() -> None:
    run("generate", "--seed", "9", "--output", "a.csv", "--points", "18", "--width", "9", "--obstacles", "3")
    run("generate", "--seed", "9", "--output", "b.csv", "--points", "18", "--width", "9", "--obstacles", "3")
    assert Path("a.csv").read_text() == Path("b.csv").read_text()
    assert len(load_track("a.csv").obstacles) == 3
    assert json.loads(run("generate", "--seed", "1", "--json"))["file"] == "procedural-1.csv"


def test_an_imported_track_can_be_named_anywhere(home: Path) -> None:
    run("generate", "--seed", "2", "--output", "two.csv")
    assert "kept in" in run("import", "two.csv")
    assert (home / "tracks" / "two.csv").is_file()
    assert load_track("two").length == pytest.approx(load_track("procedural:2").length, abs=0.1)
    assert "already kept" in refused("import", "two.csv")
    assert json.loads(run("import", "two.csv", "--replace", "--json"))["name"] == "two"


def test_wrong_wishes_get_one_readable_message() -> None:
    assert "Did you mean 'meadow'" in refused("show", "medow")
    assert "Did you mean 'road'" in refused("show", "meadow", "--car", "rood")
    assert "ends in .png or .svg" in refused("show", "oval", "--output", "oval.gif")
    assert "points must be from 4 to 60" in refused("generate", "--seed", "1", "--points", "2")
    assert "cannot be read" in refused("import", "missing.csv")
    run("generate", "--seed", "1", "--output", "thin.csv", "--width", "2.5")
    assert "too narrow for the car 'gt'" in refused("import", "thin.csv")
    run("import", "thin.csv", "--car", "f1tenth")
    assert "shipped circuit" in refused("import", "thin.csv", "--name", "meadow")
    assert "cannot be a track's name" in refused("import", "thin.csv", "--name", "a/b")
