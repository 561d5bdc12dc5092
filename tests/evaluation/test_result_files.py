"""Results of evaluations in a run's folder, under the names of today and of older runs."""

import json
import shutil
from pathlib import Path

from paddock.core.results import read_result, result_file, result_files, results_folder
from paddock.experiments.compare.compare import compare
from paddock.experiments.compare.laps import compared_laps
from paddock.experiments.run import RunFolder
from paddock.experiments.store.show import part_damage

BEFORE = Path(__file__).parents[1] / "config" / "fixtures" / "schema_3" / "racing"


def test_results_of_an_older_run_are_found_in_judgements(tmp_path):
    run = RunFolder(shutil.copytree(BEFORE, tmp_path / "racing", symlinks=True))
    assert run.result_file("best") == run.path / "judgements" / "best.json"
    found = read_result(run.result_file("best"))
    assert "evidence" not in found
    assert found["traces"]["tracks"][0]["name"] == "oval"
    assert [file.stem for file in result_files(run.path)] == ["best", "latest"]
    (run.path / "judgements" / "best.json").write_text("{")
    assert "judgements/best.json" in " ".join(part_damage(run))


def test_new_results_are_written_to_results_and_read_first(tmp_path):
    assert result_file(tmp_path, "best") == results_folder(tmp_path) / "best.json"
    for folder in ("judgements", "results"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "best.json").write_text(json.dumps({"traces": folder}))
    (tmp_path / "judgements" / "latest.json").write_text("{}")
    assert read_result(result_file(tmp_path, "best"))["traces"] == "results"
    assert result_file(tmp_path, "latest").parent.name == "judgements"
    assert len(result_files(tmp_path)) == 3


def test_laps_of_an_older_run_are_compared(tmp_path):
    shutil.copytree(BEFORE, tmp_path / "runs" / "racing", symlinks=True)
    comparison = compare(tmp_path / "runs", ["racing"])
    tracks, damage = compared_laps(comparison)
    assert [track["name"] for track in tracks] == ["oval"]
    assert not damage
