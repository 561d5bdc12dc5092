"""Everything about one run: what it is, how its configuration differs from its experiment, curves, phases, events."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from paddock.core.errors import InputError
from paddock.core.files import folder_size
from paddock.core.mappings import flatten
from paddock.core.reading import read_json
from paddock.core.results import result_files
from paddock.core.trust import MARK, is_marked
from paddock.experiments.display import STYLES, age, duration, make_console, make_table, markup, number, size
from paddock.experiments.run import RunFolder
from paddock.experiments.store.store import UNCOUNTED
from paddock.experiments.store.summaries import (
    NOT_THE_RECIPE,
    RunSummary,
    as_of_now,
    log_damage,
    read_summary,
    readable,
    with_damage,
)
from paddock.experiments.terminal_plot import plot, sparkline

PERSONAL = ("name", "runs_dir", "tags", "schema_version")
SHOWN_EVENTS = 12
MOST_PARTS = 200  # files beside a run's own ones that are looked at
LARGEST = 64 * 2**20  # bytes of one of them


def describe_run(run: RunFolder) -> dict[str, Any]:
    """A run as plain values. What cannot be read is left out, and a sentence of `damage` says so."""
    summary, damage = read_summary(run), part_damage(run)
    manifest = readable(run.read_manifest, []) or {}
    logged, noted = readable(run.metric_lines, damage), readable(run.event_lines, damage)
    rows = logged[0] if logged else []
    damage += log_damage(summary, run.metrics_file, logged[1]) if logged else []
    damage += log_damage(summary, run.events_file, noted[1]) if noted else []
    summary = as_of_now(with_damage(summary, damage), run)
    curves = _curves(rows)
    return {
        "run": run.name,
        "path": str(run.path),
        "status": summary.status,
        "damage": list(summary.damage),
        "name": summary.name,
        "id": summary.id,
        "algorithm": summary.algorithm,
        "environment": summary.environment,
        "seed": summary.seed,
        "tags": list(summary.tags),
        "pinned": summary.is_pinned,
        "metric": summary.metric,
        "manifest": manifest,
        "size": folder_size(run.path),
        "agent_steps": rows[-1]["agent_steps"] if rows else summary.agent_steps,
        "seconds": rows[-1]["seconds"] if rows else summary.seconds,
        "config_differences": config_differences(manifest.get("origin"), summary),
        "metrics": {
            name: {"last": y[-1], "low": min(y), "high": max(y), "points": len(y)} for name, (_, y) in curves.items()
        },
        "curves": {name: {"agent_steps": x, "value": y} for name, (x, y) in curves.items()},
        "events": noted[0] if noted else [],
    }


def config_differences(origin: Mapping[str, Any] | None, summary: RunSummary) -> dict[str, list[Any]] | None:
    """Options by key, as [in the experiment, in this run]; None where either is not known or no more there."""
    from paddock.config.compose import compose

    if not origin or not summary.config:
        return None
    experiment, user, overrides = (origin.get(key) for key in ("experiment", "user", "overrides"))
    # A file outside the run is read where this user named it, not where a manifest from elsewhere does.
    if user and not is_marked({key: origin[key] for key in origin if key != MARK}, origin.get(MARK)):
        return None
    try:
        written = dict(flatten(compose(experiment, user=Path(user) if user else None).values))
    except (InputError, OSError, TypeError):
        return None
    changed = [str(text).partition("=")[0].lstrip("+~") for text in overrides or []]
    differences = {}
    for key, value in summary.config.items():
        if key.split(".")[0] in PERSONAL:
            continue
        if key in written:
            if written[key] != value:
                differences[key] = [written[key], value]
        elif value not in (None, []) and any(key == name or key.startswith(name + ".") for name in changed):
            differences[key] = [None, value]
    return differences


def show_run(values: Mapping[str, Any], *, width: int | None = None) -> None:
    """Print a described run."""
    console = make_console()
    wide = min(width or console.width, 100)
    manifest = values["manifest"]
    style = STYLES.get(values["status"], "default")
    pinned = "  [yellow]◆ pinned[/]" if values["pinned"] else ""
    console.print(f"[bold]{markup(values['run'])}[/]  [{style}]{markup(values['status'])}[/]{pinned}")
    for sentence in [*values["damage"], *([manifest["error"]] if manifest.get("error") else [])]:
        console.print(f"  [red]{markup(sentence)}[/]", soft_wrap=True)
    for label, text in _facts(values):
        console.print(f"  [dim]{label:<12}[/]{markup(text)}", soft_wrap=True)
    _show_differences(console, values)
    _show_phases(console, values["events"])
    _show_curves(console, values, wide)
    _show_metrics(console, values)
    _show_events(console, values["events"])


def part_damage(run: RunFolder) -> list[str]:
    """Sentences about files beside the run's own ones that cannot be read: results, policies, checkpoints."""
    folders = [(folder, "checkpoint.json") for folder in sorted(run.checkpoints.glob("step-*"))]
    files = [folder / name for folder, name in [*folders, (run.path, "channel.json")]]
    files += result_files(run.path) + sorted(run.policy.glob("*/*.json"))
    files = [file for file in files if os.path.lexists(file)]
    damage: list[str] = []
    for file in files[:MOST_PARTS]:
        readable(partial(read_json, file, limit=LARGEST), damage)
    return damage


