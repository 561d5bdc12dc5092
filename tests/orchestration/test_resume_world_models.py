"""World Models go on to the bit from the middle of every phase, stopped or killed."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from test_resume import assert_identical, final_state, finish, start, the_run

from interruption import stop_after
from paddock.experiments.run import RunFolder
from paddock.orchestration.launch import resumed_run
from quiet_runs import quiet_run
from world_model_cases import DREAMED, NUMBERS, PICTURES

PHASES = ["data_collection", "converge_vae", "encode", "converge_mdn", "evolve", "evolve_in_dream"]


def final(orchestrator):
    parts = {name: part.state_dict() for name, part in orchestrator.context.components.items()}
    search = orchestrator.workflow.search.get_state()
    return parts, search, orchestrator.counters


def assert_equal(one, other):
    for name, tensors in one[0].items():
        for key, value in tensors.items():
            assert torch.equal(value, other[0][name][key]), f"{name}.{key}"
    for key in ("mean", "p_sigma", "C"):
        assert np.array_equal(one[1][key], other[1][key]), key
    assert one[1]["sigma"] == other[1]["sigma"]
    assert one[2] == other[2]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    orchestrator = quiet_run(tmp_path_factory.mktemp("whole"), None, *PICTURES, DREAMED)
    counts, perform = {}, orchestrator._perform

    def counted(action):
        counts[action.phase.name] = counts.get(action.phase.name, 0) + 1
        perform(action)

    orchestrator._perform = counted
    orchestrator.run()
    return final(orchestrator), counts


@pytest.mark.parametrize("phase", PHASES)
def test_world_models_resumed_in_the_middle_of_a_phase_are_the_uninterrupted_ones(phase, uninterrupted, tmp_path):
    expected, counts = uninterrupted
    before = sum(counts[name] for name in PHASES[: PHASES.index(phase)])
    stopped = quiet_run(tmp_path, None, *PICTURES, DREAMED)
    stop_after(stopped, before + max(counts[phase] // 2, 1))
    run = RunFolder(stopped.run_folder.path)
    with resumed_run(run, [], Console(quiet=True)) as resumed:
        resumed.run()
        assert_equal(final(resumed), expected)


def test_world_models_of_numbers_resume_to_the_bit(tmp_path):
    whole = quiet_run(tmp_path, None, *NUMBERS, name="whole")
    whole.run()
    stopped = quiet_run(tmp_path, None, *NUMBERS, name="stopped")
    stop_after(stopped, 56)
    with resumed_run(RunFolder(stopped.run_folder.path), [], Console(quiet=True)) as resumed:
        resumed.run()
        assert_equal(final(resumed), final(whole))


def test_world_models_killed_inside_collecting_seeing_and_encoding_end_bit_identical(uninterrupted, tmp_path):
    """One run, three processes, each killed within a hook of one of the first three phases."""
    script = Path(__file__).parents[1] / "killed_world_models.py"
    for phase in PHASES[:3]:
        done = subprocess.run([sys.executable, script, tmp_path, phase], capture_output=True, text=True, timeout=200)
        assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr
        (run,) = (RunFolder(path) for path in tmp_path.glob("run*/"))
        begun = [event["phase"] for event in run.read_events() if event["event"] == "phase"]
        assert begun[-1] == phase
        assert list(run.checkpoints.glob("step-*"))
    with resumed_run(run, [], Console(quiet=True)) as resumed:
        resumed.run()
        assert_equal(final(resumed), uninterrupted[0])


KILLED = ["converge_mdn", "evolve", "evolve_in_dream"]
DODGE = [
    "world_models_dodge",
    "workflow.population=8",
    "environment.num_envs=8",
    "buffers.replay.capacity=800",
    "buffers.latents.batch_size=8",
    "workflow.validation.batch=16",
    "training.phases.converge_mdn.duration_updates=60",
    "training.phases.evolve={type: evolution, duration_cycles: 20, workflow_hooks: {evolve: {}}}",
    "training.phases.evolve_in_dream.duration_cycles=20",
    "evaluation.episodes=4",
    "checkpoint.every_seconds=0.1",
    "logging.tensorboard=false",
]


def test_world_models_killed_in_one_phase_after_another_end_bit_identical(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    finish(whole, *DODGE)
    process = start(broken, *DODGE)
    for phase in KILLED:
        while process.poll() is None and not has_begun(broken, phase):
            time.sleep(0.005)
        while process.poll() is None and not list(the_run(broken).checkpoints.glob("step-*")):
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, f"the run was over before '{phase}' could be killed"
        process = start(broken, "--resume", the_run(broken).name)
    assert process.wait(timeout=200) == 0, (broken / "output.txt").read_text()
    assert_identical(final_state(whole), final_state(broken))


def has_begun(folder, phase):
    return any(f'"{phase}"' in path.read_text() for path in (folder / "runs").glob("*/events.jsonl"))
