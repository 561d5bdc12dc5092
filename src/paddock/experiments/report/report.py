"""The comparison report: one HTML file that needs nothing else. Python gathers the data, the page draws it."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

from paddock import __version__
from paddock.experiments.compare.compare import (
    EMPTY,
    Comparison,
    Group,
    Member,
    aggregates,
    bands,
    config_table,
    improvements,
    profiles,
    rounded,
    tasks_of,
    warnings,
)
from paddock.experiments.compare.laps import compared_laps
from paddock.experiments.display import duration
from paddock.render.web import inlined_scripts, palette

log = logging.getLogger(__name__)

ASSETS = Path(__file__).parent / "page"
SEED_LINES = 40  # runs up to which each one's own curve is drawn


def write_report(file: Path, comparison: Comparison) -> Path:
    """Write the page and give its path."""
    data = report_data(comparison)
    return write_page(file, title=data["title"], data=data, scripts=["charts.js", "maps.js", "report.js"])


def write_page(file: Path, *, title: str, data: Mapping[str, Any], scripts: Sequence[str]) -> Path:
    """One file with its style, its scripts and its data."""
    style = palette() + (ASSETS / "page.css").read_text(encoding="utf-8")
    code = "\n".join([inlined_scripts(), *((ASSETS / name).read_text(encoding="utf-8") for name in scripts)])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page_text(title=title, data=data, style=style, code=code), encoding="utf-8")
    return file


def page_text(*, title: str, data: Mapping[str, Any], style: str, code: str) -> str:
    """A page in a single file. A policy in it forbids every request, and every script but this one, by its hash."""
    script = f"\n'use strict';\n{code}"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; media-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<link rel="icon" href="data:,">',
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>",
        '<main id="page"></main>',
        f'<script id="data" type="application/json">{script_json(data)}</script>',
        f"<script>{script}</script>\n</body>\n</html>\n",
    ]
    return "\n".join(parts)


def script_json(data: Mapping[str, Any]) -> str:
    """JSON that may stand in a script element: no `<` that could end the element or begin another one."""
    try:
        text = json.dumps(data, separators=(",", ":"), allow_nan=False, default=str)
    except ValueError:  # A number beyond all bounds.
        text = json.dumps(_finite(data), separators=(",", ":"), default=str)
    return text.replace("<", "\\u003c")


def _finite(value: Any) -> Any:
    """The same with None for what is not a finite number."""
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def report_data(comparison: Comparison) -> dict[str, Any]:
    """Everything that the page shows, as plain values."""
    labels = [group.label for group in comparison.groups]
    laps, damage = compared_laps(comparison)
    for sentence in damage:
        log.warning("%s", sentence)
    return {
        "title": " vs ".join(labels) if len(labels) <= 3 else f"{len(labels)} groups compared",
        "written": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M"),
        "version": __version__,
        "metric": comparison.metric,
        "metrics": comparison.metrics,
        "which": comparison.which,
        "is_lower_better": comparison.is_lower_better,
        "is_normalised": comparison.is_normalised,
        "tasks": comparison.tasks,
        "ranges": {
            task: list(ends) for task, ends in comparison.ranges.items() if task not in comparison.not_comparable
        },
        "warnings": [*warnings(comparison), *damage],
        "groups": [_group(group, comparison) for group in comparison.groups],
        "aggregates": aggregates(comparison),
        "profiles": profiles(comparison),
        "improvements": improvements(comparison),
        "config": config_table(comparison),
        "protocol": _protocol(comparison.members),
        "laps": laps,
    }


def _group(group: Group, comparison: Comparison) -> dict[str, Any]:
    has_lines = len(comparison.members) <= SEED_LINES
    curves = {}
    for metric in comparison.metrics:
        found = {axis: bands(group, metric, axis) for axis in ("steps", "seconds")}
        lines = [_line(member, metric) for member in group.members] if has_lines else []
        curves[metric] = {**found, "lines": [line for line in lines if line]}
    is_scored = bool(tasks_of(group))
    return {
        "label": group.label,
        "is_scored": is_scored,
        "runs": [_run(member) for member in group.members],
        "curves": curves,
    }


def _line(member: Member, metric: str) -> dict[str, Any] | None:
    curve = member.curves.get(metric, EMPTY).thinned(120)
    if curve.is_empty:
        return None
    columns = {"steps": curve.steps, "seconds": curve.seconds, "value": curve.value}
    return {"seed": member.summary.seed} | {name: rounded(column) for name, column in columns.items()}


def _run(member: Member) -> dict[str, Any]:
    record, manifest = member.summary, member.manifest
    final = {name: float(curve.value[-1]) for name, curve in member.curves.items() if not curve.is_empty}
    return {
        "run": record.folder,
        "status": record.status,
        "task": record.environment,
        "seed": record.seed,
        "score": member.score,
        "final": final,
        "steps": manifest.get("agent_steps"),
        "time": duration(record.seconds),
        "commit": (record.git_commit or "")[:10] + ("+" if record.is_dirty else ""),
    }


def _protocol(members: Sequence[Member]) -> list[dict[str, Any]]:
    """How the runs were evaluated and where they ran: each fact with the values found and how many runs had them."""
    facts: dict[str, Counter[str]] = {}
    for member in members:
        for name, value in _facts(member).items():
            facts.setdefault(name, Counter())[value] += 1
    return [{"name": name, "values": counts.most_common()} for name, counts in facts.items()]


def _facts(member: Member) -> dict[str, str]:
    config, manifest = member.summary.config, member.manifest
    git, hardware = manifest.get("git") or {}, manifest.get("hardware") or {}
    versions = manifest.get("versions") or {}
    dirty = ", with uncommitted changes" if git.get("dirty") else ""
    return {
        "Episodes an evaluation": str(config.get("evaluation.episodes")),
        "Seed of evaluations": str(config.get("evaluation.seed")),
        "Deterministic actions": "yes" if config.get("evaluation.deterministic") else "no",
        "Evaluator": str(config.get("evaluation.evaluator._target_") or "whole episodes"),
        "Seed of training": str(member.summary.seed),
        "Commit": f"{git['commit'][:12]}{dirty}" if git.get("commit") else "not in a repository",
        "Processor": f"{hardware.get('processor', '?')}, {hardware.get('cores', '?')} cores",
        "Device": str(config.get("device")),
        "Versions": ", ".join(f"{name} {version}" for name, version in versions.items()) or "unknown",
    }
