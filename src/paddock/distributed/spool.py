"""A worker's chunks on its disk until the trainer has them."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from paddock.distributed.chunk_files import ChunkHeader, OutgoingChunk, StoredChunk, decode_header, encode_header
from paddock.distributed.disk import Disk, opened_folder
from paddock.distributed.segments import Position, SegmentLog

SEGMENT_BYTES = 8 * 2**20
SMALLEST_SEGMENT_BYTES = 2**16


class SpooledChunk(NamedTuple):
    """Where a chunk lies, and the bytes of its header and body."""

    sequence: int
    size: int
    position: Position


class _Preamble(msgspec.Struct, frozen=True, array_like=True):
    """The first record of a segment."""

    worker: str
    last: int  # the highest sequence before this segment


class Spool:
    """Chunks of one worker in files, in the order of their sequence numbers.

    The folder also keeps the worker's id (`worker`, 16 hex digits) and the last sequence number, also when it holds no
    chunk. `limit` bounds the bytes of chunks in it: `has_room` says whether another one fits. `append` writes, `sync`
    makes durable, `remove` forgets everything up to a sequence; a file goes when all of its chunks are forgotten.
    """

    def __init__(
        self,
        disk: Disk,
        *,
        limit: int,
        segment_bytes: int | None = None,
        new_id: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        self._disk = disk
        self._limit = limit
        if segment_bytes is None:
            segment_bytes = max(SMALLEST_SEGMENT_BYTES, min(SEGMENT_BYTES, limit // 4))
        self._log = SegmentLog(disk, kind="spool", segment_bytes=segment_bytes)
        self._chunks: deque[SpooledChunk] = deque()
        self._newest = 0  # highest sequence appended ever
        self.worker = ""
        self.bytes = 0  # of chunks that were not removed
        try:
            self._open()
            if not self.worker:
                self.worker = new_id()
                self._start_segment()
        except Exception:
            self.close()
            raise

    @classmethod
    def open(cls, folder: Path, *, limit: int) -> Spool:
        """The spool of this folder, made where there is none. limit: bytes."""
        with opened_folder(folder, "a worker's spool") as disk:
            return cls(disk, limit=limit)

    @property
    def name(self) -> str:
        """The folder, for sentences."""
        return self._disk.name

    @property
    def last_removed(self) -> int:
        """The highest sequence that is no longer here."""
        return self._newest - len(self._chunks)

    @property
    def file_bytes(self) -> int:
        """Bytes of the files: chunks, and those among them that were removed while others of their file were not."""
        return self._log.size

    def __iter__(self) -> Iterator[SpooledChunk]:
        return iter(self._chunks)

    def __len__(self) -> int:
        return len(self._chunks)

    def has_room(self, size: int) -> bool:
        """Whether a chunk of so many bytes fits; an empty spool takes any."""
        return not self._chunks or self.bytes + size <= self._limit

    def append(self, chunk: OutgoingChunk) -> SpooledChunk:
        """Write a chunk with the next sequence number. After an `OSError`, as on a full disk, nothing has changed."""
        if self._log.is_full:
            self._start_segment()
            self._remove_segments()
        sequence = self._newest + 1
        header = encode_header(ChunkHeader(self.worker, sequence, chunk.steps, chunk.version, chunk.header))
        position = self._log.append(header, chunk.body)
        spooled = SpooledChunk(sequence, chunk.size, position)
        self._chunks.append(spooled)
        self._newest = sequence
        self.bytes += spooled.size
        return spooled

    def sync(self) -> None:
        """Return when everything appended is durable."""
        self._log.sync()

    def read(self, sequence: int) -> StoredChunk:
        """A chunk that was not removed."""
        spooled = self._chunks[sequence - self.last_removed - 1]
        header, body = self._log.read(spooled.position)
        fields = decode_header(header)
        return StoredChunk(fields.worker, fields.sequence, fields.steps, fields.version, fields.header, body)

    def remove(self, through: int) -> None:
        """Forget all chunks up to this sequence."""
        while self._chunks and self._chunks[0].sequence <= through:
            self.bytes -= self._chunks.popleft().size
        self._remove_segments()

    def close(self) -> None:
        """Let go of the folder."""
        self._log.close()
        self._disk.close()

    def _start_segment(self) -> None:
        preamble = msgspec.msgpack.encode(_Preamble(self.worker, self._newest))
        self._log.start_segment(self._newest + 1, preamble)

    def _remove_segments(self) -> None:
        """Remove files before the one of the oldest chunk; the last one stays, for the sequence number in its name."""
        segments = self._log.segments
        first = self._chunks[0].position.segment if self._chunks else segments[-1]
        self._log.remove([ordinal for ordinal in segments if ordinal < first])

    def _open(self) -> None:
        gone: list[int] = []
        for _, records in self._log.scan():
            preamble = msgspec.msgpack.decode(records[0].header, type=_Preamble)
            if self._chunks and preamble.last != self._newest:
                # A removal that a power cut undid: files went oldest first, so all before a missing one were removed.
                gone.extend({chunk.position.segment for chunk in self._chunks})
                self._chunks.clear()
            self.worker, self._newest = preamble.worker, preamble.last
            for record in records[1:]:
                fields = decode_header(record.header)
                size = len(fields.header) + record.body_length
                self._chunks.append(SpooledChunk(fields.sequence, size, record.position))
                self._newest = fields.sequence
        self._log.remove(gone)
        self.bytes = sum(chunk.size for chunk in self._chunks)
