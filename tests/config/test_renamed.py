"""Old words for options: in saved configurations, in people's YAML and on the command line."""

import pytest

from paddock.config import renamed
from paddock.config.compose import compose
from paddock.config.migrate import migrate
from paddock.core.errors import InputError


@pytest.fixture
def words(monkeypatch):
    """As if some of PPO's options had had other words before."""
    monkeypatch.setitem(renamed.OPTIONS, "workflows.ppo.PPO", {"old_rollout": "rollout_steps"})
    monkeypatch.setitem(renamed.OPTIONS, "components.controllers.policy.StochasticPolicy", {"body": "network"})
    monkeypatch.setitem(renamed.OPTIONS, "", {"evaluation.runs": "evaluation.episodes"})
    monkeypatch.setitem(renamed.METRICS, "eval/score", "eval/return")


def test_an_old_word_on_the_command_line_sets_the_new_option_and_is_told(words, caplog):
    values = compose("ppo_cartpole", overrides=["workflow.old_rollout=64", "evaluation.runs=3"])
    assert values.values["workflow"]["rollout_steps"] == 64
    assert "old_rollout" not in values.values["workflow"]
    assert values.values["evaluation"]["episodes"] == 3
    assert values.origins["workflow.rollout_steps"] == "command line"
    assert "workflow.old_rollout is now workflow.rollout_steps" in caplog.text
    assert len(caplog.records) == 1


def test_old_words_in_a_file_with_an_old_target(words, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "# @package _global_\ndefaults:\n  - override /environment: gym\n  - override /workflow: ppo\n"
        "environment: {id: CartPole-v1}\nworkflow: {old_rollout: 32}\n"
        "components:\n  policy:\n    _target_: paddock.components.networks.policy.StochasticPolicy\n"
        "    body: {hidden: [8, 9]}\n"
    )
    values = compose(user=file).values
    assert values["workflow"]["rollout_steps"] == 32
    assert values["components"]["policy"]["_target_"] == "paddock.components.controllers.policy.StochasticPolicy"
    assert values["components"]["policy"]["network"]["hidden"] == [8, 9]
    assert "body" not in values["components"]["policy"]


def test_the_new_word_wins_where_a_person_wrote_both(words):
    values = compose("ppo_cartpole", overrides=["workflow.old_rollout=64", "workflow.rollout_steps=16"]).values
    assert values["workflow"]["rollout_steps"] == 16


def test_nothing_is_said_where_nothing_is_old(words, caplog):
    compose("ppo_cartpole", overrides=["workflow.rollout_steps=16"])
    assert not caplog.records


def test_a_saved_configuration_is_renamed_with_its_metrics(words):
    saved = {
        "schema_version": 3,
        "workflow": {"_target_": "paddock.workflows.ppo.PPO", "old_rollout": 8},
        "evaluation": {"runs": 2, "metric": "eval/score", "records": {"eval/score": "high"}},
        "training": {"phases": [{"name": "a", "until": "eval/score >= 3"}]},
        "monitoring": {"alerts": {"x": {"when": "eval/score < 1"}}},
    }
    new = migrate(saved)
    assert new["workflow"] == {"_target_": "paddock.workflows.ppo.PPO", "rollout_steps": 8}
    assert new["evaluation"] == {"episodes": 2, "metric": "eval/return", "records": {"eval/return": "high"}}
    assert new["training"]["phases"]["a"]["until"] == "eval/return >= 3"
    assert new["monitoring"]["alerts"]["x"]["when"] == "eval/return < 1"


def test_every_renamed_option_exists():
    """The new word is an option of its owner, and the old one is not."""
    from paddock.config.moved import OWN
    from paddock.config.schema import schema_of

    for target, table in renamed.OPTIONS.items():
        if not target:
            continue
        known = {field.alias or name for name, field in schema_of(OWN + target).model_fields.items()}
        for old, new in table.items():
            assert new.split(".")[0] in known, (target, new)
            assert old not in known, (target, old)


def test_the_old_words_of_evaluation_still_choose_the_evaluator(tmp_path, caplog):
    values = compose("racing", overrides=["evaluation.judge.track=oval"]).values
    assert values["evaluation"]["evaluator"]["track"] == "oval"
    assert "judge" not in values["evaluation"]
    assert compose("racing", overrides=["evaluation.judge=null"]).values["evaluation"]["evaluator"] is None
    assert compose("racing", overrides=["judging@_global_=racing"]).values["evaluation"]["episodes"] == 64
    assert "judging is now evaluation" in caplog.text


def test_a_folder_or_a_default_with_the_old_name_of_a_group_is_refused_with_the_new_one(tmp_path):
    (tmp_path / "judging").mkdir()
    (tmp_path / "judging" / "racing.yaml").write_text("evaluation: {episodes: 2}\n")
    with pytest.raises(InputError, match="'judging' is now called 'evaluation': rename the folder"):
        compose("racing", user=tmp_path)
    file = tmp_path / "elsewhere" / "mine.yaml"
    file.parent.mkdir()
    file.write_text("# @package _global_\ndefaults:\n  - override /judging@_global_: racing\n")
    with pytest.raises(InputError, match="The group 'judging' is now called 'evaluation'"):
        compose(user=file)
