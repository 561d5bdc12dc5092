"""A racing run whose policies' drives are kept, made without training."""

from pathlib import Path

import numpy as np

from paddock.core.results import drives_folder
from paddock.experiments.run import RunFolder, manifest
from paddock.racing.laps.archive import keep_drives
from paddock.racing.laps.replays import Drive
from paddock.racing.view import drawn_road
from paddock.sim.cars.car import load_car
from paddock.sim.reference.lap import reference_lap
from paddock.sim.tracks.sources import load_track


def reference_drive(slower: float, *, until: float | None = None) -> Drive:
    """The oval's reference lap, slower; `until` s, where it did not get round."""
    lap = reference_lap(load_track("oval"), "gt")
    samples = {"time": slower * lap.time_at, "x": lap.x, "y": lap.y, "heading": np.unwrap(lap.heading)}
    time = slower * lap.lap_time
    return Drive("agent", "agent", None if until else time, until or time, samples)


def racing_run(folder: Path, *, name: str = "drives", has_drives: bool = True) -> RunFolder:
    """A finished run of three evaluations; of the second the policy is kept."""
    environment = {"_target_": "paddock.racing.env.vector.make", "track": "oval", "car": "gt"}
    config = {"name": name, "seed": 1, "environment": environment, "evaluation": {"metric": "eval/pace"}}
    run = RunFolder.create(folder / "runs", name, config, seed=1, is_own=False)
    run.write_manifest(**manifest(config, seed=1) | {"status": "finished", "agent_steps": 30_000, "seconds": 60.0})
    if has_drives:
        track = load_track("oval")
        road = drawn_road(track, "gt", load_car("gt"), reference_lap(track, "gt"))
        laps = {1_000: (1.3, 6.0), 20_000: (1.1, None), 30_000: (1.04, None)}
        for steps, (slower, until) in laps.items():
            drive = reference_drive(slower, until=until)
            keep_drives(drives_folder(run.path), steps, [(road, drive)], kept=())
        policy = run.policy / "step-000000020000"
        policy.mkdir(parents=True)
        (policy / "policy.json").write_text("{}")
        (policy / "record.json").write_text('{"agent_steps": 20000, "metrics": {}, "improved": ["eval/pace"]}')
    return run
