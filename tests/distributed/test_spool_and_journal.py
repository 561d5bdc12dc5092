"""Spool and journal in real files: SIGKILL at any instant, torn tails, damage, full disks."""

from __future__ import annotations

import os
import random
import resource
import signal
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from simulated_disk import SimulatedDisk

from paddock.core.errors import InputError, PaddockError
from paddock.distributed.chunk_files import OutgoingChunk, StoredChunk
from paddock.distributed.disk import FolderDisk
from paddock.distributed.journal import Journal
from paddock.distributed.segments import DamagedFile
from paddock.distributed.spool import Spool

LIMIT = 2**20
SEGMENT = 2_000  # small, so that many are begun and removed


def content(number: int) -> bytes:
    return random.Random(number).randbytes(50 + number % 300)


def outgoing(number: int) -> OutgoingChunk:
    body = content(number)
    return OutgoingChunk(steps=number % 100, version=number, header=b"layout", body=[body[:20], memoryview(body)[20:]])


def stored(worker: str, number: int) -> StoredChunk:
    return StoredChunk(worker, number, 1, number, b"layout", memoryview(content(number)))


def open_spool(folder: Path, limit: int = LIMIT) -> Spool:
    return Spool(FolderDisk(folder, "a worker's spool"), limit=limit, segment_bytes=SEGMENT)


def open_journal(folder: Path) -> Journal:
    return Journal(FolderDisk(folder, "a trainer's journal"), segment_bytes=SEGMENT)


def files(folder: Path, ending: str) -> list[Path]:
    return sorted(folder.glob(f"*.{ending}"))


