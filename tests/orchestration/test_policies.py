"""The shelf of policies: what is kept, what goes, what cannot be a name."""

import json
from pathlib import Path

import pytest

from paddock.core.errors import InputError
from paddock.experiments.run import RunFolder
from paddock.orchestration.policies import PolicyStore, list_policies, policy_folder

RECORDS = {"eval/pace": "high", "eval/best_lap": "low"}


class Actor:
    """Writes what marks a policy's folder."""

    def save(self, folder: Path, environment: dict | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "policy.json").write_text(json.dumps({"environment": environment}))


@pytest.fixture
def shelf(tmp_path):
    return PolicyStore(RunFolder(tmp_path), {"track": "oval"}, RECORDS, keep=3)


def names(tmp_path):
    return [record["name"] for record in list_policies(tmp_path / "policy")]


def test_each_improvement_is_kept_with_its_record(shelf, tmp_path):
    assert shelf.keep_if_improved(Actor(), {"eval/pace": 0.0}, agent_steps=1) == ["eval/pace"]
    assert shelf.keep_if_improved(Actor(), {"eval/pace": 0.0}, agent_steps=2) == []
    found = shelf.keep_if_improved(Actor(), {"eval/pace": 0.5, "eval/best_lap": 60.0}, agent_steps=3)
    assert found == ["eval/pace", "eval/best_lap"]
    assert shelf.keep_if_improved(Actor(), {"eval/pace": 0.4, "eval/best_lap": 61.0}, agent_steps=4) == []
    assert shelf.keep_if_improved(Actor(), {"eval/pace": float("nan"), "eval/best_lap": 59.0}, agent_steps=5)
    kept = list_policies(tmp_path / "policy")
    assert [record["agent_steps"] for record in kept] == [1, 3, 5]
    assert kept[1]["metrics"]["eval/best_lap"] == 60.0
    again = PolicyStore(RunFolder(tmp_path), {}, RECORDS, keep=3)
    assert again.keep_if_improved(Actor(), {"eval/best_lap": 59.5}, agent_steps=6) == [], "a resumed run remembers"


def test_the_oldest_go_and_holders_of_records_stay(shelf, tmp_path):
    shelf.keep_if_improved(Actor(), {"eval/pace": 0.1, "eval/best_lap": 10.0}, agent_steps=1)
    for step in range(2, 8):
        shelf.keep_if_improved(Actor(), {"eval/pace": step / 10, "eval/best_lap": 20.0}, agent_steps=step)
    assert [name[-1] for name in names(tmp_path)] == ["1", "6", "7"]


def test_names_by_hand_are_checked_and_never_thinned_out(shelf, tmp_path):
    assert shelf.save_by_hand(Actor(), "mine", {"eval/pace": 0.2}, agent_steps=1) == "mine"
    for wrong in ("../up", "a/b", "best", "step-1", ".hidden", "x" * 65, "with space"):
        with pytest.raises(InputError, match="cannot name a policy"):
            shelf.save_by_hand(Actor(), wrong, {}, agent_steps=1)
    for step in range(2, 9):
        shelf.keep_if_improved(Actor(), {"eval/pace": step / 10}, agent_steps=step)
    assert "mine" in names(tmp_path)
    assert policy_folder(RunFolder(tmp_path), "mine") == tmp_path / "policy" / "mine"
    with pytest.raises(InputError, match="Did you mean 'mine'"):
        policy_folder(RunFolder(tmp_path), "mime")


def test_a_damaged_record_does_not_hide_its_policy(shelf, tmp_path):
    shelf.export(Actor(), "best", agent_steps=5, metrics={})
    (tmp_path / "policy" / "best" / "record.json").write_text("{")
    assert list_policies(tmp_path / "policy")[0]["name"] == "best"
