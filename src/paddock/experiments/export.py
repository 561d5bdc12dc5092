"""Runs as files for other programs: every logged point, a row a run, or a row a group with intervals."""

from __future__ import annotations

import csv
import io
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paddock.core.errors import InputError, unknown_choice
from paddock.core.lazy import require
from paddock.core.reading import DamagedError
from paddock.experiments.compare.compare import aggregates, compare, warnings
from paddock.experiments.compare.table import TITLES
from paddock.experiments.display import number
from paddock.experiments.run import RunFolder
from paddock.experiments.store.summaries import as_of_now, read_summary, readable_runs

log = logging.getLogger(__name__)

FORMATS = ("csv", "json", "latex", "markdown", "parquet")
TABLES = ("groups", "points", "runs")
LATEX = str.maketrans({c: f"\\{c}" for c in "&%$#_{}"})
FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")  # what a cell begins with that spreadsheets calculate
Rows = list[dict[str, Any]]


def export_rows(
    runs_dir: Path, given: Sequence[str], table: str, metrics: Sequence[str], group_by: Sequence[str]
) -> Rows:
    """The rows of a table: `points` (as logged), `runs` (final values) or `groups` (aggregates with intervals)."""
    if table not in TABLES:
        raise unknown_choice("table", table, TABLES)
    if table == "groups":
        comparison = compare(runs_dir, given, metrics=metrics, group_by=group_by)
        found = aggregates(comparison)
        for sentence in warnings(comparison):
            log.warning("%s", sentence)
        return [{"group": one.label, "runs": len(one.members), **_flat(found[one.label])} for one in comparison.groups]
    named = {run.path: run for text in given for run in RunFolder.find_all(runs_dir, text)}
    runs, sentences = readable_runs(list(named.values()))
    for sentence in sentences:
        log.warning("%s", sentence)
    rows = [row for run in runs for row in (_points(run) if table == "points" else [_run(run)])]
    if metrics:
        kept = [name for name in _columns(rows) if "/" not in name or name in metrics]
        if missing := [name for name in metrics if name not in kept]:
            known = sorted(name for name in _columns(rows) if "/" in name)
            raise unknown_choice("metric", missing[0], known)
        rows = [{name: row[name] for name in kept if name in row} for row in rows]
    return rows


def write_rows(rows: Rows, format: str, file: Path | None) -> str | None:
    """The text of the rows, or the file written; parquet is always a file."""
    if format not in FORMATS:
        raise unknown_choice("format", format, FORMATS)
    if format == "parquet":
        if file is None:
            raise InputError("parquet is not text; say where to write it with --output FILE.")
        _write_parquet(rows, file)
        return None
    text = {"csv": _csv, "json": _json, "latex": _latex, "markdown": _markdown}[format](rows)
    if file is None:
        return text
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return None


def _points(run: RunFolder) -> Rows:
    seed = run.read_manifest().get("seed")
    return [{"run": run.name, "seed": seed, **row} for row in _logged(run)]


def _run(run: RunFolder) -> dict[str, Any]:
    summary = as_of_now(read_summary(run), run)
    latest: dict[str, Any] = {}
    for row in _logged(run):
        latest |= {name: value for name, value in row.items() if "/" in name and value is not None}
    names = ("status", "algorithm", "environment", "seed", "agent_steps", "seconds", "git_commit")
    return {"run": run.name, **{name: getattr(summary, name) for name in names}, **latest}


def _logged(run: RunFolder) -> Rows:
    """The logged points; none, and a warning, where their file cannot be read."""
    try:
        return run.read_metrics()
    except DamagedError as error:
        log.warning("%s", error)
        return []


def _flat(estimates: Mapping[str, Mapping[str, float | None] | None]) -> dict[str, float | None]:
    flat: dict[str, float | None] = {}
    for name, one in estimates.items():
        value, low, high = (one["value"], one["low"], one["high"]) if one else (None, None, None)
        flat |= {name: value, f"{name}_low": low, f"{name}_high": high}
    return flat


def _columns(rows: Rows) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _csv(rows: Rows) -> str:
    buffer = io.StringIO()
    columns = _columns(rows)
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows([_inert(name) for name in columns] for _ in range(1))
    writer.writerows([_inert(row.get(name)) for name in columns] for row in rows)
    return buffer.getvalue()


def _inert(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: text that begins like one gets an apostrophe before it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULAS) else value


def _json(rows: Rows) -> str:
    return json.dumps(rows, indent=2) + "\n"


def _cells(rows: Rows) -> tuple[list[str], list[list[str]]]:
    """Headings and cells for reading: an interval stands behind its value."""
    ends = {f"{aggregate}_{end}" for aggregate in TITLES for end in ("low", "high")}
    joined = [name for name in _columns(rows) if name not in ends]
    body = [[_cell(row, name) for name in joined] for row in rows]
    return [TITLES.get(name, name.replace("_", " ")) for name in joined], body


def _cell(row: dict[str, Any], name: str) -> str:
    text = number(row.get(name))
    if text and row.get(f"{name}_low") is not None:
        return f"{text} [{number(row[f'{name}_low'])}, {number(row[f'{name}_high'])}]"
    return text


def _markdown(rows: Rows) -> str:
    heads, body = _cells(rows)
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *body]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _latex(rows: Rows) -> str:
    """A booktabs table."""
    heads, body = _cells(rows)
    lines = [" & ".join(cell.translate(LATEX) for cell in line) + r" \\" for line in [heads, *body]]
    begin = rf"\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}"
    return "\n".join([begin, r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule", r"\end{tabular}", ""])


def _write_parquet(rows: Rows, file: Path) -> None:
    pyarrow = require("pyarrow", extra="parquet", purpose="writing parquet")
    parquet = require("pyarrow.parquet", extra="parquet", purpose="writing parquet")
    columns = {name: [row.get(name) for row in rows] for name in _columns(rows)}
    file.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.table(columns), file)
