"""Packages of a person's own: where they are looked for, by the program that is on the path, and what is said of
mistakes. Real processes in a folder of their own."""

import json

import pytest

from documentation import run_command
from paddock.config.plugins import register_plugins
from paddock.core.errors import InputError
from paddock.experiments.run import RunFolder

NETWORK = """
import torch
from torch import nn
from paddock.config.schema import TargetSchema

class WideConfig(TargetSchema):
    width: int = 16

class Wide(nn.Module):
    def __init__(self, config: WideConfig, inputs: int) -> None:
        super().__init__()
        self.config, self.outputs = config, config.width
        self.layer = nn.Linear(inputs, config.width)

    def forward(self, vector):
        return torch.relu(self.layer(vector))
"""
ENVIRONMENT = """
import gymnasium
import numpy as np
from paddock.environments.base import EnvironmentConfig
from paddock.environments.copies import vectorize
from plugin_helpers import START

class WalkConfig(EnvironmentConfig):
    length: int = 20

class Walk(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-100, 100, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length):
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.place = 0, START
        return np.array([self.place], np.float32), {}

    def step(self, action):
        self.steps += 1
        self.place += 1 if action else -1
        return np.array([self.place], np.float32), float(action), False, self.steps >= self.length, {}

def make(config: WalkConfig, num_envs, render_mode=None):
    return vectorize(lambda: Walk(config.length), num_envs, in_processes=True)
"""
SHORT = [
    "training.total_steps=512", "workflow.rollout_steps=128", "evaluation.episodes=2", "logging.every_steps=128",
    "logging.tensorboard=false", "environment.num_envs=2",
]  # fmt: skip
WIDE = "components.policy.network._target_=my_lab.net.Wide"


@pytest.fixture
def my_lab(tmp_path):
    folder = tmp_path / "my_lab"
    folder.mkdir()
    (folder / "net.py").write_text(NETWORK)
    (folder / "world.py").write_text(ENVIRONMENT)
    (tmp_path / "plugin_helpers.py").write_text("START = 0.0\n")
    return tmp_path


def test_plugin_is_found_in_the_current_folder_by_train_resume_evaluate_and_verify(my_lab):
    run_command(f"paddock train ppo_cartpole --plugin my_lab --name own {WIDE}", *SHORT, folder=my_lab)
    evaluated = run_command("paddock evaluate own --plugin my_lab --episodes 2 --json", folder=my_lab)
    assert len(json.loads(evaluated.stdout)["returns"]) == 2
    verified = run_command("paddock verify own --json", folder=my_lab)  # The run keeps a copy.
    assert json.loads(verified.stdout)["is_identical"]
    run_command("paddock train --resume own training.total_steps=768", folder=my_lab)
    assert RunFolder.find(my_lab / "runs", "own").read_manifest()["agent_steps"] == 768


def test_plugin_is_found_by_processes_of_a_sweep_and_of_environments(my_lab):
    (my_lab / "walk.yaml").write_text(
        "# @package _global_\ndefaults: [ppo_cartpole]\nenvironment: {_target_: my_lab.world.make, length: 10}\n"
    )
    options = ", ".join(text.replace("=", ": ", 1) for text in SHORT)
    (my_lab / "two.yaml").write_text(
        f"base_config: walk.yaml\nparameters: {{workflow.clip_ratio: [0.1, 0.3]}}\noverrides: {{{options}}}\n"
    )
    result = run_command("paddock sweep two.yaml --plugin my_lab --json", folder=my_lab)
    assert [row["status"] for row in json.loads(result.stdout)] == ["finished", "finished"]


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        ("my_lub", r"no package 'my_lub': looked in the current folder.*Did you mean 'my_lab'\?"),
        ("my_lab/net.py", "for example --plugin my_lab"),
        ("my-lab", "not the name of a package"),
    ],
)
def test_plugin_that_is_not_there_is_said_with_where_it_was_looked_for(my_lab, monkeypatch, plugin, message):
    monkeypatch.chdir(my_lab)
    with pytest.raises(InputError, match=message):
        register_plugins([plugin])


@pytest.mark.parametrize(
    ("code", "target", "message"),
    [
        ("", "my_lab.nte.Wide", "there is no module 'my_lab.nte'. Did you mean 'net'?"),
        ("", "my_lab.net.Wde", "Did you mean 'Wide'?"),
        ("import nowhere_to_be_found\n", "my_lab.net.Wide", "net.py, line 1: ModuleNotFoundError"),
        ("def (\n", "my_lab.net.Wide", "net.py, line 1: the file is not valid Python"),
        ("x = 1\ny = x / 0\n", "my_lab.net.Wide", "net.py, line 2: ZeroDivisionError"),
    ],
)
def test_plugin_with_a_mistake_is_told_with_its_place(my_lab, paddock, code, target, message):
    (my_lab / "my_lab" / "net.py").write_text(code + NETWORK)
    arguments = ["--plugin", "my_lab", f"components.policy.network._target_={target}", "--print-config"]
    result = paddock("train", "ppo_cartpole", *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
