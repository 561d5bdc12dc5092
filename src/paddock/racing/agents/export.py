"""Writing an agent that can be shipped or sent: a small policy, and the lap that it drives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save

from paddock.core.errors import InputError
from paddock.core.files import write_synced
from paddock.core.reading import read_json
from paddock.evaluation.subject import Subject
from paddock.experiments.run import RunFolder
from paddock.racing.agents import REPLAY, RESULTS
from paddock.racing.laps.drive import Laps
from paddock.racing.laps.evaluator import LapEvaluator
from paddock.racing.laps.replay import replay_of

STARTS, SEED = 16, 1000
WEIGHTS, DESCRIPTION = "policy.safetensors", "policy.json"


def export_agent(subject: Subject, which: str, folder: Path) -> dict[str, Any]:
    """Write the policy with weight matrices in half precision, and its best lap of a few starts.

    The lap is driven by the policy as it was written, so that what is seen is what is shipped.
    """
    if not isinstance(subject.evaluator, LapEvaluator):
        raise InputError(f"'{subject.name}' does not race; only a racing policy can be exported as an agent.")
    source = _policy_folder(subject, which)
    tensors = {name: _small(value) for name, value in load_file(source / WEIGHTS).items()}
    folder.mkdir(parents=True, exist_ok=True)
    write_synced(folder / WEIGHTS, save(tensors))
    write_synced(folder / DESCRIPTION, json.dumps(read_json(source / DESCRIPTION)).encode())
    subject.actor.load_state_dict(tensors)
    track = read_json(source / DESCRIPTION)["environment"]["track"]
    starts = STARTS * (1 if isinstance(track, str) else len(track))
    result, values = subject.evaluate(episodes=starts, seed=SEED, deterministic=True)
    assert isinstance(result, Laps), "a LapEvaluator drives laps"
    replay = replay_of({"traces": subject.evaluator.traces(result)}, driver=folder.name)
    if replay is None or not replay["laps"]:
        raise InputError(f"'{subject.name}' completed no lap from {starts} starts; there is nothing to show of it.")
    write_synced(folder / REPLAY, json.dumps(_short(replay), separators=(",", ":")).encode())
    write_synced(folder / RESULTS, json.dumps(_results(result), indent=1).encode())
    return {
        "folder": str(folder),
        "bytes": sum(file.stat().st_size for file in folder.iterdir() if file.is_file()),
        "track": replay["scene"]["track"]["name"],
        "best_lap": replay["laps"][0]["lap_time"],
        "finish_rate": values["eval/finish_rate"],
    }


def _results(laps: Laps) -> dict[str, dict[str, Any]]:
    """Of each track: how many starts finished their lap, and the best of them in s."""
    found = {}
    for track in dict.fromkeys(laps.track):
        one = laps.of_track(track)
        count = int(one.finished.sum())
        best = round(float(np.nanmin(one.lap_time)), 3) if count else None
        found[track] = {"finished": count, "starts": len(one.finished), "best_lap": best}
    return found


def _short(replay: dict[str, Any]) -> dict[str, Any]:
    """Only the best lap, and every second point of lines that a page interpolates anyway."""
    scene, lap = replay["scene"], replay["laps"][0]
    line = {name: scene["reference"][name][::2] for name in ("x", "y", "heading", "speed", "time")}
    ghost = {name: lap[name][::2] for name in ("x", "y", "heading")}
    scene = {**scene, "cars": 1, "reference": {**scene["reference"], **line}}
    return {"scene": scene, "laps": [{**lap, **ghost, "dt": 2 * lap["dt"]}], "drives": None}


def _policy_folder(subject: Subject, which: str) -> Path:
    if (subject.folder / DESCRIPTION).is_file():
        return subject.folder
    folder = RunFolder(subject.folder).policy_folder(which)
    if folder is None:
        raise InputError(f"run '{subject.name}' has saved no policy yet.")
    return folder


def _small(value: torch.Tensor) -> torch.Tensor:
    """Matrices in half precision; biases and the numbers of normalisers are few, and need their range."""
    return value.half() if value.is_floating_point() and value.dim() >= 2 else value
