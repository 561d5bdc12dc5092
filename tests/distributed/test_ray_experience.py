"""Collectors on a real local Ray: the result does not depend on where the rows are."""

from __future__ import annotations

import pytest

pytest.importorskip("ray", reason="needs the extra `ray`")

import ray_cases
from ray_cases import TINY_CARTPOLE, TINY_RACING, TINY_SAC, learned, returns, trained

CASES = {"ppo_cartpole": TINY_CARTPOLE, "racing": TINY_RACING, "sac_pendulum": TINY_SAC}
RAY = "experience=ray"


@pytest.fixture(scope="module")
def cluster():
    made = ray_cases.start_ray()
    yield made
    made.close()


@pytest.mark.parametrize("experiment", CASES)
def test_ray_rows_are_bit_identical_however_they_are_spread(monkeypatch, tmp_path, experiment):
    monkeypatch.setattr(ray_cases.experience, "make_team", ray_cases.InProcessTeam)
    local = trained(tmp_path, experiment, *CASES[experiment], name="local")
    assert len(returns(local)) > 1
    for workers in (1, 2, 3, 4):
        spread = (RAY, f"experience.workers={workers}")
        run = trained(tmp_path, experiment, *CASES[experiment], *spread, name=f"ray{workers}")
        assert learned(run) == learned(local), workers
        assert returns(run) == returns(local)


def test_ray_collectors_are_bit_identical_to_the_local_run(cluster, tmp_path):
    local = trained(tmp_path, "ppo_cartpole", *TINY_CARTPOLE, name="local")
    run = trained(tmp_path, "ppo_cartpole", *TINY_CARTPOLE, RAY, "experience.workers=2", name="ray")
    assert learned(run) == learned(local)
    assert returns(run) == returns(local)
