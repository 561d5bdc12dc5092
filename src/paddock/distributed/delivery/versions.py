"""Versions of weights: the newest wins, an older or equal one is ignored."""

from __future__ import annotations

COUNT_BITS = 32


def make_version(incarnation: int, count: int) -> int:
    """A version that is above every version of an earlier incarnation of the same trainer."""
    if not 0 <= count < 1 << COUNT_BITS:
        raise ValueError(f"the count of a version has to be between 0 and {(1 << COUNT_BITS) - 1}, got {count}")
    return incarnation << COUNT_BITS | count


def split_version(version: int) -> tuple[int, int]:
    """The trainer's incarnation and the count within it."""
    return version >> COUNT_BITS, version & (1 << COUNT_BITS) - 1


class Versions:
    """The newest version seen of one run. Another run begins anew: its versions cannot be compared."""

    def __init__(self) -> None:
        self.run: str | None = None
        self.newest = -1

    def admit(self, run: str, version: int) -> bool:
        """Whether this version replaces the newest one; then it is the newest."""
        if run == self.run and version <= self.newest:
            return False
        self.run, self.newest = run, version
        return True
