"""`paddock doctor` on this machine: what is missing is a note, what stops a run is a fault."""

import json
from collections import namedtuple

import pytest

from paddock.cli.main import main
from paddock.core.findings import exit_code
from paddock.orchestration import machine
from paddock.orchestration.machine import EXTRAS, examine_machine


def by_subject(findings):
    return {finding.subject: finding for finding in findings}


def test_doctor_of_the_machine_looks_at_everything(tmp_path):
    found = by_subject(examine_machine(tmp_path / "runs"))
    assert {"python", "disk", "home", "threads", "gpu", "compiler", "browser"} <= set(found)
    assert {f"extra {name}" for name in EXTRAS} <= set(found)
    assert all(finding.fix for finding in found.values() if finding.level != "ok")


def test_doctor_notes_what_is_missing_and_fails_on_a_full_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(machine.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(machine.shutil, "which", lambda name: None)
    found = by_subject(examine_machine(tmp_path))
    assert found["extra atari"].fix == "pip install 'paddock[atari]'"
    assert found["compiler"].level == "note"
    assert exit_code(list(found.values())) == 0
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda path: namedtuple("Usage", "free")(5 * 2**20))
    assert exit_code(examine_machine(tmp_path)) == machine.NO_DISK


def test_doctor_command_prints_json(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["paddock", "doctor", "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    found = json.loads(capsys.readouterr().out)
    assert ended.value.code == next((one["code"] for one in found if one["level"] == "fault"), 0)
    assert {"subject", "level", "sentence", "fix", "code"} == set(found[0])
