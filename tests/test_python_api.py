"""`import paddock` as in a notebook: train, load, a loop of one's own, evaluate, resume, in one process."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import paddock
import paddock.environments
from paddock.core.seeding import seed_everything

POLE = {
    "training.total_steps": 512,
    "workflow.rollout_steps": 128,
    "environment.num_envs": 4,
    "evaluation.episodes": 2,
    "logging": {"every_steps": 128, "tensorboard": False},
}
CARS = ["training.total_steps=1024", "environment.num_envs=16", "workflow.rollout_steps=512",
        "workflow.minibatch_size=256", "evaluation.episodes=2", "logging.tensorboard=false"]  # fmt: skip


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    """An empty folder that one works in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def drive(agent, env, steps=60):
    """A loop of one's own, as the documentation shows it; gives the mean reward."""
    observation, _ = env.reset(seed=1)
    rewards = []
    for _ in range(steps):
        observation, reward, _terminated, _truncated, _ = env.step(agent.act(observation))
        rewards.append(reward)
    env.close()
    return float(np.mean(rewards))


def test_import_paddock_is_light_and_lists_its_names():
    code = (
        "import sys, paddock; print(sorted(n for n in dir(paddock) if not n.startswith('_')));"
        "print([m for m in ('torch', 'numpy', 'gymnasium', 'hydra', 'numba') if m in sys.modules])"
    )
    names, heavy = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.splitlines()
    assert heavy == "[]"
    assert {"load", "train", "resume", "load_policy", "Agent", "Run", "InputError"} <= set(eval(names))
    assert all(hasattr(paddock, name) for name in paddock.__all__)
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        paddock.lod  # noqa: B018


def test_python_api_from_training_to_resuming_on_cartpole(notebook, capsys):
    run = paddock.train("ppo_cartpole", seed=7, name="pole", overrides=POLE)
    assert "Training finished" in capsys.readouterr().out
    assert run.status == "finished"
    assert run.folder.parent == notebook.joinpath("runs").relative_to(notebook)
    assert run.config["seed"] == 7
    assert [row["agent_steps"] for row in run.metrics][:4] == [128, 256, 384, 512]

    agent = paddock.load("pole")
    assert agent.name == run.name
    assert agent.spec.observation["observation"].shape == (4,)
    assert drive(agent, agent.make_env()) == 1.0
    assert drive(agent, agent.make_env(5)) == 1.0
    env = agent.make_env()
    first, _ = env.reset(seed=1)
    kept = first.copy()
    env.step(agent.act(first))
    np.testing.assert_array_equal(first, kept)  # What an environment gave stays what it was.

    found = agent.evaluate(episodes=3, seed=5)
    command = [sys.executable, "-m", "paddock", "evaluate", "pole", "--episodes", "3", "--seed", "5", "--json"]
    assert json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout) == found
    assert agent.evaluate(episodes=2, max_episode_steps=3)["eval/length"] == 3

    again = run.resume({"training.total_steps": 768}, quiet=True)
    assert again.folder == run.folder
    assert again.metrics[-1]["agent_steps"] == 768
    assert capsys.readouterr().out == ""


def test_python_api_on_racing(notebook):
    run = paddock.train("racing", name="car", overrides=CARS, environment={"track": "oval"}, quiet=True)
    agent = run.load("latest")
    env = agent.make_env(num_envs=3)
    observation, _ = env.reset(seed=1)
    assert observation.shape == (3, *agent.spec.observation["observation"].shape)
    assert agent.act(observation).shape == env.action_space.shape
    assert agent.act(observation[0]).shape == env.single_action_space.shape
    np.testing.assert_allclose(agent.act(observation)[1], agent.act(observation[1]), rtol=1e-4)
    env.close()
    assert np.isfinite(drive(agent, agent.make_env(max_episode_steps=5), 10))
    assert agent.evaluate(episodes=2)["protocol"]["episodes"] == 2

    others = gymnasium.make_vec("paddock/Racing-v0", num_envs=1, track="meadow")
    wrong, _ = others.reset(seed=1)
    with pytest.raises(paddock.InputError, match=r"reads: observation .*given: .*make_env\(\)"):
        agent.act(wrong)
    with pytest.raises(paddock.InputError, match="Did you mean 'track'"):
        agent.make_env(trak="oval")


