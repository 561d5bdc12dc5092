"""How a large buffer is checkpointed at the cost of its new data: in sealed segments that never change again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True)
class Segment:
    """A run of rows. A sealed one has the same content for ever, so a checkpoint may link to an earlier copy."""

    name: str
    is_sealed: bool
    read: Callable[[], Any]


@runtime_checkable
class Segmented(Protocol):
    """A buffer whose content is saved in segments, beside the small state of `get_state`."""

    def segments(self) -> list[Segment]: ...

    def load_segment(self, tree: Any) -> None: ...
