"""A race on one page: leaderboard, picture, film and learning curve in a single HTML file that needs nothing else."""

from __future__ import annotations

import base64
from io import BytesIO
from pathlib import Path
from typing import Any

from paddock import __version__
from paddock.core.errors import InputError
from paddock.experiments.report.report import write_page
from paddock.experiments.run import RunFolder
from paddock.racing.laps.replays import Drive
from paddock.racing.race.picture import race_picture
from paddock.racing.race.race import Race, Standing
from paddock.racing.race.share import share_page
from paddock.racing.view import drawn_road
from paddock.sim.cars.car import load_car

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
        "share": _data("text/html", replay.encode()) if (replay := race_replay(race)) is not None else None,
        "next": next_commands(run) if run is not None else [],
        "version": __version__,
    }
    write_page(file, title=data["title"], data=data, scripts=SCRIPTS)


def race_replay(race: Race) -> str | None:
    """The best lap of every driver as a page that plays them; None where nobody completed one."""
    drives = [Drive.of_lap(one.lap, one.kind, one.name) for one in race.standings if one.lap is not None]
    scene = drawn_road(race.track, race.car, load_car(race.car), race.reference)
    return share_page(f"Race on {race.track.name}", scene, drives) if drives else None


def share_race(file: Path, race: Race) -> Path:
    """Write that page to a file of its own."""
    text = race_replay(race)
    if text is None:
        raise InputError(f"there is no lap to share: nobody completed one on {race.track.name}.")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


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
