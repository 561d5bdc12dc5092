"""Nested mappings as people write them in configurations: their leaves by dotted key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def flatten(values: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves of nested mappings and lists by dotted key; an empty container is a leaf."""
    if isinstance(values, Mapping) and values:
        for key, value in values.items():
            yield from flatten(value, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(values, list) and values:
        for index, value in enumerate(values):
            yield from flatten(value, f"{prefix}.{index}")
    else:
        yield prefix, values
