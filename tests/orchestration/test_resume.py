"""Runs that are killed and resumed end exactly where an uninterrupted one does. Real processes, real signals."""

import json
import os
import random
import signal
import time

import pytest
import torch

from paddock.experiments.run import RunFolder
from paddock.orchestration.checkpoint import CheckpointConfig, CheckpointStore
from paddock.orchestration.seal import read_seal, write_seal
from warm_program import warm_program

SMALL = [
    "workflow.rollout_steps=256",
    "workflow.epochs=4",
    "workflow.minibatch_size=64",
    "checkpoint.every_steps=500",
    "logging.every_steps=500",
    "logging.tensorboard=false",
    "evaluation.episodes=3",
    "training.total_steps=20_000",
]
NORMALIZED = [
    "environment.id=Pendulum-v1",
    "environment.num_envs=4",
    "components.observation_normalizer.enabled=true",
    "components.reward_normalizer.enabled=true",
]
SHARDS = ["workflow.shard_size=24", "workflow.workers=2"]
CASES = {
    "normalised": (NORMALIZED, [signal.SIGKILL, signal.SIGTERM, signal.SIGKILL]),
    "pipeline": ([*NORMALIZED, "pipeline=on"], [signal.SIGKILL, signal.SIGTERM]),
    "autograd": ([*NORMALIZED, "workflow.fused=off"], [signal.SIGKILL, signal.SIGTERM]),
    "every switch": (
        [*NORMALIZED, "workflow.fused=on", "pipeline=on", "evaluation.beside=true", *SHARDS],
        [signal.SIGKILL, signal.SIGTERM],
    ),
    "next-step autoreset": (["environment.vectorization=custom"], [signal.SIGINT, signal.SIGKILL]),
}


def start(folder, *arguments):
    environment = {**os.environ, "COLUMNS": "200"}
    return warm_program().start(["train", *arguments], folder, folder / "output.txt", environment)


def finish(folder, *arguments):
    process = start(folder, *arguments)
    assert process.wait(timeout=200) == 0, (folder / "output.txt").read_text()


def the_run(folder):
    (path,) = (folder / "runs").glob("*/")
    return RunFolder(path)


def wait_for_training(folder, process, lines=1, printed=""):
    """Until so many lines have been logged, the last by this process: it logs beyond what was `printed` before it.
    False if the process ended before."""
    while process.poll() is None:
        runs, output = list((folder / "runs").glob("*/metrics.jsonl")), folder / "output.txt"
        is_logging = output.exists() and " steps/s " in output.read_text().removeprefix(printed)
        if is_logging and runs and len(runs[0].read_text().splitlines()) >= lines:
            return True
        time.sleep(0.01)
    return False


def final_state(folder):
    """Everything that the last checkpoint holds, but for the clock."""
    state = CheckpointStore(the_run(folder).checkpoints, CheckpointConfig()).load().state
    for clock in ("seconds", "metrics", "metrics_position"):
        state.pop(clock)
    state["collector"].get("result", {"metrics": {}})["metrics"].pop("collect/steps_per_second", None)
    return state


def assert_identical(left, right):
    """Bit by bit, with the name of what differs."""
    assert type(left) is type(right)
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            try:
                assert_identical(left[key], right[key])
            except AssertionError as error:
                raise AssertionError(f"{key}: {error}") from None
    elif isinstance(left, list):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            assert_identical(one, other)
    elif isinstance(left, torch.Tensor):
        assert left.dtype == right.dtype
        assert_identical(left.cpu().numpy(), right.cpu().numpy())
    elif hasattr(left, "tobytes"):
        assert left.shape == right.shape
        assert left.tobytes() == right.tobytes(), f"{left} is not {right}"
    else:
        assert left == right


def assert_logged_once(run):
    steps = [row["agent_steps"] for row in run.read_metrics() if "collect/steps_per_second" in row]
    assert steps == sorted(set(steps))


def metrics_of(folder):
    """Logged points without clocks."""
    rows = the_run(folder).read_metrics()
    clocks = ("seconds", "collect/steps_per_second")
    return [{k: v for k, v in row.items() if k not in clocks and not k.startswith("system/")} for row in rows]


