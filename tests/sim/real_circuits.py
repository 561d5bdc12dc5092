"""Where the real circuits for trying the importer lie: beside the repository, never inside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("PADDOCK_REAL_CIRCUITS") or Path(__file__).parents[3] / "shared" / "tracks")
NAMES = ("Budapest", "Monza", "Norisring", "Silverstone", "Spielberg", "Zandvoort")
ALL_NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.csv")))  # whatever else of the database is there

needs_real_circuits = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"the real circuits are not part of the repository; none found in {FOLDER}"
)


def real_circuit(name: str) -> str:
    """The path of one of them."""
    return str(FOLDER / f"{name}.csv")
