"""How a set of demonstrations lies in its folder; what is in the files is in `episodes.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

DESCRIPTION = "demonstrations.json"
EPISODE = re.compile(r"episode-(\d{6})\.json")
DEEPEST = 4  # folders below the one that is searched


def is_demonstrations(folder: Path) -> bool:
    """Whether a folder says that it is a set of demonstrations."""
    return (folder / DESCRIPTION).is_file()


def find_sets(folder: Path) -> Iterator[Path]:
    """Folders of demonstrations in a folder and below it."""
    if is_demonstrations(folder):
        yield folder
        return
    pattern = DESCRIPTION
    for _ in range(DEEPEST):
        pattern = f"*/{pattern}"
        yield from sorted(file.parent for file in folder.glob(pattern))


def episode_files(folder: Path) -> list[Path]:
    """The lists of arrays of all episodes, in their order."""
    return sorted(file for file in folder.iterdir() if EPISODE.fullmatch(file.name))
