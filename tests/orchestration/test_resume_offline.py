"""A phase that only learns from recorded data: agent_steps stands still while it saves, is interrupted and resumed."""

import signal
import time

import pytest
import torch
from test_resume import assert_identical, final_state, finish, metrics_of, start, the_run

from paddock.buffers.recordings import RecordingBuffer, RecordingConfig
from paddock.environments.gym import GymConfig, make
from paddock.environments.spaces import spec_of
from paddock.orchestration.checkpoint import CheckpointConfig, CheckpointStore
from paddock.orchestration.seal import read_seal
from paddock.rollout.actor import RandomActor, RandomActorConfig
from paddock.rollout.collector import Collector

UPDATES = 2_000


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """A few random episodes of Pendulum."""
    folder = tmp_path_factory.mktemp("recorded") / "pendulum"
    env = make(GymConfig(_target_="it", id="Pendulum-v1", num_envs=2, max_episode_steps=50), 2)
    spec = spec_of(env)
    buffer = RecordingBuffer(RecordingConfig(_target_="it", folder=str(folder), rows_per_file=200), spec, 2)
    torch.manual_seed(0)
    Collector(env, spec, seed=1).collect(RandomActor(RandomActorConfig(_target_="it"), {}, spec), buffer, 600)
    buffer.flush()
    return folder


def offline_arguments(recording):
    dataset = f"{{_target_: paddock.buffers.offline.OfflineBuffer, sources: ['{recording}'], batch_size: 32}}"
    study = f"name: study, type: offline, buffer: dataset, duration_updates: {UPDATES}, workflow_hooks: [update]"
    return [
        "sac_pendulum",
        f"+buffers.dataset={dataset}",
        f"training.phases=[{{{study}}}]",
        "training.total_steps=null",
        "components.policy.network.hidden=[16]",
        "components.critics.hidden=[16]",
        "checkpoint.every_steps=null",
        "checkpoint.every_seconds=0.2",
        "logging.tensorboard=false",
    ]  # fmt: skip


def newest(folder):
    return CheckpointStore(the_run(folder).checkpoints, CheckpointConfig()).load()


def wait_for_checkpoints(folder, process, count):
    """Until so many have been saved in the run's life; gives the number of the newest."""
    while process.poll() is None:
        for latest in folder.glob("runs/*/checkpoints/latest"):
            assert (latest / "checkpoint.json").is_file(), "latest dangles"
            if (number := read_seal(latest.resolve())["number"]) >= count:
                return number
        time.sleep(0.01)
    raise AssertionError("the run was too short to be interrupted")


def test_an_offline_phase_interrupted_and_killed_loses_nothing_saved(tmp_path, recording):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    finish(whole, *offline_arguments(recording))

    process = start(broken, *offline_arguments(recording))
    wait_for_checkpoints(broken, process, 5)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 0
    run = the_run(broken)
    stopped = run.read_manifest()
    assert stopped["status"] == "stopped"
    assert stopped["agent_steps"] == 0
    assert 0 < stopped["updates"] < UPDATES
    assert newest(broken).state["counters"]["updates"] == stopped["updates"], "Ctrl-C saves what was done"

    process = start(broken, "--resume", run.name)
    wait_for_checkpoints(broken, process, newest(broken).info["number"] + 4)
    process.kill()
    process.wait()
    left = newest(broken)
    assert left.state["counters"]["updates"] > stopped["updates"]
    finish(broken, "--resume", run.name)
    resumed = [event["checkpoint"] for event in run.read_events() if event["event"] == "resumed"]
    assert resumed[-1] == left.path.name

    assert run.read_manifest()["updates"] == UPDATES
    assert_identical(final_state(whole), final_state(broken))
    assert metrics_of(whole) == metrics_of(broken)
