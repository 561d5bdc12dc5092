"""What a race leaves: files in a folder, and the leaderboard in the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from paddock.core.text import printable
from paddock.experiments.run import RunFolder
from paddock.racing.laps.classical import NAME as CLASSICAL
from paddock.racing.laps.film import film_lap, gif_lap
from paddock.racing.laps.records import RecordedLap, write_lap
from paddock.racing.race.page import share_race, write_race_page
from paddock.racing.race.picture import race_picture
from paddock.racing.race.race import AGENT, PERSON, Race
from paddock.racing.unseen import is_for_any_track, own_track, saved_environment, unseen_advice
from paddock.render.lap_time import format_lap_time


def write_race(
    folder: Path,
    race: Race,
    *,
    video: bool = False,
    save_laps: bool = False,
    share: Path | None = None,
    gif: Path | None = None,
) -> dict[str, Path]:
    """Standings, picture and page, and if asked for the film, the laps, the replay to `share` and the GIF; gives the
    files by what they are."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {"standings": folder / "standings.json", "picture": folder / "race.png", "page": folder / "race.html"}
    files["standings"].write_text(json.dumps(race.values(), indent=2), encoding="utf-8")
    race_picture(race.track, race.reference, race.standings, car=race.car).save(files["picture"])
    laps = {standing.name: standing.lap for standing in race.standings if standing.lap is not None}
    if video and (lap := best_agent_lap(race)) is not None:
        files["video"] = folder / "lap.mp4"
        film_lap(files["video"], race.track, lap, laps.get(CLASSICAL))
    if gif is not None and (lap := best_agent_lap(race)) is not None:
        gif_lap(gif, race.track, lap, laps.get(CLASSICAL))
        files["gif"] = gif
    if save_laps:
        for name, lap in laps.items():
            write_lap(folder / "laps" / f"{name.replace(' ', '_').replace('/', '_')}.json", lap)
        files["laps"] = folder / "laps"
    if share is not None:
        files["share"] = share_race(share, race)
    run = RunFolder(race.home) if (race.home / "config.yaml").is_file() else None
    write_race_page(files["page"], race, video=files.get("video"), run=run)
    return files


def best_agent_lap(race: Race) -> RecordedLap | None:
    """The quickest lap of an agent; None where none completed one."""
    return next((one.lap for one in race.standings if one.kind == AGENT and one.lap is not None), None)


def print_race(console: Console, race: Race, files: Mapping[str, Path]) -> None:
    """The leaderboard, and where the files are."""
    reference = race.reference.lap_time
    title = f"{race.track.name}, {race.car}: reference lap {format_lap_time(reference)}"
    table = Table(title=title)
    for name in ("", "driver", "best lap", "delta", "ratio", "mean lap", "finished", "off"):
        table.add_column(name, justify="left" if name == "driver" else "right", overflow="fold")
    for place, standing in enumerate(race.standings, start=1):
        lap = standing.lap
        timed = ("no lap", "", "", "")
        if lap is not None:
            delta, ratio = f"{lap.lap_time - reference:+.3f}", f"{lap.lap_time / reference:.4f}"
            timed = (format_lap_time(lap.lap_time), delta, ratio, format_lap_time(standing.mean_lap))
        finished, off_track = f"{standing.finished}/{standing.starts}", f"{standing.off_track:.1f} s"
        name = standing.name if standing.kind != PERSON else f"{standing.name} (person)"
        table.add_row(str(place), name, *timed, finished, off_track)
    console.print(table)
    for name, file in files.items():
        console.print(f"{name}: {file}", highlight=False, soft_wrap=True)
    for sentence in [*race.unseen.values(), *_advice(race)]:
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)
    step = printable(_next_step(race, files["page"]))
    console.print(f"Next: {step}", markup=False, highlight=False, soft_wrap=True)


def _advice(race: Race) -> list[str]:
    """For agents that did not get round a track which they never saw."""
    failed = [one for one in race.standings if one.name in race.unseen and one.kind == AGENT and one.finished == 0]
    return [unseen_advice(race.track.name)] if failed else []


def _next_step(race: Race, page: Path) -> str:
    steps = [f"open {page} in a browser"]
    environment = saved_environment(race.home)
    if best_agent_lap(race) is None:
        if race.unseen:
            steps.append(f"race it where it was trained with --track {own_track(environment)}")
        else:
            steps.append(f"train longer with paddock train --resume {race.home}")
    else:
        steps.append(f"race against it yourself with paddock drive --against {race.home} --track {race.track.name}")
        if is_for_any_track(environment):
            steps.append("race on another circuit with --track serpent")
    return ", or ".join([", ".join(steps[:-1]), steps[-1]]) if len(steps) > 1 else steps[0]
