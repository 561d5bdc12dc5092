"""The time of day as run folders write it."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """UTC in ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
