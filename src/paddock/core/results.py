"""Where a run's folder keeps the results of evaluations, and what their files are called, today and in older runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from paddock.core.reading import read_json

FOLDER, FORMER_FOLDER = "results", "judgements"
TRACES, FORMER_TRACES = "traces", "evidence"  # keys of what an evaluator kept of the laps that it saw
DRIVES = "drives"
LARGEST_RESULT = 64 * 2**20  # bytes; laps and heat maps of hundreds of tracks


def results_folder(run: Path) -> Path:
    """The folder that new results are written to."""
    return run / FOLDER


def drives_folder(run: Path) -> Path:
    """The folder of what each evaluated policy drove."""
    return run / FOLDER / DRIVES


def result_file(run: Path, name: str) -> Path:
    """The file of the result `name` (latest, best, ...): where it is, or where it would be."""
    places = [run / folder / f"{name}.json" for folder in (FOLDER, FORMER_FOLDER)]
    return next((file for file in places if os.path.lexists(file)), places[0])


def result_files(run: Path) -> list[Path]:
    """Every result there is."""
    return [file for folder in (FOLDER, FORMER_FOLDER) for file in sorted((run / folder).glob("*.json"))]


def read_result(file: Path) -> Any:
    """What a result's file says, with the keys of today."""
    values = read_json(file, limit=LARGEST_RESULT)
    if isinstance(values, dict) and FORMER_TRACES in values:
        values.setdefault(TRACES, values.pop(FORMER_TRACES))
    return values
