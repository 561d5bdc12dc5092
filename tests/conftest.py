"""What several tests use: runs made in a temporary folder, and the command line as a person runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SHARED_TRACKS = Path(__file__).parents[2] / "shared" / "tracks"


@pytest.fixture
def paddock(tmp_path):
    """Run `paddock ARGUMENTS` in a folder of its own; gives the completed process."""

    def run(*arguments: str, timeout: float = 240, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "paddock", *arguments],
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "200", **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run
