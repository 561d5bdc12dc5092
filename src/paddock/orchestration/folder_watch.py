"""The folder of a run while it runs: that it is still where it was, and that there is room for its last words."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from paddock.control.address import FILE as CHANNEL
from paddock.core.errors import PaddockError
from paddock.core.files import unfinished, write_synced
from paddock.experiments.run import RunFolder

RESERVE = ".reserve"
RESERVED = 64 * 1024  # bytes, for an event and the manifest of a run that a full disk ended


class Home:
    """Knows the folder itself, not only its name: somebody may move or delete it while the run goes on."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        self._folder: int | None = None  # an open descriptor, which follows the folder wherever it goes

    def open(self) -> None:
        """From here on the folder is watched, and some room in it is taken."""
        with suppress(PermissionError):  # Windows opens no folders; it does not let one be moved that is in use.
            self._folder = os.open(self._run.path, os.O_RDONLY)
        for left_over in unfinished(self._run.path):  # by an earlier process that was killed: this one holds the run
            left_over.unlink(missing_ok=True)
        reserve = self._run.path / RESERVE
        reserve.unlink(missing_ok=True)
        write_synced(reserve, os.urandom(RESERVED))  # Nothing that a file system could leave out.

    def check(self) -> None:
        """Refuse to write another word where the folder was."""
        if self._folder is not None and not self._is_there():
            raise PaddockError(self._explained())

    def last_words(self) -> RunFolder | None:
        """The folder to say in how the run ended, wherever it is now, with the room that was kept for it; None where
        it is gone."""
        place = self._run.path if self._folder is None or self._is_there() else self._moved_to()
        if place is None:
            return None
        (place / RESERVE).unlink(missing_ok=True)
        if place != self._run.path:
            (place / CHANNEL).unlink(missing_ok=True)
        return RunFolder(place)

    def close(self) -> None:
        if self._folder is not None:
            if self._is_there():
                (self._run.path / RESERVE).unlink(missing_ok=True)
            os.close(self._folder)
            self._folder = None

    def _is_there(self) -> bool:
        assert self._folder is not None
        try:
            found = os.stat(self._run.path)
        except OSError:
            return False
        mine = os.fstat(self._folder)
        return (found.st_dev, found.st_ino) == (mine.st_dev, mine.st_ino)

    def _moved_to(self) -> Path | None:
        """Where the folder is now, if the system can tell."""
        assert self._folder is not None
        try:
            place = Path(os.readlink(f"/proc/self/fd/{self._folder}"))
        except OSError:
            return None
        return place if place.is_dir() else None

    def _explained(self) -> str:
        place = self._moved_to()
        if place is None:
            return (
                f"the run's folder '{self._run.path}' was deleted while it ran; the run has ended, and nothing is left "
                "to go on with."
            )
        return (
            f"the run's folder '{self._run.path}' was moved to '{place}' while it ran; the run has ended. Everything "
            f"up to its newest checkpoint is there: paddock train --resume {place}"
        )
