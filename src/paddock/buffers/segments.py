"""How a large buffer is checkpointed at the cost of its new data: in sealed segments that never change again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True)
class Segment:
    """A run of rows. A sealed one has the same content for ever, so a checkpoint may link to an earlier copy."""

    name: str
    is_sealed: bool
    read: Callable[[], Any]
    folder: Path | None = None
    """Where its files lie already, if they do: a checkpoint then links to them."""


@runtime_checkable
class Segmented(Protocol):
    """A buffer whose content is saved in segments, beside the small state of `get_state`."""

    def segments(self) -> list[Segment]: ...

    def load_segment(self, tree: Any) -> None: ...


@runtime_checkable
class OnDisk(Segmented, Protocol):
    """A segmented buffer that lives in files: it takes a sealed segment's files as its own instead of reading them."""

    def adopt_segment(self, folder: Path, name: str) -> None: ...
