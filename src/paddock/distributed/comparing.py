"""Whether trainer and worker play the same environment, by what their configurations say of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MISSING = "not set"


def environment_values(config: Any) -> dict[str, Any]:
    """What an experiment's configuration says of the environment and its reward."""
    values = config.model_dump(mode="json", by_alias=True)
    return {"environment": values["environment"], "reward": values.get("reward")}


def first_unequal(theirs: Any, ours: Any, key: str = "") -> tuple[str, Any, Any] | None:
    """The first key whose values differ, and both values; None where all are equal."""
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        for name in [*theirs, *(name for name in ours if name not in theirs)]:
            found = first_unequal(theirs.get(name, MISSING), ours.get(name, MISSING), f"{key}.{name}" if key else name)
            if found is not None:
                return found
        return None
    return None if theirs == ours else (key, theirs, ours)