def _curves(rows: list[dict[str, Any]]) -> dict[str, tuple[list[int], list[float]]]:
    """Agent steps and values of each metric, where there are any."""
    found: dict[str, tuple[list[int], list[float]]] = {}
    for row in rows:
        for name, value in row.items():
            if name not in UNCOUNTED and isinstance(value, int | float) and math.isfinite(value):
                x, y = found.setdefault(name, ([], []))
                x.append(row["agent_steps"])
                y.append(value)
    return found


def _facts(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    manifest = values["manifest"]
    git, hardware = manifest.get("git") or {}, manifest.get("hardware") or {}
    dirty = " (with uncommitted changes)" if git.get("dirty") else ""
    commit = f"{git['commit'][:10]}{dirty}" if git.get("commit") else "unknown"
    versions = ", ".join(f"{name} {version}" for name, version in (manifest.get("versions") or {}).items())
    work = f"{number(values['agent_steps'])} steps in {duration(values['seconds'])}"
    return [
        (
            "what",
            f"{values['algorithm'] or '?'} on {values['environment'] or '?'}, seed {number(values['seed']) or '?'}",
        ),
        ("work", f"{work}, {size(values['size'])} on disk"),
        ("started", f"{manifest.get('created', '?')} ({age(manifest.get('created', ''))} ago)"),
        ("command", " ".join(["paddock", *manifest.get("command", ["?"])[1:]])),
        ("commit", commit),
        ("machine", f"{hardware.get('processor', '?')}, {hardware.get('cores', '?')} cores"),
        ("versions", versions),
        ("tags", " ".join(values["tags"]) or "none"),
    ]


def _show_differences(console: Any, values: Mapping[str, Any]) -> None:
    differences = values["config_differences"]
    origin = (values["manifest"].get("origin") or {}).get("experiment")
    if differences is None:
        console.print("\n[bold]Configuration[/]: how it differs from its experiment is not known.")
        return
    name = markup(origin or "its file")
    if not differences:
        console.print(f"\n[bold]Configuration[/]: as in {name}.")
        return
    console.print(f"\n[bold]Configuration[/], where it differs from {name}")
    for key, (before, after) in differences.items():
        is_plain = key.split(".")[0] in NOT_THE_RECIPE
        style = "dim" if is_plain else "cyan"
        console.print(f"  [{style}]{markup(key)}[/]  {markup(before)} → {markup(after)}", soft_wrap=True)


def _show_phases(console: Any, events: list[dict[str, Any]]) -> None:
    phases = [event for event in events if event["event"] == "phase"]
    if phases:
        parts = [f"{event.get('phase')} from step {number(event.get('agent_steps'))}" for event in phases]
        console.print(f"\n[bold]Phases[/]  {markup(' → '.join(parts))}")


def _show_curves(console: Any, values: Mapping[str, Any], width: int) -> None:
    for name in dict.fromkeys((values["metric"], "collect/return")):
        curve = values["curves"].get(name)
        if not curve or len(curve["value"]) < 2:
            continue
        if min(curve["value"]) == max(curve["value"]):
            points = f"{number(curve['value'][0])} at all {len(curve['value'])} points"
            console.print(f"\n[bold]{markup(name)}[/]  {points}")
        else:
            console.print(f"\n[bold]{markup(name)}[/] over agent steps")
            for line in plot(curve["agent_steps"], curve["value"], width=width - 16):
                console.print(f"  {line}", soft_wrap=True)


def _show_metrics(console: Any, values: Mapping[str, Any]) -> None:
    if not values["metrics"]:
        console.print("\nNothing has been logged yet.")
        return
    rows = [
        [name, number(one["last"]), number(one["low"]), number(one["high"]), sparkline(values["curves"][name]["value"])]
        for name, one in sorted(values["metrics"].items())
    ]
    console.print()
    console.print(make_table(["metric", ">last", ">lowest", ">highest", "curve"], rows))


def _show_events(console: Any, events: list[dict[str, Any]]) -> None:
    if not events:
        return
    shown = events[-SHOWN_EVENTS:]
    left_out = f", the last {len(shown)} of {len(events)}" if len(shown) < len(events) else ""
    console.print(f"\n[bold]Events[/]{left_out}")
    for event in shown:
        details = {key: value for key, value in event.items() if key not in ("time", "event") and value is not None}
        text = "  ".join(
            f"{key} {number(value) if isinstance(value, float) else value}" for key, value in details.items()
        )
        when = markup(event["time"][:19].replace("T", " "))
        line = f"  [dim]{when}[/] [bold]{markup(event['event'])}[/]  {markup(text)}"
        console.print(line, no_wrap=True, overflow="ellipsis")
