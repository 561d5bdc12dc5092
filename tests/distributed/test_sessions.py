"""WorkerSession and TrainerSession over links in memory."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest
from memory_relay import MemoryRelay
from simulated_disk import SimulatedDisk

from paddock.core.errors import InputError, PaddockError
from paddock.core.specs import ArraySpec, Spec
from paddock.distributed.chunk_files import OutgoingChunk
from paddock.distributed.disk import FolderDisk
from paddock.distributed.journal import Journal
from paddock.distributed.sessions import TrainerSession, WorkerSession
from paddock.distributed.spool import Spool
from paddock.distributed.wire.link import Link, memory_pair
from paddock.distributed.wire.messages import Hello, Order

SPEC = Spec(
    observation={"state": ArraySpec(shape=(4,), dtype="float32")}, action=ArraySpec(shape=(1,), dtype="float32")
)


def hello(role: str, name: str = "one") -> Hello:
    run = "run" if role == "trainer" else ""
    return Hello(role=role, name=name, id="0" * 16, run=run, experiment="tiny", spec=SPEC)  # type: ignore[arg-type]


def chunk(number: int, size: int = 100) -> OutgoingChunk:
    return OutgoingChunk(steps=1, version=7, header=b"layout", body=[number.to_bytes(8, "little"), bytes(size)])


def number_of(body: memoryview) -> int:
    return int.from_bytes(body[:8], "little")


def wait_for(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.005)


@pytest.fixture
def relay() -> Iterator[MemoryRelay]:
    made = MemoryRelay()
    yield made
    made.close()


def take(trainer: TrainerSession, count: int) -> list[tuple[str, int, int]]:
    found = []
    while len(found) < count:
        one = trainer.take(timeout=10.0)
        assert one is not None, f"only {len(found)} of {count} chunks arrived"
        found.append((one.worker, one.sequence, number_of(one.body)))
    return found


def test_worker_session_offers_and_trainer_session_takes_once_in_order(tmp_path: Path, relay: MemoryRelay) -> None:
    worker = WorkerSession.open(tmp_path / "spool", dial=relay.dial, hello=hello("worker"))
    trainer = TrainerSession.open(tmp_path / "journal", dial=relay.dial, hello=hello("trainer"))
    for number in range(1, 51):
        assert worker.offer(chunk(number))
    assert take(trainer, 50) == [(worker.id, number, number) for number in range(1, 51)]
    assert trainer.marks == {worker.id: 50}
    wait_for(lambda: worker.status.waiting_chunks == 0)
    assert trainer.take(timeout=0.05) is None
    assert trainer.status.problem == worker.status.pause == worker.status.link.problem == ""
    worker.close()
    trainer.close()


def test_worker_session_gets_newest_weights_and_orders_also_as_a_late_joiner(
    tmp_path: Path, relay: MemoryRelay
) -> None:
    trainer = TrainerSession.open(tmp_path / "journal", dial=relay.dial, hello=hello("trainer"))
    for count in range(1, 6):
        version = trainer.publish([b"weights", bytes([count])], header=b"layout", order=Order(test_every=count))
    assert version == trainer.version == 1 << 32 | 5
    worker = WorkerSession.open(tmp_path / "spool", dial=relay.dial, hello=hello("worker"))
    wait_for(lambda: worker.weights is not None and worker.weights.version == version)
    assert worker.weights is not None
    assert bytes(worker.weights.body) == b"weights\5"
    assert worker.weights.header == b"layout"
    assert worker.orders == Order(test_every=5)
    worker.close()
    trainer.close()


def test_trainer_session_goes_on_behind_the_marks_of_a_checkpoint(tmp_path: Path, relay: MemoryRelay) -> None:
    worker = WorkerSession.open(tmp_path / "spool", dial=relay.dial, hello=hello("worker"))
    trainer = TrainerSession.open(tmp_path / "journal", dial=relay.dial, hello=hello("trainer"))
    for number in range(1, 21):
        worker.offer(chunk(number))
    take(trainer, 8)
    marks = trainer.marks
    rest = take(trainer, 12)
    trainer.close()
    again = TrainerSession.open(tmp_path / "journal", dial=relay.dial, hello=hello("trainer"))
    again.delivered(marks)
    assert again.incarnation == 2
    assert take(again, 12) == rest
    worker.offer(chunk(21))
    assert take(again, 1) == [(worker.id, 21, 21)]
    worker.close()
    again.close()


def test_trainer_session_with_a_lost_journal_takes_nothing_that_its_checkpoint_holds(
    tmp_path: Path, relay: MemoryRelay
) -> None:
    """The journal's folder is gone, the checkpoint is not, and the worker missed the last acknowledgements."""
    spool = Spool.open(tmp_path / "spool", limit=10**6)
    for number in range(1, 11):
        spool.append(chunk(number))
    spool.sync()
    spool.remove(4)
    worker = WorkerSession(spool, dial=relay.dial, hello=hello("worker"))
    trainer = TrainerSession.open(tmp_path / "journal", dial=relay.dial, hello=hello("trainer"))
    trainer.delivered({worker.id: 7})
    assert [number for _, _, number in take(trainer, 3)] == [8, 9, 10]
    assert trainer.marks == {worker.id: 10}
    wait_for(lambda: worker.status.acknowledged == 10)
    trainer.close()
    again = TrainerSession.open(tmp_path / "journal", dial=relay.dial, hello=hello("trainer"))
    again.delivered({worker.id: 9})
    assert [number for _, _, number in take(again, 1)] == [10]
    assert again.take(timeout=0.1) is None
    worker.close()
    again.close()


