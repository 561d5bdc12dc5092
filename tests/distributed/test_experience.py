"""Training over a relay, with real processes or with threads in this one."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

pytest.importorskip("grpc")

import tiny_tasks
from paddock.core.errors import PaddockError
from paddock.distributed import Relay, Trainer, Worker
from paddock.experiments.run import RunFolder

LOOPBACK = ("127.0.0.1", "::1", "::ffff:127.0.0.1")
TINY = [
    "environment.id=tiny_tasks:Reach-v0",
    "components.policy.network.hidden=[32, 32]",
    "components.critics.hidden=[32, 32]",
    "components.temperature.initial=0.05",
    "buffers.replay.batch_size=64",
    "evaluation.episodes=20",
    "experience.chunk_steps=8",
    "experience.publish_every=20",
    "experience.ahead_steps=32",
    "training.phases.seed.duration_steps=200",
    "training.phases.joint.workflow_hooks.update.ratio=0.5",
    "training.phases.joint.workflow_hooks.evaluate.every_steps=400",
    "training.phases.joint.until='eval/return >= -1.3'",
]
TINY_PPO = [
    "environment.id=tiny_tasks:Reach-v0",
    "environment.num_envs=4",
    "components.policy.network.hidden=[32, 32]",
    "components.value.network.hidden=[32, 32]",
    "workflow.rollout_steps=512",
    "workflow.minibatch_size=64",
    "optimizers.main.learning_rate=3e-3",
    "training.phases.train.workflow_hooks.evaluate.every_steps=2_048",
    "training.phases.train.until='eval/return >= -1.3'",
]


@pytest.fixture(autouse=True)
def _plugin(monkeypatch):
    monkeypatch.setenv("PADDOCK_PLUGINS", "tiny_tasks")
    beside = [str(Path(tiny_tasks.__file__).parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(beside))


def rows(run):
    return RunFolder(Path(run)).read_metrics()


def newest(run, name):
    return next(row[name] for row in reversed(rows(run)) if name in row)


@pytest.mark.timeout(280)
def test_sac_learns_from_two_local_workers(prepared):
    orchestrator = prepared("sac_pendulum", "experience=workers", *TINY, "training.total_steps=20_000")
    outcome = orchestrator.run()
    # More steps arrive between the evaluation that reached it and the last one, which may be a little lower.
    assert outcome.best_score >= -1.3
    assert outcome.latest["eval/return"] >= -2.0
    run = orchestrator.run_folder.path
    assert newest(run, "collect/workers_connected") > 0
    assert newest(run, "collect/bytes_per_step") < 100
    assert any(f"collect/workers/worker-{number}/return" in row for row in rows(run) for number in (1, 2))
    assert _children() == [], "workers and relay end with the run"


@pytest.mark.timeout(280)
def test_ppo_learns_synchronously_from_two_local_workers(prepared):
    orchestrator = prepared("ppo_pendulum", "experience=workers", *TINY_PPO, "training.total_steps=60_000")
    outcome = orchestrator.run()
    assert outcome.latest["eval/return"] >= -1.3
    assert newest(orchestrator.run_folder.path, "collect/version_lag") == 0, "every step is of the newest policy"
    assert outcome.counters.agent_steps % 512 == 0


@pytest.mark.timeout(280)
def test_relay_worker_and_trainer_as_classes(tmp_path):
    relay = Relay(0, keys_dir=tmp_path / "relay")
    relay.start()
    stop = threading.Event()
    worker = Worker(
        "sac_pendulum",
        TINY,
        env_cls=tiny_tasks.Reach,
        name="pc",
        keys_dir=tmp_path / "relay",
        spool=tmp_path / "spool",
        model_history=1,
        crc_debug=True,
    )
    thread = threading.Thread(target=worker.run, kwargs={"test_episode_interval": 5, "stop": stop})
    thread.start()
    try:
        options = [*TINY, "experience.test_every=5", "experience.history_every=1", "training.total_steps=3_000"]
        options += ["training.phases.joint.until=null"]
        trainer = Trainer(
            "sac_pendulum",
            [*options, "experience.check_samples=true"],
            env_cls=tiny_tasks.Reach,
            keys_dir=tmp_path / "relay",
            name="script",
            runs_dir=tmp_path / "runs",
            quiet=True,
        )
        run = trainer.run()
    finally:
        stop.set()
        thread.join(60)
        relay.stop()
    assert run.status == "finished"
    assert list((tmp_path / "spool" / "policies").glob("version-*/policy.safetensors"))
    assert -60 < newest(run.folder, "collect/test_return") < 0


def _start(folder, *command, **more):
    with (folder / f"{command[0]}.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "paddock", *command],
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            **more,
        )


def _until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.1)


def _children():
    running = [one for one in psutil.Process().children(recursive=True) if one.status() != psutil.STATUS_ZOMBIE]
    return [child.name() for child in running if "paddock" in " ".join(child.cmdline())]


def test_local_workers_end_with_a_killed_run(tmp_path):
    process = _start(tmp_path, "train", "sac_pendulum", "experience=workers", *TINY, "training.total_steps=1_000_000")
    log = tmp_path / "train.log"
    try:
        found = lambda: psutil.Process(process.pid).children()  # noqa: E731
        _until(lambda: len(found()) == 3, 60, log.read_text)
        children = found()
        process.kill()
        process.wait()
        _until(lambda: not any(child.is_running() for child in children), 30, lambda: str(children))
    finally:
        process.kill()


def test_worker_of_another_environment_says_which_option_differs(tmp_path):
    relay = Relay(0, keys_dir=tmp_path / "relay")
    relay.start()
    stop, said = threading.Event(), []

    def work():
        try:
            different = [*TINY, "environment.max_episode_steps=7"]
            Worker("sac_pendulum", different, keys_dir=tmp_path / "relay", spool=tmp_path / "spool").run(stop=stop)
        except PaddockError as error:
            said.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        Trainer(
            "sac_pendulum",
            [*TINY, "training.max_seconds=8"],
            keys_dir=tmp_path / "relay",
            runs_dir=tmp_path / "runs",
            quiet=True,
        ).run()
    finally:
        stop.set()
        thread.join(30)
        relay.stop()
    assert "environment.max_episode_steps is None there and 7 here" in said[0]


def test_trainer_and_worker_hold_no_listening_socket(tmp_path):
    process = _start(tmp_path, "train", "sac_pendulum", "experience=workers", *TINY, "training.total_steps=1_000_000")
    log = tmp_path / "train.log"
    try:
        _until(
            lambda: len(list(tmp_path.glob("runs/*/metrics.jsonl"))) == 1 and b"step" in log.read_bytes(),
            90,
            log.read_text,
        )
        trainer = psutil.Process(process.pid)
        for one in [trainer, *trainer.children()]:
            is_relay = "relay" in one.cmdline()
            listening = [each.laddr for each in one.net_connections("inet") if each.status == psutil.CONN_LISTEN]
            assert all(address.ip in LOOPBACK for address in listening), (one.cmdline(), listening)
            if not is_relay and one is not trainer:  # The run's own channel for viewers listens on the loopback.
                assert listening == []
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
