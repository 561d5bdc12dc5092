"""`paddock dashboard --mine DIR`: what the folder offers, and that a request can name nothing beside it."""

import pytest

from paddock.core.errors import InputError
from paddock.dashboard.mine import Mine
from paddock.dashboard.processes import training_arguments

KNOWN = ["racing"]


@pytest.fixture
def mine(tmp_path):
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / "rewards.py").write_text(
        'import os\nos.abort()\n\ndef slide(car):\n    """Pays for sliding.\n\n    More."""\n\n'
        "def _hidden(car): ...\ndef nothing(): ...\n"
    )
    (folder / "lab.yaml").write_text("# @package _global_\n# A race of mine.\ndefaults: [racing]\n")
    (folder / "away.py").symlink_to("/etc/hostname")
    (tmp_path / "outside.yaml").write_text("# Not mine.\n")
    return Mine(folder)


def test_mine_lists_files_and_functions_without_running_them(mine):
    found = mine.choices()
    assert found["experiments"] == [{"name": "lab.yaml", "description": "A race of mine."}]
    assert found["rewards"] == [{"name": "rewards.py:slide", "description": "Pays for sliding."}]
    assert found["problems"] == []


def test_mine_starts_what_it_lists(mine, tmp_path):
    values = {"own_experiment": "lab.yaml", "own_reward": "rewards.py:slide", "overrides": ["training.total_steps=10"]}
    arguments = training_arguments(values, KNOWN, tmp_path, mine)
    assert arguments[:3] == ["train", "--config", str(tmp_path / "lab" / "lab.yaml")]
    assert f"reward={tmp_path / 'lab' / 'rewards.py'}:slide" in arguments


@pytest.mark.parametrize(
    "values",
    [
        {"own_experiment": "../outside.yaml"},
        {"own_experiment": "/etc/passwd"},
        {"own_experiment": ["lab.yaml"]},
        {"experiment": "racing", "own_reward": "rewards.py:_hidden"},
        {"experiment": "racing", "own_reward": "rewards.py:nothing"},
        {"experiment": "racing", "own_reward": "away.py:slide"},
        {"experiment": "racing", "own_reward": "../outside.py:slide"},
        {"experiment": "racing", "overrides": ["reward=rewards.py:slide"]},
    ],
)
def test_mine_refuses_what_it_does_not_list(mine, tmp_path, values):
    with pytest.raises(InputError):
        training_arguments(values, KNOWN, tmp_path, mine)


def test_without_mine_nothing_of_ones_own_can_be_started(tmp_path):
    with pytest.raises(InputError, match="--mine"):
        training_arguments({"own_experiment": "lab.yaml"}, KNOWN, tmp_path, None)
    with pytest.raises(InputError, match="not a folder"):
        Mine(tmp_path / "nowhere")