def test_sessions_survive_restarts_of_the_relay_and_broken_connections(tmp_path: Path, relay: MemoryRelay) -> None:
    worker = WorkerSession.open(tmp_path / "spool", dial=relay.dial, hello=hello("worker"))
    trainer = TrainerSession.open(tmp_path / "journal", dial=relay.dial, hello=hello("trainer"))
    found = []
    for number in range(1, 201):
        assert worker.offer(chunk(number), timeout=10.0)
        if number % 50 == 10:
            relay.stop()
        if number % 50 == 20:
            relay.start()
        if number % 50 == 40:
            relay.cut()
        if number % 5 == 0:
            time.sleep(0.01)
    found = take(trainer, 200)
    assert found == [(worker.id, number, number) for number in range(1, 201)]
    assert worker.status.link.connections > 1
    worker.close()
    trainer.close()


def test_worker_session_restart_keeps_id_and_sequence_and_sends_what_waits(tmp_path: Path, relay: MemoryRelay) -> None:
    relay.stop()
    worker = WorkerSession.open(tmp_path / "spool", dial=relay.dial, hello=hello("worker"))
    identity = worker.id
    for number in range(1, 11):
        worker.offer(chunk(number))
    worker.close()
    relay.start()
    trainer = TrainerSession.open(tmp_path / "journal", dial=relay.dial, hello=hello("trainer"))
    again = WorkerSession.open(tmp_path / "spool", dial=relay.dial, hello=hello("worker"))
    again.offer(chunk(11))
    assert take(trainer, 11) == [(identity, number, number) for number in range(1, 12)]
    again.report({"steps_per_second": 20.0})
    wait_for(lambda: bool(trainer.workers[identity].numbers))
    assert trainer.workers[identity].numbers == {"steps_per_second": 20.0}
    assert trainer.workers[identity].is_connected
    again.close(drain_seconds=5.0)
    wait_for(lambda: not trainer.workers[identity].is_connected)
    trainer.close()


def offer_until_full(worker: WorkerSession, first: int, size: int) -> int:
    """Offer chunks until none is taken for half a second; returns the number of the next one."""
    number = first
    while worker.offer(chunk(number, size), timeout=0.5):
        number += 1
        assert number < 10_000, "the worker's session takes chunks without bound"
    return number


def test_slow_trainer_leaves_spool_window_and_memory_bounded_and_nothing_is_lost(
    tmp_path: Path, relay: MemoryRelay
) -> None:
    window, spool_bytes, inbox_bytes, size = 20_000, 100_000, 50_000, 1_000
    worker = WorkerSession.open(
        tmp_path / "spool", dial=relay.dial, hello=hello("worker"), spool_bytes=spool_bytes, window=window
    )
    trainer = TrainerSession.open(
        tmp_path / "journal", dial=relay.dial, hello=hello("trainer"), inbox_bytes=inbox_bytes, window=window
    )
    count = offer_until_full(worker, 1, size)
    status = worker.status
    assert "is full: 0 MiB wait for the trainer; collecting goes on when it takes them" in status.pause
    assert 0.8 * spool_bytes < status.waiting_bytes <= spool_bytes + window + size
    assert not status.has_credit
    held = trainer.status
    assert inbox_bytes <= held.waiting_bytes <= inbox_bytes + window + 2 * size
    assert trainer._endpoint.memory_bytes <= inbox_bytes
    found = []
    while len(found) < 2_000:
        one = trainer.take(timeout=10.0)
        assert one is not None
        found.append(one.sequence)
        while worker.offer(chunk(count, size)):
            count += 1
        assert worker.status.waiting_bytes <= spool_bytes + window + size
        assert worker.status.in_flight_bytes <= window
        assert trainer._endpoint.memory_bytes <= inbox_bytes
    assert found == list(range(1, 2_001))
    worker.close()
    trainer.close()


