"""A cluster of several nodes on this machine, one of which is killed while a run collects."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time

import psutil
import pytest

pytest.importorskip("ray", reason="needs the extra `ray`")

import ray_cases
from paddock.experiments.run import RunFolder
from quiet_runs import quiet_run

OPTIONS = (*ray_cases.TINY_CARTPOLE, "experience=ray", "experience.workers=2")


@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of Ray's own log files
def test_ray_run_survives_a_killed_node(tmp_path):
    from paddock.distributed.ray.cluster import import_ray

    ray = import_ray(None)
    from ray.cluster_utils import Cluster

    folder = {"temp_dir": ray_cases.short_folder(), "include_dashboard": False}
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **folder})
    try:
        first = nodes.add_node(num_cpus=2)
        ray.init(address=nodes.address, log_to_driver=False, configure_logging=False)
        run = quiet_run(tmp_path, "ppo_cartpole", *OPTIONS, name="nodes")
        perform, count = run._perform, 0

        def perform_and_kill(action):
            nonlocal count
            perform(action)
            count += 1
            if count == 2:  # After the first rollout; both workers are on the only node with processors.
                nodes.add_node(num_cpus=2)
                nodes.remove_node(first, allow_graceful=False)

        run._perform = perform_and_kill
        assert run.run().status == "finished"
        events = [event for event in run.run_folder.read_events() if event["event"] == "worker_replaced"]
        assert {event["worker"] for event in events} == {"worker-1", "worker-2"}
        assert run.run_folder.read_metrics()[-1]["collect/replaced_workers"] == 2
        assert run.checkpoints.load().info["inexact"], "the checkpoint says what was inexact"
    finally:
        ray.shutdown()
        nodes.shutdown()


@pytest.mark.timeout(900)
def test_ray_run_resumes_from_its_checkpoint_after_the_head_was_killed(tmp_path):
    token = {
        "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_worker_niceness": "0",
        "RAY_gcs_rpc_server_reconnect_timeout_s": "5",
    }  # fmt: skip
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--head", "--port", str(port), "--num-cpus", "1", "--include-dashboard=false", "--block"]
    options += ["--node-ip-address", "127.0.0.1"]
    options += ["--temp-dir", ray_cases.short_folder()]
    head = start("ray.scripts.scripts", "start", *options, **token)
    try:
        endless = [*ray_cases.TINY_CARTPOLE, "training.total_steps=100_000_000", "logging.tensorboard=false"]
        spread = ["experience=ray", "experience.workers=1", f"experience.address=127.0.0.1:{port}"]
        driver = start("paddock", "train", "ppo_cartpole", *endless, *spread, f"runs_dir={tmp_path}", **token)
        while not (found := list(tmp_path.glob("*/checkpoints/step-*"))):
            if driver.poll() is not None:  # The head was not there yet.
                driver = start("paddock", "train", "ppo_cartpole", *endless, *spread, f"runs_dir={tmp_path}", **token)
            time.sleep(0.2)
    finally:
        for process in [*psutil.Process(head.pid).children(recursive=True), psutil.Process(head.pid)]:
            process.kill()
        head.wait()
    assert driver.wait(300) != 0, "a run without its cluster ends"
    run = RunFolder(found[0].parents[1])
    steps = max(int(one.name.split("-")[1]) for one in run.checkpoints.glob("step-*"))
    more = [f"training.total_steps={steps + 128}", "experience.address=null"]
    assert start("paddock", "train", "--resume", str(run.path), *more).wait(500) == 0
    assert run.read_manifest()["status"] == "finished"


def start(module, *arguments, **variables):
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(command, env={**os.environ, **variables}, stdout=subprocess.DEVNULL)


def test_ray_is_told_apart_from_a_cluster_that_is_not_there(monkeypatch):
    from paddock.core.errors import InputError
    from paddock.distributed.ray.cluster import Cluster

    monkeypatch.setenv("RAY_gcs_rpc_server_connect_timeout_s", "1")
    with pytest.raises(InputError, match="no Ray cluster answers at 'nowhere'"):
        Cluster("nowhere", cpus=1)
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
