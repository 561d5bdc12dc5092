"""How a racing run went, in the words of racing: lap times against the reference and the classical driver."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from paddock.core.errors import PaddockError
from paddock.core.reading import DamagedError
from paddock.core.results import read_result
from paddock.core.text import printable
from paddock.experiments.run import RunFolder
from paddock.racing.env.config import RacingConfig
from paddock.racing.laps.classical import classical_lap
from paddock.racing.laps.drive import with_evaluation_rules
from paddock.render.lap_time import format_lap_time

A_MINUTE = 60.0  # s
MOST_TRACKS = 4  # that are told one by one, each with a lap of the classical driver


def findings(run: RunFolder, environment: RacingConfig) -> list[tuple[str, str]]:
    """What the run's best evaluation found, as pairs of a label and a text; nothing where there was none."""
    try:
        result = read_result(run.result_file("best"))
        starts: list[Mapping[str, Any]] = result["details"]["starts"]
        tracks = list(dict.fromkeys(start["track"] for start in starts))
    except (DamagedError, KeyError, TypeError):
        return []
    if not starts:
        return []
    finished = sum(start["lap_time"] is not None for start in starts)
    share = f"{finished} of {len(starts)} starts ({100 * finished / len(starts):.0f} %)"
    found = [("Finish rate", share + (f" on {len(tracks)} tracks" if len(tracks) > 1 else ""))]
    if len(tracks) > MOST_TRACKS:
        return [*_mean_ratio(starts), *found]
    fastest = min((row["eval/best_lap"] for row in run.read_metrics() if row.get("eval/best_lap")), default=math.inf)
    for track in tracks:
        laps = [start for start in starts if start["track"] == track and start["lap_time"] is not None]
        found += _on_track(track, laps, classical_time(environment, track))
    best = min((start["lap_time"] for start in starts if start["lap_time"] is not None), default=math.inf)
    if fastest < best:  # Evaluations are ranked by all of their laps.
        found.append(("Fastest lap", f"{_time(fastest)}, in an evaluation that was worse as a whole"))
    return sorted(found, key=lambda pair: pair[0] == "Finish rate")


def next_commands(run: RunFolder) -> list[tuple[str, str]]:
    """What to do with a car that has learned to race."""
    return [
        (f"paddock race {run.path} --video", "race it against the classical driver, with a film of its best lap"),
        (f"paddock drive --against {run.path}", "race against it yourself, in the browser"),
    ]


def _on_track(track: str, laps: Sequence[Mapping[str, Any]], classical: float | None) -> list[tuple[str, str]]:
    known = _time(classical) if classical is not None else "completes no lap"
    if not laps:
        return [("Best lap", printable(f"no start completed a lap on {track}")), ("Classical driver", known)]
    best = min(laps, key=lambda lap: lap["lap_time"])
    time, reference = best["lap_time"], best["reference"]
    over = 100 * (time / reference - 1)
    compared = f"{abs(over):.1f} % {'over' if over >= 0 else 'under'} the reference lap"
    lap = printable(f"{_time(time)} on {track}, {compared} ({_time(reference)})")
    if classical is not None:
        known += f"; the agent is {abs(classical - time):.3f} s {'faster' if time < classical else 'slower'}"
    return [("Best lap", lap), ("Classical driver", known)]


def _mean_ratio(starts: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    ratios = [start["lap_time"] / start["reference"] for start in starts if start["lap_time"] is not None]
    if not ratios:
        return [("Lap times", "no start completed a lap")]
    mean = sum(ratios) / len(ratios)
    return [("Lap times", f"{mean:.3f} x the reference lap on average, {min(ratios):.3f} x at best")]


def _time(seconds: float) -> str:
    return format_lap_time(seconds) + (" s" if seconds < A_MINUTE else "")


def classical_time(config: RacingConfig, track: str) -> float | None:
    """s of the classical driver's lap with the same car on the same road; None where it does not get round."""
    try:
        lap = classical_lap(with_evaluation_rules(config, track=track, procedural=0, num_envs=1), 0)
    except PaddockError:  # The road may be gone: a file that was moved, an imported track that was removed.
        return None
    return lap.lap_time if lap is not None and math.isfinite(lap.lap_time) else None
