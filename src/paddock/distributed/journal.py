"""The trainer's chunks on its disk, from their arrival until a checkpoint holds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from paddock.core.errors import PaddockError
from paddock.distributed.chunk_files import ChunkHeader, StoredChunk, decode_header, encode_header
from paddock.distributed.disk import Disk, opened_folder
from paddock.distributed.segments import Position, SegmentLog

SEGMENT_BYTES = 64 * 2**20
INCARNATION = "incarnation"


class JournalEntry(NamedTuple):
    """Where a chunk lies, and the bytes of its header and body."""

    worker: str
    sequence: int
    size: int
    position: Position


class _Preamble(msgspec.Struct, frozen=True, array_like=True):
    """The first record of a segment: what was held before it."""

    held: dict[str, int]


class Journal:
    """Chunks of all workers in the order of their arrival.

    `held` is the highest sequence per worker, also of chunks whose files are gone. `append` writes, `sync` makes
    durable: many chunks may share one. `entries(marks)` are those after a checkpoint's marks, in order; `forget(marks)`
    removes the files in which every chunk is at or before them. `incarnation` grows with every opening.
    """

    def __init__(self, disk: Disk, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._disk = disk
        self._log = SegmentLog(disk, kind="journal", segment_bytes=segment_bytes)
        self._entries: dict[int, list[JournalEntry]] = {}  # by segment
        self.held: dict[str, int] = {}
        try:
            self._open()
            self.incarnation = self._next_incarnation()
            if not self._log.segments:
                self._start_segment()
        except Exception:
            self.close()
            raise

    @classmethod
    def open(cls, folder: Path) -> Journal:
        """The journal of this folder, made where there is none."""
        with opened_folder(folder, "a trainer's journal") as disk:
            return cls(disk)

    @property
    def name(self) -> str:
        """The folder, for sentences."""
        return self._disk.name

    @property
    def file_bytes(self) -> int:
        """Bytes of the files."""
        return self._log.size

    def append(self, chunk: StoredChunk) -> JournalEntry:
        """Write a chunk. After an `OSError`, as on a full disk, nothing has changed."""
        if self._log.is_full:
            self._start_segment()
        header = encode_header(ChunkHeader(chunk.worker, chunk.sequence, chunk.steps, chunk.version, chunk.header))
        position = self._log.append(header, (chunk.body,))
        entry = JournalEntry(chunk.worker, chunk.sequence, chunk.size, position)
        self._entries.setdefault(position.segment, []).append(entry)
        self.held[chunk.worker] = chunk.sequence
        return entry

    def sync(self) -> None:
        """Return when everything appended is durable."""
        self._log.sync()

    def covered(self, marks: Mapping[str, int]) -> None:
        """A checkpoint holds everything up to these marks: later files say that it is held, should this one be new."""
        for worker, sequence in marks.items():
            self.held[worker] = max(self.held.get(worker, 0), sequence)

    def entries(self, marks: Mapping[str, int]) -> Iterator[JournalEntry]:
        """What came after these marks (the last sequence per worker), in the order of arrival."""
        for segment in sorted(self._entries):
            for entry in self._entries[segment]:
                if entry.sequence > marks.get(entry.worker, 0):
                    yield entry

    def read(self, entry: JournalEntry) -> StoredChunk:
        """An entry's chunk. May be called while another thread appends."""
        header, body = self._log.read(entry.position)
        fields = decode_header(header)
        return StoredChunk(fields.worker, fields.sequence, fields.steps, fields.version, fields.header, body)

    def forget(self, marks: Mapping[str, int]) -> None:
        """Remove files from the oldest on, as long as every chunk in them is at or before the marks."""
        gone = []
        for segment in self._log.segments[:-1]:
            if any(entry.sequence > marks.get(entry.worker, 0) for entry in self._entries.get(segment, ())):
                break
            gone.append(segment)
            self._entries.pop(segment, None)
        self._log.remove(gone)

    def close(self) -> None:
        """Let go of the folder."""
        self._log.close()
        self._disk.close()

    def _start_segment(self) -> None:
        segments = self._log.segments
        ordinal = segments[-1] + 1 if segments else 1
        self._log.start_segment(ordinal, msgspec.msgpack.encode(_Preamble(self.held)))

    def _open(self) -> None:
        for ordinal, records in self._log.scan():
            self.held |= msgspec.msgpack.decode(records[0].header, type=_Preamble).held
            found = self._entries[ordinal] = []
            for record in records[1:]:
                fields = decode_header(record.header)
                size = len(fields.header) + record.body_length
                found.append(JournalEntry(fields.worker, fields.sequence, size, record.position))
                self.held[fields.worker] = fields.sequence

    def _next_incarnation(self) -> int:
        text = self._disk.read(INCARNATION)
        try:
            incarnation = 1 + (int(text) if text is not None else 0)
        except ValueError as error:
            raise PaddockError(
                f"'{INCARNATION}' in '{self._disk.name}' has to hold a whole number, it holds {text!r}. Write a "
                "number there that is higher than the number of starts of this run."
            ) from error
        self._disk.replace(INCARNATION, str(incarnation).encode())
        return incarnation