@pytest.mark.parametrize("case", CASES)
def test_interrupted_at_random_instants_and_resumed_ends_bit_identical(tmp_path, case):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    changes, signals = CASES[case]
    finish(whole, "ppo_cartpole", *SMALL, *changes)

    process, moments, printed = start(broken, "ppo_cartpole", *SMALL, *changes), random.Random(case), ""
    for number in signals:
        assert wait_for_training(broken, process, printed=printed), "the run was too short to be interrupted"
        time.sleep(moments.random() * 0.4)
        process.send_signal(number)
        if number == signal.SIGKILL:
            assert process.wait() == -signal.SIGKILL
        else:
            assert process.wait(timeout=60) == 0
            assert the_run(broken).read_manifest()["status"] == "stopped"
            assert the_run(broken).read_events()[-1]["by"] == number.name
        printed = (broken / "output.txt").read_text()
        process = start(broken, "--resume", the_run(broken).name)
    assert process.wait(timeout=200) == 0, (broken / "output.txt").read_text()

    assert the_run(broken).read_manifest()["status"] == "finished"
    assert_identical(final_state(whole), final_state(broken))
    assert metrics_of(whole) == metrics_of(broken)


def test_a_second_signal_leaves_at_once(tmp_path):
    process = start(tmp_path, "ppo_cartpole", *SMALL, "workflow.rollout_steps=400_000", "training.total_steps=800_000")
    while process.poll() is None and "running" not in "".join(
        file.read_text() for file in tmp_path.glob("runs/*/manifest.json")
    ):
        time.sleep(0.02)
    while process.poll() is None and not list(tmp_path.glob("runs/*/events.jsonl")):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert process.poll() is None, "the first one waits for the rollout to end"
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == 130


def test_an_environment_without_state_starts_fresh_episodes_and_says_so(tmp_path):
    arguments = ["ppo_cartpole", *SMALL, "environment.id=LunarLander-v3", "environment.num_envs=2"]
    process = start(tmp_path, *arguments)
    assert wait_for_training(tmp_path, process, lines=3)
    process.kill()
    process.wait()
    run = the_run(tmp_path)
    finish(tmp_path, "--resume", run.name, "training.total_steps=6_000")
    assert "not bit-identical" in (tmp_path / "output.txt").read_text()
    assert run.read_manifest()["agent_steps"] >= 6_000
    assert_logged_once(run)


def test_killed_before_the_first_checkpoint_it_starts_again(tmp_path):
    arguments = ["ppo_cartpole", *SMALL, "checkpoint.every_steps=null", "training.total_steps=4_000"]
    process = start(tmp_path, *arguments)
    assert wait_for_training(tmp_path, process)
    process.kill()
    process.wait()
    finish(tmp_path, "--resume", the_run(tmp_path).name)
    assert "starts again from its seed" in (tmp_path / "output.txt").read_text()
    assert_logged_once(the_run(tmp_path))


def test_two_cannot_train_one_run(tmp_path, paddock):
    process = start(tmp_path, "ppo_cartpole", *SMALL, "training.total_steps=1_000_000")
    assert wait_for_training(tmp_path, process)
    second = paddock("train", "--resume", the_run(tmp_path).name)
    assert process.poll() is None, "the first was still training"
    process.kill()
    process.wait()
    assert second.returncode == 2
    assert f"process {process.pid}" in second.stderr


def test_what_a_resume_may_change_is_a_rule_that_is_printed(tmp_path, paddock):
    small = [*SMALL, "training.total_steps=512"]
    assert paddock("train", "ppo_cartpole", *small).returncode == 0
    run = the_run(tmp_path)
    before = run.config_file.read_text()
    refused = paddock("train", "--resume", run.name, "workflow.clip_ratio=0.3")
    assert refused.returncode == 2
    assert "'workflow.clip_ratio=0.3' cannot be changed in a resumed run" in refused.stderr
    assert "training.total_steps" in refused.stderr
    assert run.config_file.read_text() == before

    longer = paddock("train", "--resume", run.name, "training.total_steps=1024", "--json")
    assert longer.returncode == 0
    assert json.loads(longer.stdout)["agent_steps"] == 1024
    assert run.read_config()["training"]["total_steps"] == 1024
    events = [event for event in run.read_events() if event["event"] == "resumed"]
    assert events[0]["overrides"] == ["training.total_steps=1024"]


def test_a_checkpoint_of_another_algorithm_is_refused(tmp_path, paddock):
    assert paddock("train", "ppo_cartpole", *SMALL, "training.total_steps=512").returncode == 0
    run = the_run(tmp_path)
    for path in run.checkpoints.glob("step-*"):
        write_seal(path, {**read_seal(path), "workflow": "paddock.workflows.sac.SAC"})
    result = paddock("train", "--resume", run.name)
    assert result.returncode == 2
    assert "was written by paddock.workflows.sac.SAC" in result.stderr
    assert "Traceback" not in result.stderr
