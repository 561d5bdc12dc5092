import pytest

from paddock.config.compose import SHIPPED, choices, compose, describe
from paddock.core.errors import InputError


def test_an_experiment_changes_the_defaults_and_the_command_line_changes_both():
    plain, changed = compose("ppo_cartpole"), compose("ppo_cartpole", overrides=["workflow.epochs=3", "seed=9"])
    assert plain.values["workflow"]["epochs"] == 10
    assert changed.values["workflow"]["epochs"] == 3
    assert changed.values["seed"] == 9


def test_every_value_knows_where_it_was_written():
    composed = compose("ppo_cartpole", overrides=["workflow.epochs=3"])
    assert composed.origins["workflow.epochs"] == "command line"
    file, line = composed.origins["workflow.gamma"].split(":")
    text = (SHIPPED / file).read_text().splitlines()[int(line) - 1]
    assert text.strip() == f"gamma: {composed.values['workflow']['gamma']}"
    assert composed.origins["components.policy.head_gain"].startswith("workflow/ppo.yaml:")


def test_sizes_are_written_once():
    composed = compose("ppo_cartpole", overrides=["workflow.rollout_steps=640"])
    assert composed.values["buffers"]["rollout"]["steps"] == 640
    assert composed.values["training"]["phases"]["train"]["workflow_hooks"]["collect"]["steps"] == 640


def test_a_file_of_ones_own_is_an_experiment(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("# @package _global_\ndefaults:\n  - ppo_cartpole\nworkflow:\n  epochs: 4\n")
    composed = compose(user=file)
    assert composed.values["workflow"]["epochs"] == 4
    assert composed.values["workflow"]["gamma"] == 0.98
    assert composed.origins["workflow.epochs"] == f"{file}:5"


def test_a_directory_of_ones_own_adds_to_the_groups(tmp_path):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text("# @package _global_\n# Mine.\nseed: 77\n")
    assert compose("mine", user=tmp_path).values["seed"] == 77
    assert {"mine", "ppo_cartpole"} <= set(choices("experiment", tmp_path))


@pytest.mark.parametrize(
    ("experiment", "overrides", "message"),
    [
        ("ppo_cartpol", [], "Did you mean 'ppo_cartpole'"),
        ("ppo_cartpole", ["workflow=ppoo"], "Did you mean 'ppo'"),
        ("ppo_cartpole", ["seed"], "write key=value"),
        ("ppo_cartpole", ["seed=${nowhere}"], "nowhere"),
        ("ppo_cartpole", ["seed=[1"], "cannot be composed"),
    ],
)
def test_what_cannot_be_composed_is_explained(experiment, overrides, message):
    with pytest.raises(InputError, match=message):
        compose(experiment, overrides=overrides)


def test_broken_yaml_names_its_place(tmp_path):
    file = tmp_path / "broken.yaml"
    file.write_text("seed: [1\n")
    with pytest.raises(InputError, match="line 2"):
        compose(user=file)


def test_a_missing_file_is_said():
    with pytest.raises(InputError, match="neither a file nor a directory"):
        compose(user=SHIPPED / "nowhere.yaml")


@pytest.mark.parametrize("name", sorted(choices("experiment")))
def test_every_shipped_experiment_says_what_it_is(name):
    assert describe(choices("experiment")[name])


def test_several_presets_are_composed_in_their_order():
    chosen = "world_models_from_recording,world_models_remember"
    values = compose("world_models_mini", preset=chosen).values
    assert values == compose("world_models_mini", overrides=[f"preset={chosen}"]).values
    phases = values["training"]["phases"]
    assert [name for name, phase in phases.items() if phase] == ["encode", "converge_mdn"]
    assert phases["encode"]["buffer"] == "dataset"
    with pytest.raises(InputError, match=r"unknown preset 'smok'\. Did you mean 'smoke'"):
        compose("world_models_mini", preset="world_models_remember,smok")
