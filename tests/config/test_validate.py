import pytest
import yaml

from paddock.config.compose import SHIPPED, choices, compose
from paddock.config.schema import load_target, schema_of
from paddock.config.validate import validate
from paddock.core.errors import InputError
from paddock.orchestration.launch import Request, resolve
from paddock.orchestration.schema import ExperimentConfig


def problems(*overrides):
    composed = compose("ppo_cartpole", overrides=overrides)
    with pytest.raises(InputError) as caught:
        validate(composed.values, ExperimentConfig, composed.origins)
    return str(caught.value)


@pytest.mark.parametrize("name", sorted(choices("experiment")))
def test_every_shipped_experiment_is_valid(name):
    resolve(Request(name))


def test_all_errors_are_said_at_once_with_suggestions_and_origins():
    text = problems("workflow.clip_ratoi=1", "optimizers.main.learning_rate=-1", "seed=abc", "chekpoint.keep_last=1")
    assert "4 problems" in text
    assert "workflow.clip_ratoi: there is no such option. Did you mean 'clip_ratio'?" in text
    assert "optimizers.main.learning_rate = -1: Input should be greater than 0  [command line]" in text
    assert "seed = 'abc'" in text
    assert "Did you mean 'checkpoint'?" in text


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("components.policy.network.hiden=[3]", "Did you mean 'hidden'?"),
        ("components.policy.network.hidden=[]", "at least 1 item"),
        ("components.policy.network.activation=tan", "'tanh'"),
        ("logging.wandb=maybe", "'off', 'online' or 'offline'"),
        ("training.phases.train.untl=3", "Did you mean 'until'?"),
        (
            "workflow.epsilon.duration=4",
            "workflow.epsilon: there is no such option. It belongs to another workflow: dqn.",
        ),
        ("reward=racing", "this environment has a reward of its own"),
        ("+latent_value.units=3", "latent_value: there is no such option. Allowed here"),  # A choice of it is empty.
        ("environment.track=oval", "It belongs to another environment: racing"),
        ("training.phases=[{name: a, buffer: rolout, workflow_hooks: [{collect: {steps: 8}}]}]", "mean 'rollout'?"),
        ("training.phases=[{name: a, buffer: rollout, workflow_hooks: [{collect: {steps: 8}}, updat]}]", "'updat'"),
        ("training.phases=[{name: a, buffer: rollout, workflow_hooks: [collect]}]", "collect needs it"),
        ("training.phases=[{name: a, workflow_hooks: [update]}]", "has to collect"),
        ("training.total_steps=null", "never ends"),
    ],
)
def test_what_is_wrong_and_what_is_allowed(override, message):
    assert message in problems(override)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("os.system", "outside the packages"),
        ("subprocess.run", "outside the packages"),
        ("paddock.core.lazy.load", "annotated with a TargetSchema"),
        ("paddock.components.networks.mlp.MLPP", "Did you mean 'MLP'"),
        ("paddock.nowhere.Thing", "no module"),
    ],
)
def test_a_target_names_only_what_can_be_configured(target, message):
    assert message in problems(f"components.policy.network._target_={target}")


def test_a_package_that_the_user_registers_may_be_named(monkeypatch):
    with pytest.raises(InputError, match="PADDOCK_PLUGINS"):
        load_target("collections.OrderedDict")
    monkeypatch.setenv("PADDOCK_PLUGINS", "collections")
    assert load_target("collections.OrderedDict").__name__ == "OrderedDict"


def targets_in(node):
    if isinstance(node, dict):
        if "_target_" in node:
            yield node
        for value in node.values():
            yield from targets_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from targets_in(value)


def test_every_shared_option_stands_in_the_yaml_with_a_comment():
    text = (SHIPPED / "config.yaml").read_text()
    shown, schema = yaml.safe_load(text), ExperimentConfig.model_fields
    chosen = {"environment", "experience", "reward", "workflow", "components", "buffers", "optimizers", "controllers"}
    assert set(shown) - {"defaults"} == set(schema) - chosen
    for section in ("evaluation", "checkpoint", "logging"):
        assert set(shown[section]) == set(schema[section].annotation.model_fields)
    lines = [line for line in text.splitlines() if ":" in line and not line.endswith(":")]
    assert [line for line in lines if "#" not in line] == []


PARTS = sorted([*(SHIPPED / "workflow").glob("*.yaml"), *(SHIPPED / "environment").glob("*.yaml")])


def shown_in(file):
    """What a YAML file shows, with the files of its folder that it begins from."""
    own = yaml.safe_load(file.read_text())
    shown = {}
    for name in own.pop("defaults", []):
        if isinstance(name, str) and name != "_self_":
            shown |= shown_in(file.with_name(f"{name}.yaml"))
    return shown | own


@pytest.mark.parametrize("file", PARTS, ids=lambda file: file.stem)
def test_every_option_stands_in_the_yaml(file):
    """What a schema allows, the shipped YAML shows."""
    for node in targets_in(shown_in(file)):
        options = {field.alias or name for name, field in schema_of(node["_target_"]).model_fields.items()}
        assert options == set(node), node["_target_"]


def test_schema_of_a_class_without_an_init_of_its_own_is_that_of_its_attribute_config():
    from paddock.workflows.ppo import PPO, PPOConfig
    from paddock.workflows.sac import SACConfig

    assert "__init__" not in vars(PPO)
    assert schema_of("paddock.workflows.ppo.PPO") is PPOConfig
    assert schema_of("paddock.workflows.sac.SAC") is SACConfig
    assert schema_of("paddock.rollout.model_actors.StochasticActor").__name__ == "PolicyOverModelConfig"  # inherited