def killed_while(work: Callable[[int], None], seconds: float) -> list[int]:
    """Run `work` in a child, kill it, and return the numbers that it wrote to its pipe before."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            work(writing)
        finally:
            os._exit(1)
    os.close(writing)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    return [number for (number,) in struct.iter_unpack("<q", data[: len(data) // 8 * 8])]


def test_spool_keeps_what_was_synced_through_sigkill_at_any_instant(tmp_path: Path) -> None:
    removed, known, worker = 0, 0, ""
    instants = random.Random(1)

    def write(pipe: int) -> None:
        spool = open_spool(tmp_path)
        number = spool.last_removed + len(spool)
        while True:
            for _ in range(10):
                number += 1
                spool.append(outgoing(number))
            spool.sync()
            os.write(pipe, struct.pack("<q", number))
            if number % 30 == 0:
                os.write(pipe, struct.pack("<q", -(number - 5)))  # Negative: about to be removed.
                spool.remove(number - 5)

    rounds = 0
    while rounds < 20 or known < 200:  # more where the disk is slow
        rounds += 1
        told = killed_while(write, instants.uniform(0.01, 0.15))
        known = max([known, *told])
        removed = max([removed, *(-number for number in told)])
        spool = open_spool(tmp_path)
        assert worker in ("", spool.worker)
        worker = spool.worker
        sequences = [chunk.sequence for chunk in spool]
        assert sequences == list(range(spool.last_removed + 1, spool.last_removed + 1 + len(spool)))
        assert spool.last_removed <= removed, "a chunk is gone that was not removed"
        assert spool.last_removed + len(spool) >= known, "a synced chunk is gone"
        for chunk in spool:
            assert bytes(spool.read(chunk.sequence).body) == content(chunk.sequence)
        spool.close()


def test_journal_keeps_what_was_synced_through_sigkill_at_any_instant(tmp_path: Path) -> None:
    workers = ["a" * 16, "b" * 16]
    known, incarnation = 0, 0
    instants = random.Random(2)

    def write(pipe: int) -> None:
        journal, forgotten = open_journal(tmp_path), 0
        while True:
            for worker in workers * 10:
                number = journal.held.get(worker, 0) + 1
                journal.append(stored(worker, number))
            journal.sync()
            os.write(pipe, struct.pack("<q", number))
            if number - forgotten >= 50:  # After a kill the workers' numbers are no longer in step.
                journal.forget(dict.fromkeys(workers, number - 20))
                forgotten = number

    rounds = 0
    while rounds < 20 or known < 200:  # more where the disk is slow
        rounds += 1
        known = max([known, *killed_while(write, instants.uniform(0.01, 0.15))])
        journal = open_journal(tmp_path)
        assert journal.incarnation > incarnation
        incarnation = journal.incarnation
        marks = {worker: max(known - 20, 0) for worker in workers}
        for worker in workers:
            found = [entry for entry in journal.entries(marks) if entry.worker == worker]
            assert journal.held.get(worker, 0) >= known, "a synced chunk is gone"
            assert [entry.sequence for entry in found] == list(range(marks[worker] + 1, journal.held[worker] + 1))
            for entry in found[-50:]:
                assert bytes(journal.read(entry).body) == content(entry.sequence)
        journal.close()
    assert journal.file_bytes < 200 * SEGMENT


def test_spool_goes_on_with_its_id_and_sequence_when_everything_was_removed(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    for number in range(1, 41):
        spool.append(outgoing(number))
    spool.sync()
    spool.remove(40)
    assert len(spool) == spool.bytes == 0
    assert len(files(tmp_path, "spool")) == 1
    worker = spool.worker
    spool.close()
    again = open_spool(tmp_path)
    assert again.worker == worker
    assert again.append(outgoing(41)).sequence == 41
    again.close()


def test_spool_is_bounded_by_its_limit(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, limit=10_000)
    number = 0
    for _ in range(4):
        while spool.has_room(350):
            number += 1
            spool.append(outgoing(number))
        assert 9_000 < spool.bytes <= 10_000
        assert spool.file_bytes < 10_000 + 2 * SEGMENT + 100 * len(spool)
        spool.remove(number - 3)
    spool.close()


@pytest.mark.parametrize("kind", ["spool", "journal"])
def test_torn_tails_of_spool_and_journal_are_cut_off(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "written"
    log = open_spool(folder) if kind == "spool" else open_journal(folder)
    ends = []
    for number in (1, 2, 3):
        log.append(outgoing(number) if isinstance(log, Spool) else stored("a" * 16, number))  # type: ignore[arg-type]
        ends.append(files(folder, kind)[-1].stat().st_size)
    log.close()
    (file,) = files(folder, kind)
    whole = file.read_bytes()
    near = {end + offset for end in ends for offset in (-1, 0, 1, 19, 20, 21)}  # The prefix is 20 bytes.
    sizes = sorted(near | set(range(ends[0], ends[2], 41)))
    for size in (size for size in sizes if ends[0] <= size < ends[2]):
        for tail in (b"", b"\0" * 7, bytes(range(60))):
            file.write_bytes(whole[:size] + tail)
            log = open_spool(folder) if kind == "spool" else open_journal(folder)
            kept = 1 if size < ends[1] else 2
            if isinstance(log, Spool):
                assert [chunk.sequence for chunk in log] == [1, 2][:kept]
                assert log.append(outgoing(kept + 1)).sequence == kept + 1
            else:
                assert log.held == {"a" * 16: kept}
                log.append(stored("a" * 16, kept + 1))
            log.close()
            assert file.read_bytes() == whole[: ends[kept]]


def test_damaged_files_of_spool_and_journal_are_sentences(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    for number in range(1, 41):
        spool.append(outgoing(number))
    spool.close()
    first, second, *_ = files(tmp_path, "spool")
    data = bytearray(second.read_bytes())
    data[60] ^= 1
    second.write_bytes(data)
    with pytest.raises(DamagedFile, match=rf"'{second.name}' in '.*' is damaged at byte \d+. Restore the file"):
        open_spool(tmp_path)
    second.write_bytes(b"#!/bin/sh\necho hello\n" * 20)
    with pytest.raises(DamagedFile, match="does not begin as a spool of this version"):
        Spool.open(tmp_path, limit=LIMIT)
    second.unlink()
    first.unlink()
    Spool.open(tmp_path, limit=LIMIT).close()  # Nothing keeps the folder after the errors.


def test_damaged_chunk_of_a_journal_is_a_sentence_when_it_is_read(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    for number in range(1, 41):
        journal.append(stored("a" * 16, number))
    journal.close()
    first = files(tmp_path, "journal")[0]
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    first.write_bytes(data)
    journal = open_journal(tmp_path)
    (last,) = [entry for entry in journal.entries({}) if entry.position.segment == 1][-1:]
    with pytest.raises(DamagedFile, match=f"'{first.name}' in '.*' is damaged at byte"):
        journal.read(last)
    journal.close()


def test_spool_and_journal_ignore_files_with_other_names(tmp_path: Path) -> None:
    for name in ("notes.txt", "abc.spool", ".hidden", "next.spool"):
        (tmp_path / name).write_bytes(b"not ours")
    spool = open_spool(tmp_path)
    assert spool.append(outgoing(1)).sequence == 1
    spool.close()
    assert (tmp_path / "notes.txt").read_bytes() == b"not ours"


def test_spool_folder_is_used_by_one_process_at_a_time(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path / "spool", limit=LIMIT)
    with pytest.raises(InputError, match="is a worker's spool that another process uses now"):
        Spool.open(tmp_path / "spool", limit=LIMIT)
    spool.close()
    Spool.open(tmp_path / "spool", limit=LIMIT).close()


def test_journal_in_an_impossible_folder_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        InputError, match=r"cannot be used for a trainer's journal: .*Name a folder that can be written"
    ):
        Journal.open(tmp_path / "file" / "journal")
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(InputError, match="is a link, not a folder"):
        Journal.open(tmp_path / "link")
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "incarnation").write_text("many")
    with pytest.raises(PaddockError, match="has to hold a whole number, it holds b'many'"):
        Journal.open(tmp_path / "journal")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_spool_in_a_read_only_folder_is_a_sentence(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot be used for a worker's spool: permission denied"):
        Spool.open(tmp_path / "spool", limit=LIMIT)
    tmp_path.chmod(0o700)


def test_spool_and_journal_are_as_before_after_a_write_that_found_no_room(tmp_path: Path) -> None:
    spool, journal = open_spool(tmp_path / "spool"), open_journal(tmp_path / "journal")
    spool.append(outgoing(1))
    journal.append(stored("a" * 16, 1))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal_before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(
            resource.RLIMIT_FSIZE, (files(tmp_path / "spool", "spool")[0].stat().st_size + 50, before[1])
        )
        with pytest.raises(OSError, match="File too large"):
            spool.append(outgoing(2))
        with pytest.raises(OSError, match="File too large"):
            journal.append(stored("a" * 16, 2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, signal_before)
    assert spool.append(outgoing(2)).sequence == 2
    journal.append(stored("a" * 16, 2))
    for log in (spool, journal):
        log.sync()
        log.close()
    again, held = open_spool(tmp_path / "spool"), open_journal(tmp_path / "journal")
    assert [bytes(again.read(number).body) for number in (1, 2)] == [content(1), content(2)]
    assert [bytes(held.read(entry).body) for entry in held.entries({})] == [content(1), content(2)]
    again.close()
    held.close()


def test_journal_hands_on_what_came_after_the_marks_and_forgets_what_is_before(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    for number in range(1, 101):
        journal.append(stored("ab"[number % 2] * 16, (number + 1) // 2))
    journal.sync()
    marks = {"a" * 16: 30, "b" * 16: 31}
    order = [(entry.worker[0], entry.sequence) for entry in journal.entries(marks)]
    assert order[:4] == [("a", 31), ("b", 32), ("a", 32), ("b", 33)]
    before = journal.file_bytes
    journal.forget(marks)
    assert journal.file_bytes < before / 1.5
    journal.close()
    again = open_journal(tmp_path)
    assert again.held == {"a" * 16: 50, "b" * 16: 50}
    assert [(entry.worker[0], entry.sequence) for entry in again.entries(marks)] == order
    again.forget(again.held)
    again.close()
    last = open_journal(tmp_path)
    assert last.held == {"a" * 16: 50, "b" * 16: 50}
    last.close()


def test_random_damage_to_a_spool_is_cut_off_or_named_and_never_read(tmp_path: Path) -> None:
    disk = SimulatedDisk(random.Random(1))
    spool = Spool(disk, limit=LIMIT, segment_bytes=SEGMENT)
    for number in range(1, 21):
        spool.append(outgoing(number))
    spool.sync()
    names, chance = disk.names(), random.Random(2)
    whole = {name: bytes(disk.open(name).data) for name in names}
    outcomes = set()
    for _ in range(500):
        for name in names:
            file = disk.open(name)
            file.data[:] = whole[name]
        file = disk.open(chance.choice(names))
        begin = chance.randrange(len(file.data))
        file.data[begin : begin + chance.randrange(1, 9)] = chance.randbytes(chance.randrange(12))
        try:
            again = Spool(disk, limit=LIMIT, segment_bytes=SEGMENT)
            found = [(one.sequence, bytes(again.read(one.sequence).body)) for one in again]
        except DamagedFile:
            outcomes.add("named")
            continue
        outcomes.add("whole" if len(found) == 20 else "cut off")
        assert all(body == content(sequence) for sequence, body in found)
        assert [sequence for sequence, _ in found] == list(range(1, len(found) + 1))
    assert outcomes >= {"named", "cut off"}
