"""An append-only log in segment files: what the spool and the journal have in common.

A segment is a magic line and records. A record is a prefix (two lengths, two checksums), a header and a body. The first
record of a segment is its preamble: what a reader needs to know when every earlier segment is gone. A segment gets its
name when magic line and preamble are on the disk, and is synced whole before the next one begins: only the last one can
have a torn tail, which opening cuts off.
"""

from __future__ import annotations

import logging
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from paddock.core.errors import PaddockError
from paddock.distributed.disk import Buffer, Disk, DiskFile

log = logging.getLogger(__name__)

PREFIX = struct.Struct("<IQII")  # length of the header, length of the body, checksum of the body, of prefix and header
CHECKED = struct.Struct("<IQI")  # what the last checksum covers of the prefix
HEADER_LIMIT = 1 << 24
BODY_LIMIT = 1 << 34


class Position(NamedTuple):
    """Where a record begins."""

    segment: int
    offset: int


class Record(NamedTuple):
    """A record's place, its header and its body's length."""

    position: Position
    header: memoryview
    body_length: int


class DamagedFile(PaddockError):
    """A file of a spool or a journal that cannot be what was written."""


@dataclass
class Segment:
    """One file of the log."""

    ordinal: int
    name: str
    file: DiskFile


class SegmentLog:
    """Records in files that are named by a growing ordinal. Not safe for threads, except `read`."""

    def __init__(self, disk: Disk, *, kind: str, segment_bytes: int) -> None:
        self._disk = disk
        self._kind = kind
        self._magic = f"paddock {kind} 1\n".encode()
        self._segment_bytes = segment_bytes
        self._draft = f"next.{kind}"
        self._is_synced = True
        self._segments: dict[int, Segment] = {}
        for name in disk.names():
            stem, _, ending = name.partition(".")
            if ending == kind and stem.isdigit():
                self._segments[int(stem)] = Segment(int(stem), name, disk.open(name))
            elif name == self._draft:
                disk.remove(name)

    @property
    def segments(self) -> list[int]:
        """Ordinals of the segments, oldest first."""
        return sorted(self._segments)

    @property
    def is_full(self) -> bool:
        """Whether the last segment has its size and the next append should go into a new one."""
        return not self._segments or self._last.file.size >= self._segment_bytes

    @property
    def size(self) -> int:
        """Bytes in all files."""
        return sum(segment.file.size for segment in self._segments.values())

    @property
    def _last(self) -> Segment:
        return self._segments[max(self._segments)]

    def scan(self) -> Iterator[tuple[int, list[Record]]]:
        """All records, segment by segment with the preamble first; cuts a torn tail off the last segment on the way."""
        for ordinal in self.segments:
            segment = self._segments[ordinal]
            is_last = ordinal == max(self._segments)
            records, end = self._records(segment, check_bodies=is_last)
            if not records or (end != segment.file.size and not is_last):
                raise DamagedFile(self._damage(segment, end))
            if end != segment.file.size:
                self._cut(segment, end)
            if is_last:  # A killed process may have written or named what it had not synced yet.
                segment.file.sync()
                self._disk.sync_folder()
            yield ordinal, records

    def start_segment(self, ordinal: int, preamble: bytes) -> None:
        """Sync what there is and begin a new file. After an `OSError` the log is as it was."""
        self.sync()
        name = f"{ordinal:016d}.{self._kind}"
        draft = self._disk.open(self._draft)
        try:
            draft.truncate(0)
            draft.append([self._magic, *_framed(preamble, ())])
            draft.sync()
        except OSError:
            self._disk.remove(self._draft)
            raise
        finally:
            draft.close()
        self._disk.rename(self._draft, name)
        self._disk.sync_folder()
        self._segments[ordinal] = Segment(ordinal, name, self._disk.open(name))

    def append(self, header: bytes, body: Sequence[Buffer]) -> Position:
        """Write a record at the end; `sync` makes it durable. After an `OSError` the log is as it was."""
        segment = self._last
        before = segment.file.size
        self._is_synced = False
        try:
            segment.file.append(_framed(header, body))
        except OSError:
            segment.file.truncate(before)
            raise
        return Position(segment.ordinal, before)

    def sync(self) -> None:
        """Return when everything appended is on the disk. After an `OSError` nothing is known of what is: stop."""
        if self._segments and not self._is_synced:
            self._last.file.sync()
        self._is_synced = True

    def read(self, position: Position) -> tuple[memoryview, memoryview]:
        """A record's header and body, checked."""
        segment = self._segments[position.segment]
        prefix = segment.file.read(position.offset, PREFIX.size)
        if len(prefix) == PREFIX.size:
            header_length, body_length, body_sum, header_sum = PREFIX.unpack(prefix)
            if header_length <= HEADER_LIMIT and body_length <= BODY_LIMIT:
                whole = segment.file.read(position.offset + PREFIX.size, header_length + body_length)
                header, body = whole[:header_length], whole[header_length:]
                if (
                    len(body) == body_length
                    and zlib.crc32(header, zlib.crc32(prefix[: CHECKED.size])) == header_sum
                    and zlib.crc32(body) == body_sum
                ):
                    return header, body
        raise DamagedFile(self._damage(segment, position.offset))

    def remove(self, ordinals: Sequence[int]) -> None:
        """Remove whole segments."""
        for ordinal in sorted(ordinals):
            segment = self._segments.pop(ordinal)
            segment.file.close()
            self._disk.remove(segment.name)
        if ordinals:
            self._disk.sync_folder()

    def close(self) -> None:
        """Let go of the files; does not sync."""
        for segment in self._segments.values():
            segment.file.close()

    def _records(self, segment: Segment, *, check_bodies: bool) -> tuple[list[Record], int]:
        """The records of a segment up to the first one that is not whole, and where that begins."""
        if segment.file.read(0, len(self._magic)) != self._magic:
            raise DamagedFile(
                f"'{segment.name}' in '{self._disk.name}' does not begin as a {self._kind} of this version of "
                "Paddock does. Move the file to another place to go on without it."
            )
        records, offset = [], len(self._magic)
        while (record := self._record(segment, offset, check_bodies=check_bodies)) is not None:
            records.append(record)
            offset += PREFIX.size + len(record.header) + record.body_length
        return records, offset

    def _record(self, segment: Segment, offset: int, *, check_bodies: bool) -> Record | None:
        prefix = segment.file.read(offset, PREFIX.size)
        if len(prefix) < PREFIX.size:
            return None
        header_length, body_length, body_sum, header_sum = PREFIX.unpack(prefix)
        body_begins = offset + PREFIX.size + header_length
        if header_length > HEADER_LIMIT or body_begins + body_length > segment.file.size:
            return None
        header = segment.file.read(offset + PREFIX.size, header_length)
        if zlib.crc32(header, zlib.crc32(prefix[: CHECKED.size])) != header_sum:
            return None
        if check_bodies and zlib.crc32(segment.file.read(body_begins, body_length)) != body_sum:
            return None
        return Record(Position(segment.ordinal, offset), header, body_length)

    def _cut(self, segment: Segment, end: int) -> None:
        """Cut a torn tail off the last segment."""
        lost = segment.file.size - end
        log.info("'%s' in '%s' ends in the middle of a record: cut off %d bytes", segment.name, self._disk.name, lost)
        segment.file.truncate(end)

    def _damage(self, segment: Segment, offset: int) -> str:
        return (
            f"'{segment.name}' in '{self._disk.name}' is damaged at byte {offset}. Restore the file, or move it and "
            "the files before it to another place: what they hold is then lost."
        )


def _framed(header: bytes, body: Sequence[Buffer]) -> list[Buffer]:
    """A record as pieces to write; the body's pieces are not copied."""
    length, checksum = 0, 0
    for piece in body:
        length += memoryview(piece).nbytes
        checksum = zlib.crc32(piece, checksum)
    start = CHECKED.pack(len(header), length, checksum)
    header_sum = zlib.crc32(header, zlib.crc32(start))
    return [b"".join((start, header_sum.to_bytes(4, "little"), header)), *body]
