"""A race on one page: leaderboard, picture, film and learning curve in a single HTML file that needs nothing else."""

from __future__ import annotations

import base64
from io import BytesIO
from pathlib import Path
from typing import Any

from paddock import __version__
from paddock.experiments.report.report import write_page
from paddock.experiments.run import RunFolder
from paddock.racing.race.picture import race_picture
from paddock.racing.race.race import Race, Standing

SCRIPTS = ("charts.js", "race.js")


def write_race_page(file: Path, race: Race, *, video: Path | None = None, run: RunFolder | None = None) -> None:
    """Write the page; `run` adds its learning curve and what to type next."""
    picture = BytesIO()
    race_picture(race.track, race.reference, race.standings, car=race.car).to_image().save(picture, "PNG")
    data: dict[str, Any] = {
        "title": f"Race on {race.track.name}",
        "length": race.track.length,
        "car": race.car,
        "reference": race.reference.lap_time,
        "standings": [_standing(one) for one in race.standings],
        "picture": _data("image/png", picture.getvalue()),
        "film": _data("video/mp4", video.read_bytes()) if video is not None else None,
        "learning": _learning(run) if run is not None else None,
        "next": next_commands(run) if run is not None else [],
        "version": __version__,
    }
    write_page(file, title=data["title"], data=data, scripts=SCRIPTS)


def _data(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _standing(standing: Standing) -> dict[str, Any]:
    return {
        "driver": standing.name,
        "kind": standing.kind,
        "lap_time": standing.lap.lap_time if standing.lap is not None else None,
        "mean_lap": standing.mean_lap if standing.lap is not None else None,
        "finished": standing.finished,
        "starts": standing.starts,
        "off_track": standing.off_track,
    }


def _learning(run: RunFolder) -> dict[str, list[float]]:
    """Best lap over reference lap, against seconds of training."""
    rows = [row for row in run.read_metrics() if row.get("eval/best_ratio") is not None]
    return {"seconds": [row["seconds"] for row in rows], "ratios": [row["eval/best_ratio"] for row in rows]}


def next_commands(run: RunFolder) -> list[str]:
    """What to type after a race."""
    steps = run.read_manifest().get("agent_steps") or 1
    return [
        f"paddock evaluate {run.path} --track serpent     # an unseen circuit",
        f"paddock train --resume {run.path} training.total_steps={5 * steps} training.max_seconds=300",
        "paddock train racing reward=racing_line reward.time_pressure.weight=0.8   # a reward of your own",
        "paddock train --list",
    ]
