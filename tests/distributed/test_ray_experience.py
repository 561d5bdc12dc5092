"""Collectors on Ray: the result does not depend on where the rows are, and the run survives the death of a worker.

Most tests have the collectors of all workers in this process; a real local Ray is started once.
"""

from __future__ import annotations

import os
import signal

import pytest
import torch

pytest.importorskip("ray", reason="needs the extra `ray`")

import ray_cases
from interruption import stop_after
from paddock.core.errors import InputError
from quiet_runs import quiet_run
from ray_cases import TINY_CARTPOLE, TINY_RACING, TINY_SAC, InProcessTeam, digest, learned, returns, trained

CASES = {"ppo_cartpole": TINY_CARTPOLE, "racing": TINY_RACING, "sac_pendulum": TINY_SAC}
RAY, TWO = "experience=ray", "experience.workers=2"
ASYNC = (RAY, TWO, "experience.mode=async", "experience.chunk_steps=4", "experience.publish_every=4")


@pytest.fixture
def in_process(monkeypatch):
    monkeypatch.setattr(ray_cases.experience, "make_team", InProcessTeam)


@pytest.mark.parametrize("experiment", CASES)
def test_ray_rows_are_bit_identical_however_they_are_spread(in_process, tmp_path, experiment):
    local = trained(tmp_path, experiment, *CASES[experiment], name="local")
    assert len(returns(local)) > 1
    for workers in (1, 3, 4):
        spread = (RAY, f"experience.workers={workers}")
        run = trained(tmp_path, experiment, *CASES[experiment], *spread, name=f"ray{workers}")
        assert learned(run) == learned(local), workers
        assert returns(run) == returns(local)


def test_ray_run_that_was_cut_off_resumes_bit_identically(in_process, tmp_path):
    options = (*TINY_CARTPOLE, RAY, TWO)
    whole = trained(tmp_path, "ppo_cartpole", *options, name="whole")
    first = quiet_run(tmp_path, "ppo_cartpole", *options, name="cut")
    stop_after(first, 4)
    second = ray_cases.resumed(first)
    assert learned(second) == learned(whole)
    assert returns(second) == returns(whole)
    spread = (RAY, "experience.workers=4", "training.total_steps=320")
    other = quiet_run(tmp_path, "ppo_cartpole", *TINY_CARTPOLE, *spread, name="other")
    other.restore(second.checkpoints.load())
    other.run()
    assert [event["event"] for event in other.run_folder.read_events()].count("episodes_begun_anew") == 1
    assert "spread" in other.run_folder.read_manifest()["inexact"][0]


def test_ray_asynchronous_collectors_fill_the_replay_with_steps_of_known_versions(in_process, tmp_path):
    run = trained(tmp_path, "sac_pendulum", *TINY_SAC, *ASYNC, name="async")
    rows = run.run_folder.read_metrics()
    assert run.counters.agent_steps >= 192
    assert run.counters.updates > 0
    lags = [row["collect/version_lag"] for row in rows]
    assert max(lags) > 0
    assert max(lags) <= run.counters.updates / 4
    assert run.context.buffers["replay"].num_envs == 2, "the rows of one worker, in turns"
    assert rows[-1]["collect/workers/worker-1/steps_per_second"] > 0
    with pytest.raises(InputError, match="mode=sync"):
        trained(tmp_path, "ppo_cartpole", *TINY_CARTPOLE, RAY, "experience.mode=async", name="ppo")


def test_ray_asynchronous_steps_beyond_max_lag_are_dropped_and_counted(in_process, tmp_path):
    options = (*TINY_SAC, *ASYNC, "experience.publish_every=1", "experience.max_lag=1", "experience.ahead_chunks=4")
    run = trained(tmp_path, "sac_pendulum", *options, name="lag")
    rows = run.run_folder.read_metrics()
    assert max(row["collect/version_lag"] for row in rows) <= 1
    assert rows[-1]["collect/dropped_steps"] > 0


def test_ray_collectors_of_a_real_cluster_and_the_death_of_one(tmp_path):
    cluster = ray_cases.start_ray()
    try:
        local = quiet_run(tmp_path, "ppo_cartpole", *TINY_CARTPOLE, name="local")
        run = quiet_run(tmp_path, "ppo_cartpole", *TINY_CARTPOLE, RAY, TWO, name="ray")
        rollouts = [collected(one) for one in (local, run)]
        assert digest(rollouts[0]) == digest(rollouts[1])
        experience = run.context.experience
        member = experience.team.members[1]
        os.kill(member.about["process"], signal.SIGKILL)
        experience.collect(run.context.controllers.active, run.context.buffers["rollout"], 64)
        state, folder = experience.get_state(), run.run_folder
        assert (state["losses"]["workers"], state["losses"]["steps"], state["losses"]["episodes"]) == (1, 32, 4)
        (event,) = [one for one in folder.read_events() if one["event"] == "worker_replaced"]
        assert event["worker"] == "worker-2"
        assert folder.read_manifest()["inexact"] == list(experience.inexact) != []
        first = run.context.buffers["rollout"].sample()["is_first"][0]
        assert first[4:].all(), "the rows of the new worker begin episodes"
        assert [one.name for one in experience.workers] == ["worker-1", "worker-2"]
        experience.close()
    finally:
        cluster.close()


def collected(run):
    """Two rollouts, as arrays."""
    context, found = run.context, []
    torch.manual_seed(5)
    for _ in range(2):
        result = context.experience.collect(context.controllers.active, context.buffers["rollout"], 64)
        ends = {name: part.copy() for name, part in result.observation.items()}
        found.append([result.steps, result.episodes, ends, context.buffers["rollout"].rows()])
    context.experience.collect(context.controllers.active, context.buffers["rollout"], 64)
    return [found, torch.get_rng_state().numpy()]
