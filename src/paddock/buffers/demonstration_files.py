"""How a set of demonstrations lies in its folder; what is in the files is in `episodes.py`."""

from __future__ import annotations

import re
from pathlib import Path

DESCRIPTION = "demonstrations.json"
EPISODE = re.compile(r"episode-(\d{6})\.json")


def is_demonstrations(folder: Path) -> bool:
    """Whether a folder says that it is a set of demonstrations."""
    return (folder / DESCRIPTION).is_file()


def episode_files(folder: Path) -> list[Path]:
    """The lists of arrays of all episodes, in their order."""
    return sorted(file for file in folder.iterdir() if EPISODE.fullmatch(file.name))