def test_python_api_keeps_the_memory_of_a_recurrent_policy(notebook):
    small = {**POLE, "environment.num_envs": 8}
    agent = paddock.train("ppo_recall", overrides=small, quiet=True).load()
    assert agent.has_memory
    env = agent.make_env(num_envs=4)
    observation, _ = env.reset(seed=3)
    states, actions = None, []
    ended = np.zeros(4, bool)
    for _ in range(40):
        expected, states = agent.predict(observation, agent.actor.forget(states, ended) if states else None)
        action = agent.act(observation)
        np.testing.assert_array_equal(action, expected)
        observation, _, terminated, truncated, _ = env.step(action)
        ended = terminated | truncated
        actions.append(ended)
    assert np.any(actions), "no episode ended, so nothing was tried"
    first = agent.predict(observation)[1]
    agent.act(observation)
    env.reset(seed=3)  # A new beginning is a new memory.
    agent.act(observation)
    for name, values in first.items():
        np.testing.assert_array_equal(values.numpy(), agent._memory[name].numpy())
    with pytest.raises(paddock.InputError, match="remembers 4 copies"):
        agent.act(observation[:2])
    agent.reset()
    agent.act(observation[:2])
    env.close()


@pytest.mark.parametrize(
    "wrong",
    [np.zeros(3), np.zeros((2, 5)), np.zeros((1, 1, 4)), {"images": np.zeros(4)}, "pole", None, [[1, 2], [3]], {}],
    ids=["short", "wide", "deep", "part", "text", "nothing", "ragged", "empty"],
)
def test_an_observation_that_does_not_fit_is_refused_with_what_is_expected(pole, wrong):
    with pytest.raises(paddock.InputError, match=r"It reads: observation \(4,\) float32; given: "):
        pole.act(wrong)


def test_an_observation_of_other_kinds_of_numbers_is_read(pole):
    exact = pole.act(np.array([0.1, 0.0, 0.05, 0.0], np.float32))
    assert pole.act([0.1, 0.0, 0.05, 0.0]) == exact
    assert pole.act({"observation": np.array([0.1, 0.0, 0.05, 0.0])}) == exact
    assert pole.act(np.zeros((3, 4), int)).shape == (3,)
    sampled = {int(pole.act(np.zeros(4), deterministic=False)) for _ in range(50)}
    assert sampled == {0, 1}


@pytest.fixture(scope="module")
def pole(tmp_path_factory):
    return paddock.train("ppo_cartpole", overrides=POLE, runs_dir=tmp_path_factory.mktemp("runs"), quiet=True).load()


def test_runs_and_policies_are_loaded_by_path_text_and_name(pole, monkeypatch):
    folder = pole.folder
    monkeypatch.chdir(folder.parent.parent)
    places = [folder, str(folder), folder / "policy" / "best", str(folder / "policy" / "latest")]
    agents = [paddock.load(place) for place in places] + [paddock.load(folder.name, runs_dir=folder.parent)]
    observation = np.array([0.1, 0.0, 0.05, 0.0], np.float32)
    for agent in agents:
        assert agent.make_env().single_observation_space.shape == (4,)
        assert agent.act(observation) in (0, 1)
    assert paddock.load_policy(str(places[2])).predict(observation)[0] == agents[2].act(observation)
    assert paddock.load(folder, controller="random").act(observation) in (0, 1)


