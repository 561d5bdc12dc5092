"""The page beside a command that runs something: a dashboard in a process of its own, for as long as the command."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def page_beside(run: str, runs_dir: Path, *options: str) -> Iterator[None]:
    """A dashboard that shows a run; it closes with the command."""
    command = ["dashboard", run, "--runs-dir", str(runs_dir), *options]
    page = subprocess.Popen([sys.executable, "-P", "-m", "paddock", *command], stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        page.terminate()
        page.wait()
