"""A lap time as text."""

from __future__ import annotations

import math

NO_TIME = "-:--.---"


def format_lap_time(seconds: float, *, with_minutes: bool = False) -> str:
    """`1:23.456`; below a minute `23.456`, or `0:23.456` with minutes always; dashes when there is no time."""
    if not math.isfinite(seconds) or seconds <= 0.0:
        return NO_TIME
    thousandths = round(seconds * 1000)
    minutes, rest = divmod(thousandths, 60_000)
    return f"{minutes}:{rest / 1000:06.3f}" if minutes or with_minutes else f"{rest / 1000:.3f}"
