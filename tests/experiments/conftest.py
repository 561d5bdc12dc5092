"""Folders that look like runs, made in no time; real ones are in the fixture `real_runs`."""

import json

import pytest

from paddock.experiments.run import RunFolder


@pytest.fixture
def make_run():
    """A run's folder as a finished run leaves it."""

    def make(
        runs_dir, name, *, seed=1, status="finished", scores=(1.0, 2.0), environment="CartPole-v1", clip=0.2, tags=()
    ):
        config = {
            "schema_version": 2,
            "name": name,
            "tags": list(tags),
            "seed": seed,
            "environment": {"_target_": "paddock.environments.gym.make", "id": environment},
            "workflow": {"_target_": "paddock.workflows.ppo.PPO", "clip_ratio": clip},
            "evaluation": {"metric": "eval/return", "episodes": 3, "seed": 1000, "deterministic": True},
        }
        run = RunFolder.create(runs_dir, name, config)
        run.write_manifest(
            id=f"{name}{seed}", status=status, created=f"2026-01-01T00:00:{seed:02d}.000+00:00", seed=seed,
            agent_steps=100 * len(scores), seconds=1.0 * len(scores), config_hash="x",
            git={"commit": "a" * 40, "dirty": True}, versions={"python": "3.11"},
            hardware={"processor": "x", "cores": 2},
        )  # fmt: skip
        lines = [
            {"agent_steps": 100 * k, "seconds": 1.0 * k, "phase": "train", "eval/return": score, "train/loss": 1.0 / k}
            for k, score in enumerate(scores, start=1)
        ]
        run.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        run.event(status, agent_steps=100 * len(scores))
        return run

    return make
