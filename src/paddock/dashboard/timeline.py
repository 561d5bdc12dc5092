"""What the kept policies of a run drove, for the page: the list, one evaluation, a road, and the replay to send."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from paddock.core.reading import DamagedError
from paddock.core.results import drives_folder
from paddock.dashboard.errors import Refused
from paddock.experiments.run import RunFolder
from paddock.orchestration.policies import list_policies
from paddock.racing.laps.archive import MOST_KEPT, KeptEvaluation, kept_steps, read_evaluation, read_road
from paddock.racing.race.share import share_page

MOST_SHARED = 8
MOST_LISTED = 2 * MOST_KEPT  # a folder from elsewhere may hold any number of files


def timeline(run: RunFolder) -> list[dict[str, Any]]:
    """Every evaluation whose drives are kept, oldest first, with the names of the policies that are kept of it."""
    folder = drives_folder(run.path)
    names: dict[int, list[str]] = {}
    for policy in list_policies(run.policy):
        names.setdefault(policy["agent_steps"], []).append(policy["name"])
    found = []
    for steps in kept_steps(folder)[-MOST_LISTED:]:
        try:
            changed = (folder / f"step-{steps:012d}.json").lstat().st_mtime_ns
            drives = _summary(folder, steps, changed)
        except (DamagedError, OSError):
            continue
        found.append({"agent_steps": steps, "policies": names.get(steps, []), "drives": drives})
    return found


@lru_cache(maxsize=2048)
def _summary(folder: Path, steps: int, changed: int) -> list[dict[str, Any]]:
    """As of one moment of change: the page asks after every evaluation."""
    kept = read_evaluation(folder, steps)
    keys = ("road", "track", "lap_time", "duration")
    return [{key: getattr(drive, key) for key in keys} for drive in kept.drives]


def evaluation(run: RunFolder, given: str) -> Any:
    """What the policy of one step drove, as a page plays it."""
    return msgspec.to_builtins(_evaluation(run, given))


def road(run: RunFolder, key: str) -> Any:
    """A road on which drives of this run took place; a key from outside is only compared with those that are there."""
    folder = drives_folder(run.path)
    if f"road-{key}.json" not in {file.name for file in folder.glob("road-*.json")}:
        raise Refused("there is no such road in this run.", 404)
    try:
        return msgspec.to_builtins(read_road(folder, key))
    except (DamagedError, AssertionError) as error:
        raise Refused(f"the road cannot be shown: {error}", 409) from error


def shared_page(run: RunFolder, steps: list[str], track: str | None) -> str:
    """The drives of some policies on one road as a page that plays them; without steps the best lap of the run."""
    kept = timeline(run)
    chosen = steps[:MOST_SHARED] or [str(one["agent_steps"]) for one in _best(kept, track)]
    if not chosen:
        raise Refused("this run has no stored laps to share; newer runs store them at each evaluation.", 404)
    found = []
    for one in chosen:
        for drive in _evaluation(run, one).drives:
            if track in (None, drive.track):
                found.append((int(one), drive))
                break
    if not found:
        raise Refused(f"nothing was driven on '{str(track)[:80]}' by these policies.", 404)
    first = found[0][1]
    drives = [drive.drive(f"{run.name}, step {step:,}") for step, drive in found if drive.road == first.road]
    return share_page(f"{run.name} on {first.track}", road(run, first.road), drives)


def shared_race(run: RunFolder) -> str:
    """The best lap of every driver of a driving session as a page that plays them."""
    folder = drives_folder(run.path)
    if not kept_steps(folder):
        raise Refused("nobody has completed a lap in this drive yet; there is nothing to share.", 404)
    drives = _evaluation(run, str(kept_steps(folder)[0])).drives
    found = [drive.drive(drive.driver) for drive in drives]
    return share_page(f"Race on {drives[0].track}", road(run, drives[0].road), found)


def _best(kept: list[dict[str, Any]], track: str | None) -> list[dict[str, Any]]:
    """The evaluation with the quickest lap, or the last one where no lap was completed."""
    timed = [
        (drive["lap_time"], one["agent_steps"], one)
        for one in kept
        for drive in one["drives"]
        if drive["lap_time"] is not None and track in (None, drive["track"])
    ]
    return [min(timed)[2]] if timed else kept[-1:]


def _evaluation(run: RunFolder, given: str) -> KeptEvaluation:
    folder = drives_folder(run.path)
    if not (given.isascii() and given.isdigit()) or len(given) > 12 or int(given) not in kept_steps(folder):
        raise Refused(f"no drive is stored of step '{given[:20]}' of this run.", 404)
    try:
        return read_evaluation(folder, int(given))
    except DamagedError as error:
        raise Refused(f"the drive cannot be shown: {error}", 409) from error
