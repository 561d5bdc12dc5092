"""Demonstrations through the command line: recorded, listed, shown, learned from, and the policy as ONNX."""

import json

import pytest


def test_demonstrations_from_record_to_training(paddock, tmp_path):
    def run(*arguments, code=0):
        done = paddock(*arguments)
        assert done.returncode == code, done.stderr
        return done

    oval = ["environment.track=oval", "environment.car=f1tenth"]
    recorded = json.loads(
        run("record", "episodes", "sets/oval", *oval, "--laps", "2", "--noise", "0.05", "--json").stdout
    )
    assert recorded["episodes"] == 2
    (row,) = json.loads(run("demonstrations", "list", "sets", "--json").stdout)
    assert (row["folder"], row["episodes"], row["steps"]) == ("sets/oval", 2, recorded["steps"])
    shown = run("demonstrations", "show", "sets/oval").stdout
    assert "oval" in shown
    assert "f1tenth" in shown
    refused = run("demonstrations", "show", "sets", code=2)
    assert "name one of them: sets/oval" in refused.stderr
    assert "Traceback" not in refused.stderr

    small = ["environment.num_envs=4", "evaluation.episodes=2", "logging.tensorboard=false", "--name", "small"]
    run(
        "train", "sac_demonstrations_racing", *oval, *small, "buffers.demonstrations.sources=[sets/oval]",
        "training.total_steps=600", "training.phases.seed.duration_steps=300",
    )  # fmt: skip
    pytest.importorskip("onnxruntime")
    exported = json.loads(run("export-policy", "small", "-o", "small.onnx", "--json").stdout)
    assert exported["largest_difference"] < 1e-3
    assert (tmp_path / "small.onnx").stat().st_size == exported["bytes"]
