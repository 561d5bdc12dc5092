"""Where the real circuits for trying the importer lie: beside the repository, never inside it."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "shared" / "tracks"
NAMES = ("Budapest", "Monza", "Norisring", "Silverstone", "Spielberg", "Zandvoort")

needs_real_circuits = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"the real circuits are not part of the repository; none found in {FOLDER}"
)


def real_circuit(name: str) -> str:
    """The path of one of them."""
    return str(FOLDER / f"{name}.csv")