def test_load_runs_no_code_of_a_policy_from_elsewhere_unless_trusted(pole, notebook):
    folder = notebook / "shared"
    shutil.copytree(pole.folder / "policy" / "best", folder)
    description = json.loads((folder / "policy.json").read_bytes())
    description["environment"] |= {"_target_": "strangers_world.make"}
    (folder / "policy.json").write_text(json.dumps(description))
    Path("strangers_world.py").write_text(
        "from paddock.environments.gym import GymConfig\nfrom paddock.environments import gym\n"
        "open('ran', 'w').close()\n"
        "def make(config: GymConfig, num_envs, render_mode=None):\n    return gym.make(config, num_envs, render_mode)\n"
    )
    with pytest.raises(paddock.InputError, match="strangers_world"):
        paddock.load(folder)
    assert not Path("ran").exists()
    sys.path.append(str(notebook))
    try:
        assert paddock.load(folder, trust=True).make_env().num_envs == 1
    finally:
        sys.path.remove(str(notebook))
    assert Path("ran").exists()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paddock.train("ppo_cartpol"), "Did you mean 'ppo_cartpole'"),
        (lambda: paddock.train(), "say what to train"),
        (lambda: paddock.train("ppo_cartpole", workflow={"clip_rato": 1}), "Did you mean 'clip_ratio'"),
        (lambda: paddock.train("ppo_cartpole", preset="smok"), "Did you mean 'smoke'"),
        (lambda: paddock.train("ppo_cartpole", overrides="seed=1"), "overrides is a list"),
        (lambda: paddock.train("ppo_cartpole", plugins=["nowhere_at_all"]), "no package 'nowhere_at_all'"),
        (lambda: paddock.train(config="nowhere.yaml"), "neither a file nor a directory"),
        (lambda: paddock.load("nothing"), "there is no run 'nothing'"),
        (lambda: paddock.load("nothing", which="worst"), "Allowed: best, latest"),
        (lambda: paddock.resume("nothing"), "there is no run 'nothing'"),
    ],
)
def test_python_api_says_what_is_wrong_as_the_command_line_does(notebook, call, message):
    with pytest.raises(paddock.InputError, match=message):
        call()
    assert not (notebook / "runs").exists()


def test_options_are_given_as_a_list_a_mapping_or_by_keyword(notebook):
    from paddock.orchestration.training import as_overrides

    assert as_overrides(["seed=1"]) == ["seed=1"]
    given = {"workflow": "sac", "name": "it's", "environment": {"track": ["a", "b"], "car": None}, "debug": True}
    assert as_overrides(given) == [
        "workflow=sac", "name='it\\'s'", "environment.track=['a', 'b']", "environment.car=null", "debug=true"
    ]  # fmt: skip


def draw():
    import random

    import torch

    return torch.rand(2).tolist(), random.random(), np.random.rand()  # noqa: NPY002 - the global one is meant


def test_training_leaves_random_numbers_and_threads_as_they_were(pole):
    import torch

    seed_everything(3)
    expected = draw()
    seed_everything(3)
    threads = torch.get_num_threads()
    paddock.resume(pole.folder, {"training.total_steps": 640}, quiet=True)
    assert draw() == expected
    assert torch.get_num_threads() == threads


def test_training_in_a_thread_and_one_at_a_time(notebook):
    results = {}

    def work():
        results["run"] = paddock.train(
            "ppo_cartpole", name="threaded", overrides={**POLE, "training.total_steps": 4096}, quiet=True
        )

    thread = threading.Thread(target=work)
    thread.start()
    refused = None
    while thread.is_alive() and refused is None:
        if list(notebook.glob("runs/threaded-*/manifest.json")):
            try:
                paddock.train("ppo_cartpole", name="second", overrides=POLE, quiet=True)
            except paddock.InputError as error:
                refused = str(error)
        time.sleep(0.02)
    thread.join()
    assert results["run"].status == "finished"
    assert "another training is under way" in refused


INTERRUPTED = """
import os, signal, threading, time, pathlib
import paddock

before = signal.getsignal(signal.SIGINT)

def interrupt():
    while not any(file.stat().st_size for file in pathlib.Path("runs").glob("*/metrics.jsonl")):
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
run = paddock.train("ppo_cartpole", name="cut", overrides=OPTIONS, quiet=True)
print(run.status, run.metrics[-1]["agent_steps"] < 10_000_000)
print(signal.getsignal(signal.SIGINT) is before)
steps = run.metrics[-1]["agent_steps"] + 1024
print(run.resume({"training.total_steps": steps}, quiet=True).status)
"""


def test_interrupting_a_notebook_saves_and_gives_the_run(notebook):
    options = {**POLE, "training.total_steps": 10_000_000}
    script = INTERRUPTED.replace("OPTIONS", repr(options))
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\n")[:3] == ["stopped True", "True", "finished"], result.stdout


def test_a_second_interrupt_does_not_end_the_process():
    from paddock.control.requests import Control

    control = Control()
    control.is_guest = True
    with control.listening():
        os.kill(os.getpid(), signal.SIGINT)
        assert control.stop_requested_by == "SIGINT"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
