"""What both ends of a gRPC connection share: the method's name, limits and timing, and a queue of pieces."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from types import ModuleType

from paddock.core.lazy import require
from paddock.distributed.wire.frames import LARGEST_PIECE, PIECE
from paddock.distributed.wire.link import LinkClosed

METHOD = "/paddock.Relay/Connect"
KEEPALIVE_SECONDS, KEEPALIVE_TIMEOUT = 10, 5  # A connection whose other end is gone is noticed after their sum.
QUEUED = 2 * PIECE  # bytes that wait for gRPC to take them

COMMON_OPTIONS: list[tuple[str, int]] = [
    ("grpc.max_receive_message_length", LARGEST_PIECE),
    ("grpc.max_send_message_length", LARGEST_PIECE),
    ("grpc.max_metadata_size", 16_384),
    ("grpc.keepalive_time_ms", KEEPALIVE_SECONDS * 1_000),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT * 1_000),
    ("grpc.http2.ping_timeout_ms", KEEPALIVE_TIMEOUT * 1_000),  # without it gRPC waits a minute for an answer
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.max_frame_size", PIECE),  # one frame a piece, not 64
]


def load_grpc(purpose: str, *, is_relay: bool = False) -> ModuleType:
    """gRPC, without words of its own on standard error; a relay's become lines of its log (`tls_log`)."""
    if is_relay:
        os.environ.pop("GRPC_VERBOSITY", None)  # A trainer that started this process set it for itself.
    else:
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # Children are other programs. With handlers for forks, a poller was once seen to lose its descriptor.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    return require("grpc", extra="relay", purpose=purpose)


class PieceQueue:
    """Pieces from a thread that sends to gRPC, which iterates; bounded by bytes."""

    def __init__(self, limit: int = QUEUED) -> None:
        self._limit, self._used = limit, 0
        self._pieces: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._reason: str | None = None

    def put(self, piece: bytes) -> None:
        """Add a piece, waiting for room. Raises LinkClosed."""
        with self._changed:
            while self._reason is None and self._pieces and self._used + len(piece) > self._limit:
                self._changed.wait()
            if self._reason is not None:
                raise LinkClosed(self._reason)
            self._pieces.append(piece)
            self._used += len(piece)
            self._changed.notify_all()

    def close(self, reason: str) -> None:
        """Take nothing more; what waits is still given to gRPC."""
        with self._changed:
            if self._reason is None:
                self._reason = reason
            self._changed.notify_all()

    def __iter__(self) -> Iterator[bytes]:
        while True:
            with self._changed:
                while not self._pieces and self._reason is None:
                    self._changed.wait()
                if not self._pieces:
                    return
                piece = self._pieces.popleft()
                self._used -= len(piece)
                self._changed.notify_all()
            yield piece