def test_worker_session_without_a_trainer_fills_its_spool_and_says_so(tmp_path: Path, relay: MemoryRelay) -> None:
    worker = WorkerSession.open(
        tmp_path / "spool", dial=relay.dial, hello=hello("worker"), spool_bytes=20_000, window=5_000
    )
    count = offer_until_full(worker, 1, 1_000)
    assert worker.status.link.is_connected
    assert "is full" in worker.status.pause
    trainer = TrainerSession.open(tmp_path / "journal", dial=relay.dial, hello=hello("trainer"))
    take(trainer, count - 1)
    wait_for(lambda: worker.status.pause == "")
    assert worker.offer(chunk(count))
    take(trainer, 1)
    worker.close()
    trainer.close()


def test_worker_session_with_a_full_disk_pauses_and_goes_on(tmp_path: Path, relay: MemoryRelay) -> None:
    disk = SimulatedDisk(Random(1))
    worker = WorkerSession(Spool(disk, limit=10**6), dial=relay.dial, hello=hello("worker"), window=5_000)
    trainer = TrainerSession.open(tmp_path / "journal", dial=relay.dial, hello=hello("trainer"))
    disk.is_full = True
    count = offer_until_full(worker, 1, 1_000)
    assert "the disk of the spool 'simulated' is full; make room" in worker.status.pause
    disk.is_full = False
    assert worker.offer(chunk(count), timeout=10.0)
    assert [number for _, _, number in take(trainer, count)] == list(range(1, count + 1))
    worker.close()
    trainer.close()


def test_trainer_session_with_a_full_disk_acknowledges_nothing_and_goes_on(tmp_path: Path, relay: MemoryRelay) -> None:
    disk = SimulatedDisk(Random(2))
    worker = WorkerSession.open(tmp_path / "spool", dial=relay.dial, hello=hello("worker"))
    trainer = TrainerSession(Journal(disk), dial=relay.dial, hello=hello("trainer"))
    disk.is_full = True
    for number in range(1, 11):
        worker.offer(chunk(number))
    wait_for(lambda: trainer.status.problem != "")
    assert "the disk of the journal 'simulated' is full; make room, workers keep" in trainer.status.problem
    assert trainer.take(timeout=0.2) is None
    assert worker.status.acknowledged == 0
    disk.is_full = False
    assert [number for _, _, number in take(trainer, 10)] == list(range(1, 11))
    wait_for(lambda: trainer.status.problem == "" and worker.status.acknowledged == 10)
    worker.close()
    trainer.close()


def test_trainer_session_ends_with_a_sentence_when_its_disk_fails(tmp_path: Path, relay: MemoryRelay) -> None:
    disk = SimulatedDisk(Random(3))
    journal = Journal(disk)
    worker = WorkerSession.open(tmp_path / "spool", dial=relay.dial, hello=hello("worker"))
    trainer = TrainerSession(journal, dial=relay.dial, hello=hello("trainer"))

    def fail() -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    journal.sync = fail  # type: ignore[method-assign]
    worker.offer(chunk(1))
    with pytest.raises(PaddockError, match=r"a file cannot be written or read: .*Input/output error"):
        trainer.take(timeout=None)
    assert worker.status.acknowledged == 0
    trainer.close()
    worker.close()


def test_worker_session_says_why_it_was_refused_and_goes_on_trying(tmp_path: Path, relay: MemoryRelay) -> None:
    trainer = TrainerSession.open(tmp_path / "journal", dial=relay.dial, hello=hello("trainer"))
    wait_for(lambda: trainer.status.link.is_connected)
    other = msgspec.structs.replace(hello("worker"), experiment="other")
    worker = WorkerSession.open(tmp_path / "spool", dial=relay.dial, hello=other)
    wait_for(lambda: worker.status.link.is_refused)
    assert "plays the experiment 'other', the trainer learns 'tiny'" in worker.status.link.problem
    trainer.close()
    wait_for(lambda: worker.status.link.is_connected)
    assert not worker.status.link.is_refused
    worker.close()


