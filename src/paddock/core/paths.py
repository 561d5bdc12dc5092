"""Where a person's own things live: imported tracks, the key that signs runs, what is worth keeping between runs."""

from __future__ import annotations

import os
from pathlib import Path


def paddock_home() -> Path:
    """`$PADDOCK_HOME`, or `~/.paddock` when that is not set."""
    home = os.environ.get("PADDOCK_HOME")
    return Path(home).expanduser() if home else Path.home() / ".paddock"
