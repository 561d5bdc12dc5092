"""Folders of finished runs for the research screens, made in no time."""

import json
import math
from pathlib import Path

from paddock.config.compose import compose
from paddock.experiments.run import RunFolder

OVERRIDES = ["workflow.clip_ratio=0.1"]


def make_runs(runs_dir: Path) -> dict[str, str]:
    """Two recipes of two seeds each, as CartPole runs leave them; name with seed -> folder."""
    found = {}
    for name, overrides, level in (("plain", [], 120.0), ("careful", OVERRIDES, 200.0)):
        for seed in (1, 2):
            config = {**compose("ppo_cartpole", overrides=overrides).values, "name": name, "seed": seed}
            run = RunFolder.create(runs_dir, name, config, seed=seed, is_own=False)
            run.write_manifest(
                id=f"{name}{seed}", status="finished", created=f"2026-01-0{seed}T00:00:00.000+00:00", seed=seed,
                agent_steps=4_000, seconds=20.0, config_hash="x", versions={"python": "3.11"},
                hardware={"processor": "x", "cores": 2},
                origin={"experiment": "ppo_cartpole", "user": None, "preset": None, "overrides": overrides},
            )  # fmt: skip
            run.metrics_file.write_text("".join(json.dumps(row) + "\n" for row in points(level + seed)))
            run.results.mkdir()
            run.result_file("best").write_text(json.dumps({"traces": {"tracks": [ring(20.0 + seed)]}}))
            for event in events():
                run.event(**event)
            found[f"{name}{seed}"] = run.name
    return found


def points(level: float) -> list[dict]:
    rows = []
    for k in range(1, 41):
        value = level * (1 - math.exp(-k / 12)) + 8 * (-1) ** k
        rows.append({"agent_steps": 100 * k, "seconds": 0.5 * k, "phase": "train", "collect/return": value,
                     "eval/return": value + 5, "train/value_loss": 10.0 / k})  # fmt: skip
    return rows


def events() -> list[dict]:
    """A phase, an evaluation, ten presses of one slider, and an alert."""
    presses = [
        {"kind": "control", "command": "reward", "term": "progress", "before": k / 10, "weight": (k + 1) / 10,
         "agent_steps": 500, "by": "dashboard"}
        for k in range(10)
    ]  # fmt: skip
    return [
        {"kind": "phase", "phase": "train", "agent_steps": 0},
        {"kind": "evaluation", "agent_steps": 400, "eval/return": 50.0},
        *presses,
        {"kind": "alert", "alert": "nan_loss", "agent_steps": 600},
        {"kind": "finished", "agent_steps": 4_000},
    ]


def circle(radius: float, count: int = 40) -> list[tuple[float, float]]:
    turns = [2 * math.pi * k / count for k in range(count)]
    return [(radius * math.cos(turn), radius * math.sin(turn)) for turn in turns]


def ring(lap_time: float) -> dict:
    """What an evaluation keeps of a round track: the road, the reference lap, the best lap."""

    def lap(radius: float, seconds: float) -> dict:
        places = circle(radius)
        share = [k / len(places) for k in range(len(places))]
        samples = {"s": [314.0 * one for one in share], "time": [seconds * one for one in share],
                   "x": [x for x, _ in places], "y": [y for _, y in places], "speed": [15.0] * len(places)}  # fmt: skip
        return {"lap_time": seconds, "sectors": [seconds / 3] * 3, "samples": samples}

    heat = {"x": 0.0, "y": 0.0, "cell": 1.0, "cells": []}
    return {"name": "ring", "length": 314.0, "left": circle(45.0), "right": circle(55.0),
            "reference": lap(50.0, 19.0), "heat": heat, "lap": lap(51.0, lap_time)}  # fmt: skip
