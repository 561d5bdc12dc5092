"""A race on one page: leaderboard, picture, film and learning curve in a single HTML file that needs nothing else."""

from __future__ import annotations

import base64
from html import escape
from io import BytesIO
from pathlib import Path

import numpy as np

from paddock.experiments.run import RunFolder
from paddock.racing.race.picture import race_picture
from paddock.racing.race.race import Race
from paddock.render.lap_time import format_lap_time

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1c2228; background: #fafaf7; margin: 2rem auto; max-width: 1100px;
       padding: 0 1rem; }
h1 { margin: 0; } p.facts { color: #707680; margin-top: .2rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0 2rem; }
th { color: #707680; font-weight: normal; border-bottom: 2px solid #dee0dc; }
th, td { padding: .4rem .6rem; text-align: right; } th:nth-child(-n+3), td:nth-child(-n+3) { text-align: left; }
img, video, svg { width: 100%; border-radius: 8px; } td.time { font-weight: bold; }
pre { background: #1c2228; color: #eee; padding: 1rem; border-radius: 8px; overflow-x: auto; }
"""


def write_page(file: Path, race: Race, *, video: Path | None = None, run: RunFolder | None = None) -> None:
    """Write the page; `run` adds its learning curve and what to do next."""
    picture = BytesIO()
    race_picture(race.track, race.reference, race.standings, car=race.car).to_image().save(picture, "PNG")
    film = (
        f'<video controls autoplay muted loop src="{_data("video/mp4", video.read_bytes())}"></video>' if video else ""
    )
    facts = (
        f"{race.track.length:,.0f} m, car {escape(race.car)}, reference lap {format_lap_time(race.reference.lap_time)}"
    )
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>Race on {escape(race.track.name)}</title><style>{STYLE}</style>",
        f"<h1>Race on {escape(race.track.name)}</h1><p class=facts>{facts}</p>",
        _table(race),
        f"<h2>The lap</h2>{film}" if film else "",
        f"<h2>Lines and deltas</h2><img alt='Lines by speed' src='{_data('image/png', picture.getvalue())}'>",
        _learning(run) if run is not None else "",
        _next(run) if run is not None else "",
        "</html>",
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(part for part in parts if part), encoding="utf-8")


def _data(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _table(race: Race) -> str:
    heads = ("", "driver", "kind", "best lap", "to reference", "ratio", "mean lap", "finished", "off track")
    rows = []
    for place, standing in enumerate(race.standings, start=1):
        lap, reference = standing.lap, race.reference.lap_time
        timed = ("no lap", "", "", "")
        if lap is not None:
            mean = format_lap_time(standing.mean_lap)
            delta = f"{lap.lap_time - reference:+.3f} s"
            timed = (format_lap_time(lap.lap_time), delta, f"{lap.lap_time / reference:.4f}", mean)
        cells = (
            f"<td>{place}</td><td>{escape(standing.name)}</td><td>{standing.kind}</td><td class=time>{timed[0]}</td>"
            + "".join(f"<td>{text}</td>" for text in timed[1:])
            + f"<td>{standing.finished}/{standing.starts}</td><td>{standing.off_track:.1f} s</td>"
        )
        rows.append(f"<tr>{cells}</tr>")
    return f"<table><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>{''.join(rows)}</table>"


def _learning(run: RunFolder) -> str:
    """Best lap over reference against the seconds of training, as an SVG."""
    points = [
        (row["seconds"], row["eval/best_ratio"]) for row in run.read_metrics() if row.get("eval/best_ratio") is not None
    ]
    if len(points) < 2:
        return ""
    seconds, ratios = np.array(points).T
    width, height, left, low = 1000.0, 260.0, 60.0, min(1.0, float(ratios.min())) - 0.02
    high = max(float(ratios.max()), 1.1)
    x = left + seconds / seconds[-1] * (width - left - 20)
    y = 20 + (high - np.array([*ratios, 1.0])) / (high - low) * (height - 50)
    grey = 'font-size="13" fill="#707680"'
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y[:-1], strict=True))
    dots = "".join(
        f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4" fill="#d63031"/><text x="{a:.1f}" y="{b - 9:.1f}" font-size="12" '
        f'text-anchor="middle" fill="#707680">{ratio:.3f}</text>'
        for a, b, ratio in zip(x, y[:-1], ratios, strict=True)
    )
    level = f"{y[-1]:.1f}"
    return (
        "<h2>Learning</h2><p class=facts>Best flying lap / reference lap over seconds of training.</p>"
        f'<svg viewBox="0 0 {width:g} {height:g}">'
        f'<line x1="{left}" x2="{width}" y1="{level}" y2="{level}" stroke="#909890" stroke-dasharray="5"/>'
        f'<text x="0" y="{level}" {grey}>reference</text>'
        f'<polyline points="{path}" fill="none" stroke="#d63031" stroke-width="2.5"/>{dots}'
        f'<text x="{width}" y="{height - 4}" text-anchor="end" {grey}>{seconds[-1]:.0f} s</text></svg>'
    )


def next_commands(run: RunFolder) -> list[str]:
    """What to type after a race."""
    steps = run.read_manifest().get("agent_steps") or 1
    return [
        f"paddock evaluate {run.path} --track serpent     # an unseen circuit",
        f"paddock train --resume {run.path} training.total_steps={5 * steps} training.max_seconds=300",
        "paddock train racing reward=racing_line reward.time_pressure.weight=0.8   # a reward of your own",
        "paddock train --list",
    ]


def _next(run: RunFolder) -> str:
    return f"<h2>Next</h2><pre>{escape(chr(10).join(next_commands(run)))}</pre>"
