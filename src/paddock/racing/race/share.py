"""A race to send to others: one HTML file with the circuit and the laps, which plays them and needs nothing else.

Nothing here drives: the pit wall makes the page from laps that are kept, and imports neither torch nor the simulator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paddock import __version__
from paddock.core.errors import InputError
from paddock.experiments.report.report import page_text
from paddock.racing.laps.replays import Drive, as_replay, replay_step
from paddock.render.web import bundled_script, palette, style

MOST_LAPS = 16
LARGEST_PAGE = 2_000_000  # bytes; what mail servers take without asking


def share_page(title: str, scene: Mapping[str, Any], drives: Sequence[Drive]) -> str:
    """The page's text. scene: `track`, `car` and `reference` as a page draws them; drives: the first ones count."""
    assert drives, "nothing to play"
    chosen = [*drives[:MOST_LAPS]]
    if (reference := _reference(scene.get("reference"))) is not None:
        chosen.append(reference)
    step = replay_step(chosen)
    data = {
        "title": title,
        "length": scene["track"]["length"],
        "car": scene["car"]["name"],
        "reference": reference.lap_time if reference is not None else None,
        "scene": {"track": scene["track"], "car": scene["car"], "reference": scene.get("reference")},
        "laps": [as_replay(drive, step) for drive in chosen],
        "version": __version__,
    }
    css = palette() + style("replay.css") + style("share.css")
    text = page_text(title=title, data=data, style=css, code=bundled_script("share.js"))
    if len(text.encode()) > LARGEST_PAGE:
        raise InputError(f"the page would have more than {LARGEST_PAGE:,} bytes; share fewer or shorter laps.")
    return text


def check_share(file: Path | None) -> None:
    """Refuse a name that a browser would not open, before anything is driven."""
    if file is not None and file.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--share is '{file}'; the page is HTML, so its name ends with .html.")


def _reference(drawn: Mapping[str, Any] | None) -> Drive | None:
    if drawn is None:
        return None
    lap_time = float(drawn["lap_time"])
    samples = {name: drawn[name] for name in ("time", "x", "y", "heading")}
    return Drive("Reference lap", "reference", lap_time, lap_time, samples, tuple(drawn["sectors"]))
