"""Sets of demonstrations that the page can play: those of a folder, and what was driven in sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paddock.buffers.demonstration_files import DESCRIPTION, episode_files
from paddock.core.reading import DamagedError, read_json
from paddock.dashboard.errors import Refused

DRIVEN = "*/demonstration"  # sets of driving sessions, in the folder of those
DEEPEST = 2  # folders below the one of demonstrations
MOST_SETS = 200  # in a list, the newest


class DemonstrationCatalog:
    """Sets by id, which is their path. An id from outside is only ever compared with those that exist."""

    def __init__(self, folder: Path, drives_dir: Path) -> None:
        self._folder, self._drives_dir = folder, drives_dir

    def rows(self) -> list[dict[str, Any]]:
        """Every set that can be read, the newest first."""
        found = []
        for folder in self._sets():
            try:
                about, episodes = read_json(folder / DESCRIPTION), len(episode_files(folder))
            except (DamagedError, OSError):
                continue
            environment = about.get("environment") if isinstance(about, dict) else None
            if episodes:
                track = environment.get("track") if isinstance(environment, dict) else None
                name = folder.parent.name if folder.parent.parent == self._drives_dir else folder.name
                found.append({"id": str(folder), "name": name, "episodes": episodes, "track": track})
        return found

    def find(self, given: Any) -> Path:
        """The folder of the set with this id."""
        for folder in self._sets():
            if str(folder) == given:
                return folder
        raise Refused(f"there are no demonstrations '{str(given)[:100]}'; GET /api/demonstrations lists them.", 404)

    def _sets(self) -> list[Path]:
        patterns = [(self._folder, "/".join(["*"] * depth + [DESCRIPTION])) for depth in range(DEEPEST + 1)]
        patterns.append((self._drives_dir, f"{DRIVEN}/{DESCRIPTION}"))
        files = [file for folder, pattern in patterns for file in folder.glob(pattern)]
        newest = sorted(files, key=lambda file: file.lstat().st_mtime, reverse=True)[:MOST_SETS]
        return [file.parent for file in newest]
