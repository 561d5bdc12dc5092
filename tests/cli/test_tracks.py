import json
import os
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from hard_surveys import figure_of_eight, rounded_box, write
from paddock.cli.tracks import app
from paddock.core.errors import InputError
from paddock.sim.tracks.circuits import circuit_names
from paddock.sim.tracks.sources import load_track


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


def poison(home: Path) -> None:
    """Files such as earlier versions kept, or a person put there: none of them is a road."""
    folder = home / "tracks"
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "bent.csv", rounded_box(8.0), 4.0, 9.0)
    (folder / "prose.csv").write_text("this is no track\n")
    (folder / "folder.csv").mkdir()
    os.mkfifo(folder / "pipe.csv")
    (folder / "nowhere.csv").symlink_to(folder / "missing")


BAD = ["bent", "folder", "nowhere", "pipe", "prose"]


def test_one_bad_track_is_one_line_of_the_list_never_its_end(home: Path) -> None:
    run("generate", "--seed", "5", "--output", "five.csv")
    run("import", "five.csv", "--name", "zz-good")
    poison(home)
    table = run("list")
    for name in [*circuit_names(), "zz-good", *BAD]:
        assert name in table
    assert table.count("cannot be used") == len(BAD)
    assert f"The file is {home / 'tracks' / 'prose.csv'}" in table
    entries = {entry["name"]: entry for entry in json.loads(run("list", "--json"))}
    assert sorted(entries) == sorted([*circuit_names(), "zz-good", *BAD])
    assert [name for name, entry in entries.items() if entry["error"]] == BAD
    assert entries["zz-good"]["length_m"] > 0
    assert entries["bent"]["length_m"] is None
    assert entries["bent"].keys() == entries["zz-good"].keys()


def test_the_message_of_a_bad_track_names_the_file_and_the_way_out(home: Path) -> None:
    poison(home)
    file = home / "tracks" / "bent.csv"
    message = refused("show", "bent")
    assert "folds over itself" in message
    assert f"`paddock tracks import {file} --replace`" in message
    assert "`paddock tracks remove bent`" in message
    run("import", str(file), "--replace")
    run("show", "bent")
    assert "not a regular file" in refused("show", "pipe")


def test_remove_deletes_imported_tracks_and_nothing_else(home: Path) -> None:
    run("generate", "--seed", "5", "--output", "five.csv")
    run("import", "five.csv")
    assert "removed" in run("remove", "five")
    assert "unknown track 'five'" in refused("show", "five")
    poison(home)
    for name in ("bent", "prose", "pipe", "nowhere"):
        assert json.loads(run("remove", name, "--json")) == {
            "name": name,
            "removed": str(home / "tracks" / f"{name}.csv"),
        }
    assert "cannot be removed" in refused("remove", "folder")
    assert "shipped circuit" in refused("remove", "oval")
    assert "shipped circuit" in refused("remove", "default")
    assert "no imported track" in refused("remove", "../../five")
    assert "Did you mean 'folder'" in refused("remove", "foldre")
    assert Path("five.csv").is_file()


def test_import_says_what_it_repaired(home: Path) -> None:
    wide = write(Path("wide.csv"), rounded_box(8.0), 4.0, 9.0)
    output = run("import", str(wide))
    assert output.count("repaired: narrowed the left of the road at ") == 4
    assert "kept in" in output
    eight = write(Path("eight.csv"), figure_of_eight(60.0), 4.0, 4.0)
    facts = json.loads(run("import", str(eight), "--json"))
    assert len(facts["repairs"]) == 1
    assert "for a bridge" in facts["repairs"][0]
    assert load_track("eight").bridge
    assert "touches itself" in refused("import", str(eight), "--strict", "--name", "strict")
    assert json.loads(run("import", str(eight), "--bridge", "--name", "flagged", "--json"))["repairs"] == []
    assert "`paddock tracks import wide.csv` repairs" in refused("show", "wide.csv")


def test_a_refused_import_leaves_nothing_behind(home: Path) -> None:
    run("generate", "--seed", "5", "--output", "five.csv")
    run("import", "five.csv")
    before = (home / "tracks" / "five.csv").read_bytes()
    Path("five.csv").write_text("1,2,3\n")
    assert "3 columns" in refused("import", "five.csv", "--replace")
    assert (home / "tracks" / "five.csv").read_bytes() == before
    assert [path.name for path in (home / "tracks").iterdir()] == ["five.csv"]


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
