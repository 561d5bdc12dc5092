"""Phases as a mapping that YAML and the command line can merge, and the lists that they were before."""

import pytest

from paddock.config.compose import compose
from paddock.config.inheritance import settle
from paddock.config.overriding import with_overrides
from paddock.config.phases import phases_by_name
from paddock.config.validate import validate
from paddock.core.errors import InputError
from paddock.orchestration.schema import ExperimentConfig

HEAD = "# @package _global_\ndefaults:\n  - sac_pendulum\n  - _self_\n"


def phases(*overrides, experiment="sac_pendulum", user=None):
    values = settle(compose(None if user else experiment, user=user, overrides=overrides)).values
    return validate(values, ExperimentConfig).training.phases


def test_one_ratio_of_one_hook_is_changed_by_its_name():
    found = phases("training.phases.joint.workflow_hooks.update.ratio=0.25")
    assert found["joint"].workflow_hooks["update"].ratio == 0.25
    assert found["joint"].workflow_hooks["evaluate"].every_steps == 2_000
    assert list(found) == ["seed", "joint"]


@pytest.mark.parametrize("name", ["jont", "2"])
def test_an_option_of_a_phase_that_there_is_not_names_the_phases(name):
    with pytest.raises(InputError) as error:
        phases(f"training.phases.{name}.workflow_hooks.update.ratio=0.25")
    assert f"there is no phase '{name}'." in str(error.value)
    assert "Phases: seed, joint." in str(error.value)
    assert f"training.phases.{name}={{...}}" in str(error.value)
    assert ("Did you mean 'joint'?" in str(error.value)) == (name == "jont")


def test_a_phase_is_added_as_a_whole_and_may_be_changed_then():
    extra = "training.phases.extra={buffer: replay, workflow_hooks: {collect: {steps: 8}}}"
    ends = "training.phases.joint.duration_steps=64"
    found = phases(ends, extra, "training.phases.extra.duration_steps=16")
    assert list(found) == ["seed", "joint", "extra"]
    assert found["extra"].duration_steps == 16
    added = phases(
        ends, "+training.phases.extra.buffer=replay", "+training.phases.extra.workflow_hooks.collect.steps=8"
    )
    assert list(added["extra"].workflow_hooks) == ["collect"]


def test_phases_of_a_list_in_a_file_are_named_when_one_is_misspelt(tmp_path):
    file = tmp_path / "mine.yaml"
    only = "{name: only, buffer: replay, workflow_hooks: [collect: {steps: 2}, update]}"
    file.write_text(f"{HEAD}training:\n  phases: [{only}]\n")
    with pytest.raises(InputError, match=r"there is no phase 'onyl'. Did you mean 'only'\? Phases: only\."):
        phases("training.phases.onyl.duration_steps=9", user=file)
    with pytest.raises(InputError, match=r"write training\.phases\.0\.duration_steps\."):
        phases("training.phases.only.duration_steps=9", user=file)
    mine = "{buffer: replay, workflow_hooks: {collect: {steps: 2}}}"
    file.write_text(f"{HEAD}training:\n  phases:\n    joint: {{duration_steps: 64}}\n    mine: {mine}\n")
    assert phases("training.phases.mine.duration_steps=9", user=file)["mine"].duration_steps == 9


def test_null_removes_a_phase_and_a_hook():
    found = phases("training.phases.seed=null", "training.phases.joint.workflow_hooks.evaluate=null")
    assert list(found) == ["joint"]
    assert list(found["joint"].workflow_hooks) == ["collect", "update"]


def test_a_phase_is_filled_in_where_its_place_is():
    pretrain = "{type: offline, buffer: replay, duration_updates: 3, workflow_hooks: {update_world_model: {}}}"
    found = phases(f"training.phases.pretrain={pretrain}", experiment="dreamer_cartpole")
    assert list(found) == ["seed", "pretrain", "joint"]


def test_a_list_in_a_file_takes_the_place_of_all_phases(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        f"{HEAD}training:\n  phases:\n    - name: only\n      buffer: replay\n      workflow_hooks:\n"
        "        - collect: {steps: 2}\n        - update_controller: {ratio: 0.5}\n        - evaluate\n"
    )
    found = phases(user=file)
    assert list(found) == ["only"]
    assert list(found["only"].workflow_hooks) == ["collect", "update", "evaluate"]
    assert found["only"].workflow_hooks["update"].ratio == 0.5
    assert phases("training.phases.0.duration_steps=9", user=file)["only"].duration_steps == 9


def test_a_list_of_hooks_in_a_file_takes_the_place_of_those_of_its_phase(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(f"{HEAD}training:\n  phases:\n    joint: {{workflow_hooks: [collect: {{steps: 2}}, update]}}\n")
    found = phases(user=file)
    assert list(found) == ["seed", "joint"]
    assert list(found["joint"].workflow_hooks) == ["collect", "update"]


def test_lists_and_numbers_on_the_command_line_work_as_before():
    found = phases("training.phases=[{name: a, buffer: replay, workflow_hooks: [{collect: {steps: 8}}, update]}]")
    assert list(found) == ["a"]
    found = phases(
        "training.phases.0.duration_steps=7",
        "training.phases.1.workflow_hooks=[{collect: {steps: 3}}, {update_controller: {ratio: 2}}]",
    )
    assert found["seed"].duration_steps == 7
    assert found["joint"].workflow_hooks["update"].ratio == 2
    assert list(found["joint"].workflow_hooks) == ["collect", "update"]


def test_a_hook_that_comes_twice_keeps_both_turns():
    hooks = ["update", {"evaluate": {"every_steps": 4}}, "update"]
    found = phases_by_name([{"name": "a", "workflow_hooks": hooks}])["a"]["workflow_hooks"]
    assert list(found) == ["update", "evaluate", "update_2"]
    assert found["update_2"] == {"hook": "update"}


def test_a_saved_configuration_takes_lists_and_names():
    saved = validate(settle(compose("sac_pendulum")).values, ExperimentConfig).model_dump(mode="json", by_alias=True)
    changed = with_overrides(saved, ["training.phases.joint.workflow_hooks.update.ratio=3"])
    assert validate(changed, ExperimentConfig).training.phases["joint"].workflow_hooks["update"].ratio == 3
    listed = with_overrides(saved, ["training.phases.joint.workflow_hooks=[{collect: {steps: 1}}]"])
    assert list(validate(listed, ExperimentConfig).training.phases["joint"].workflow_hooks) == ["collect"]


@pytest.mark.parametrize("reference", ["${workflow.discount}", "${oc.select:workflow.discount,0.5}"])
def test_what_refers_to_an_old_word_gets_the_new_options_value(tmp_path, reference):
    file = tmp_path / "mine.yaml"
    file.write_text(f'{HEAD}workflow: {{discount: 0.9}}\nbuffers: {{replay: {{n_step: 2, gamma: "{reference}"}}}}\n')
    values = compose(user=file).values
    assert values["workflow"]["gamma"] == values["buffers"]["replay"]["gamma"] == 0.9
    assert compose("sac_pendulum", overrides=["workflow.discount=0.8"]).values["buffers"]["replay"]["gamma"] == 0.8
