"""Which columns of a buffer a worker's environments fill, so that episodes of different workers never mix."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.distributed.chunk_codec import ReceivedChunk
from paddock.rollout import chunks
from paddock.rollout.chunks import Chunk
from paddock.rollout.experience import StepsSink, TransitionSink


class Lanes:
    """A buffer of N columns holds N / n lanes, n environments each. A worker stays in its lane; where there are more
    workers than lanes they take turns, chunk by chunk, and every turn begins anew."""

    def __init__(self, columns: int, width: int) -> None:
        self._columns, self._width = columns, width
        self.count = columns // width
        self._lane_of: dict[str, int] = {}
        self._last: dict[int, tuple[str, int]] = {}  # worker and sequence of the newest chunk in each lane
        self._held: dict[int, Chunk] = {}
        self.delivered: set[str] = set()  # workers whose rollout of the present policy is here

    def write(self, received: ReceivedChunk, sink: TransitionSink) -> None:
        """Put a chunk behind what its lane holds."""
        lane = self._lane(received.worker)
        follows = received.note.continues and self._last.get(lane) == (received.worker, received.sequence - 1)
        self._last[lane] = (received.worker, received.sequence)
        if self.count == 1 and isinstance(sink, StepsSink):
            if not follows:
                sink.mark_discontinuity()
            sink.add_steps(received.chunk)
            return
        chunk = received.chunk if follows else _begun(received.chunk)
        if self.count > 1:
            chunk = chunks.among(chunk, lane * self._width, self._columns)
        for step in chunks.vector_steps(chunk):
            sink.add(step)

    def hold(self, received: ReceivedChunk) -> None:
        """Keep a worker's rollout until there is one for every lane."""
        lane = self._lane(received.worker)
        if lane in self._held:
            lane = next(one for one in range(self.count) if one not in self._held)
        follows = received.note.continues and self._last.get(lane, ("", 0))[0] == received.worker
        self._last[lane] = (received.worker, received.sequence)
        self._held[lane] = received.chunk if follows else _begun(received.chunk)
        self.delivered.add(received.worker)

    @property
    def is_complete(self) -> bool:
        """Whether every lane has a rollout."""
        return len(self._held) == self.count

    def joined(self) -> dict[str, Any]:
        """The rollouts of all lanes side by side; then there are none."""
        rollout = chunks.beside([self._held[lane] for lane in range(self.count)])
        self.forget()
        return rollout

    def forget(self) -> None:
        """Rollouts that were held are of a policy that is no more."""
        self._held.clear()
        self.delivered.clear()

    def _lane(self, worker: str) -> int:
        return self._lane_of.setdefault(worker, len(self._lane_of) % self.count)


def _begun(chunk: Chunk) -> dict[str, Any]:
    """A chunk whose first step begins something new in every environment."""
    is_first = np.array(chunk["is_first"])
    is_first[:1] = True
    return {**chunk, "is_first": is_first}
