"""Runs, policies and configurations from before modules moved and words changed: they load, evaluate and resume."""

import gzip
import importlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

import paddock
from paddock.config.migrate import migrate
from paddock.config.moved import MODULES, NAMES, OWN, current_name, short_name
from paddock.config.schema import load_target
from paddock.config.validate import validate
from paddock.core.lazy import load
from paddock.experiments.run import RunFolder
from paddock.experiments.store.summaries import read_summary
from paddock.orchestration.launch import resumed_run
from paddock.orchestration.schema import ExperimentConfig
from paddock.orchestration.subject import find_subject

PACKAGE = Path(paddock.__file__).parent
BEFORE = Path(__file__).parent / "fixtures" / "schema_3"
RUNS = {
    "racing": ("ppo", "racing/oval", 512),
    "dqn": ("dqn", "CartPole-v1", 160),
    "dreamer": ("dreamer", "CartPole-v1", 128),
}


@pytest.mark.parametrize("old", MODULES)
def test_every_moved_module_is_where_the_table_says_and_no_longer_where_it_was(old):
    importlib.import_module(OWN + MODULES[old])
    assert not (PACKAGE / f"{old.replace('.', '/')}.py").exists()


@pytest.mark.parametrize("old", NAMES)
def test_every_renamed_target_is_found_under_its_new_name(old):
    assert load(NAMES[old]) is load_target(old)


def test_names_that_never_moved_and_names_of_others_stay():
    assert current_name("paddock.workflows.ppo.PPO") == "paddock.workflows.ppo.PPO"
    assert current_name("lab.rollout.video.Film") == "lab.rollout.video.Film"
    assert short_name("paddock.environments.racing.make") == short_name("paddock.racing.env.vector.make") == "racing"
    assert short_name("paddock.environments.dmc.make") == "dmc"


@pytest.fixture(params=RUNS)
def old_run(request, tmp_path) -> RunFolder:
    return RunFolder(shutil.copytree(BEFORE / request.param, tmp_path / request.param, symlinks=True))


def test_a_run_from_before_is_listed_under_the_same_names(old_run):
    record = read_summary(old_run)
    assert (record.algorithm, record.environment) == RUNS[old_run.name][:2]
    assert not record.damage


def test_a_policy_from_before_loads_and_is_evaluated(old_run):
    subject = find_subject(str(old_run.path / "policy" / "latest"), old_run.path.parent)
    _, found = subject.evaluate(episodes=1, seed=3, deterministic=True)
    again = find_subject(str(old_run.path), old_run.path.parent)
    assert again.evaluate(episodes=1, seed=3, deterministic=True)[1]["protocol"] == found["protocol"]
    agent = paddock.load(old_run.path)
    env = agent.make_env(1)
    observation, _ = env.reset(seed=1)
    assert np.isfinite(np.asarray(agent.act(observation))).all()
    env.close()


def test_a_run_from_before_resumes_with_the_numbers_that_it_had(old_run):
    steps = RUNS[old_run.name][2]
    with resumed_run(old_run, [f"training.total_steps={steps}"], Console(quiet=True)) as orchestrator:
        assert orchestrator.counters.agent_steps < steps
        saved = orchestrator.checkpoints.load().state["components"]
        for name, component in orchestrator.context.components.items():
            for key, value in component.state_dict().items():
                if isinstance(value, torch.Tensor):
                    torch.testing.assert_close(value, saved[name][key], rtol=0, atol=0)
        outcome = orchestrator.run()
    assert outcome.status == "finished"
    assert old_run.read_config()["schema_version"] == migrate(old_run.read_config())["schema_version"]


@pytest.mark.parametrize("name", json.loads(gzip.decompress((BEFORE / "experiments.json.gz").read_bytes())))
def test_a_configuration_from_before_is_valid_after_its_migration(name):
    values = json.loads(gzip.decompress((BEFORE / "experiments.json.gz").read_bytes()))[name]
    assert values["schema_version"] == 3
    try:
        config = validate(migrate(values), ExperimentConfig)
    except paddock.PaddockError as error:
        if "pip install" not in str(error):
            raise
        pytest.skip(str(error))
    targets = json.dumps(config.model_dump(mode="json", by_alias=True))
    assert not [old for old in MODULES if f'"{OWN}{old}.' in targets and not MODULES[old].startswith(old)]