def test_worker_session_dials_ever_more_seldom_while_its_connections_do_not_last(tmp_path: Path) -> None:
    dialled = []

    def dial(hello: Hello) -> Link:
        near, far = memory_pair()
        far.close()
        dialled.append(time.monotonic())
        return near

    worker = WorkerSession.open(tmp_path / "spool", dial=dial, hello=hello("worker"))
    time.sleep(1.5)
    worker.close()
    assert 2 <= len(dialled) <= 8
    assert not worker.status.link.is_connected
    assert worker.status.link.problem == "the other side closed the connection."


def test_worker_session_refuses_a_chunk_that_no_relay_lets_through(tmp_path: Path, relay: MemoryRelay) -> None:
    worker = WorkerSession.open(tmp_path / "spool", dial=relay.dial, hello=hello("worker"))
    with pytest.raises(InputError, match=r"a chunk of 1 transitions has 200,014 bytes; the relay lets \d+,\d+ through"):
        worker.offer(chunk(1, size=200_000))
    worker.close()


def test_second_trainer_session_of_another_run_is_refused(tmp_path: Path, relay: MemoryRelay) -> None:
    first = TrainerSession.open(tmp_path / "one", dial=relay.dial, hello=hello("trainer", "first"))
    wait_for(lambda: first.status.link.is_connected)
    another = msgspec.structs.replace(hello("trainer", "second"), run="another")
    second = TrainerSession.open(tmp_path / "two", dial=relay.dial, hello=another)
    wait_for(lambda: second.status.link.is_refused)
    assert "this relay already has the trainer 'first'" in second.status.link.problem
    first.close()
    wait_for(lambda: second.status.link.is_connected)
    second.close()


def test_restored_spool_of_a_worker_session_is_found_out(tmp_path: Path, relay: MemoryRelay) -> None:
    worker = WorkerSession.open(tmp_path / "spool", dial=relay.dial, hello=hello("worker"))
    worker.close()
    shutil.copytree(tmp_path / "spool", tmp_path / "copy")
    worker = WorkerSession.open(tmp_path / "spool", dial=relay.dial, hello=hello("worker"))
    trainer = TrainerSession.open(tmp_path / "journal", dial=relay.dial, hello=hello("trainer"))
    for number in range(1, 6):
        worker.offer(chunk(number))
    take(trainer, 5)
    worker.close()
    again = WorkerSession.open(tmp_path / "copy", dial=relay.dial, hello=hello("worker"))
    wait_for(lambda: again._connection.failure is not None)
    with pytest.raises(PaddockError, match="holds chunk 5 of this worker, whose last chunk is 0: its spool was"):
        again.offer(chunk(1))
    again.close()
    trainer.close()


def test_weights_of_sessions_only_grow_while_chunks_flow_and_connections_break(
    tmp_path: Path, relay: MemoryRelay
) -> None:
    workers = [
        WorkerSession.open(tmp_path / f"spool-{index}", dial=relay.dial, hello=hello("worker", f"worker {index}"))
        for index in range(3)
    ]
    trainer = TrainerSession.open(tmp_path / "journal", dial=relay.dial, hello=hello("trainer"))
    seen: list[list[int]] = [[], [], []]
    for number in range(1, 151):
        version = trainer.publish([bytes(10_000)])
        for worker, versions in zip(workers, seen, strict=True):
            assert worker.offer(chunk(number), timeout=10.0)
            if worker.weights is not None:
                versions.append(worker.weights.version)
        if number % 40 == 0:
            relay.cut()
        time.sleep(0.002)
    take(trainer, 450)
    for worker, versions in zip(workers, seen, strict=True):
        assert versions == sorted(versions)
        wait_for(lambda worker=worker: worker.weights is not None and worker.weights.version == version)  # type: ignore[misc]
        worker.close()
    trainer.close()


def test_checkpointed_marks_of_a_trainer_session_let_the_journal_shrink(tmp_path: Path, relay: MemoryRelay) -> None:
    worker = WorkerSession.open(tmp_path / "spool", dial=relay.dial, hello=hello("worker"))
    journal = Journal(FolderDisk(tmp_path / "journal", "a trainer's journal"), segment_bytes=10_000)
    trainer = TrainerSession(journal, dial=relay.dial, hello=hello("trainer"))
    for number in range(1, 101):
        worker.offer(chunk(number, 1_000))
    take(trainer, 90)
    assert trainer.status.journal_bytes > 100_000
    trainer.checkpointed(trainer.marks)
    assert trainer.status.journal_bytes < 40_000
    assert [number for _, _, number in take(trainer, 10)] == list(range(91, 101))
    worker.close()
    trainer.close()
