"""Seeded schedules of faults: exactly-once delivery holds, and machines that were broken on purpose are found."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from relay_simulator import Machines, Violation, World, run_schedule

from paddock.distributed.chunk_files import OutgoingChunk
from paddock.distributed.delivery.exchange import Exchange, Outgoing, _Peer
from paddock.distributed.delivery.inbox import Inbox, Verdict
from paddock.distributed.delivery.outbox import Outbox
from paddock.distributed.delivery.versions import Versions
from paddock.distributed.endpoints import Outgoing as Message
from paddock.distributed.endpoints import TrainerEndpoint, WorkerEndpoint
from paddock.distributed.journal import Journal
from paddock.distributed.spool import Spool

SCHEDULES = 1_000
SEEDS_TO_FIND_A_MUTANT = 100


@pytest.mark.parametrize("first", range(0, SCHEDULES, SCHEDULES // 4))
def test_relay_schedules_deliver_every_chunk_once_and_in_order(first: int) -> None:
    for seed in range(first, first + SCHEDULES // 4):
        run_schedule(seed)  # A Violation names the seed: python benchmarks/relay_schedules.py --seed N


def test_relay_schedules_contain_every_kind_of_fault() -> None:
    """Schedules that happen to be harmless would prove nothing."""
    notes: list[str] = []
    worlds = [run_schedule(seed, note=notes.append) for seed in range(150)]
    for what in (
        "is killed", "loses power", "dies in a disk operation", "the relay dies", "is cut off", "breaks", "drops Chunk",
        "drops Held", "is full", "cannot start", "newer connection",
    ):  # fmt: skip
        assert any(what in note for note in notes), what
    totals = [world.trainer.endpoint.inbox for world in worlds]
    assert sum(inbox.duplicates for inbox in totals) > 50
    assert sum(inbox.gaps for inbox in totals) > 10
    assert sum(world.exchange.dropped_chunks for world in worlds if world.exchange) > 30
    assert sum(len(worker.durable) for world in worlds for worker in world.workers) > 2_000
    assert any(world.trainer.endpoint.journal.incarnation > 3 for world in worlds)


def test_relay_schedule_is_the_same_for_the_same_seed() -> None:
    def notes_of(seed: int) -> list[str]:
        notes: list[str] = []
        run_schedule(seed, note=notes.append)
        return notes

    assert notes_of(11) == notes_of(11) != notes_of(12)


class AcknowledgesBeforeSyncing(Inbox):
    def journaled(self, worker: str, sequence: int) -> int:
        missing = super().journaled(worker, sequence)
        self.synced()
        return missing


class TakesDuplicates(Inbox):
    def arrived(self, worker: str, sequence: int, oldest: int) -> Verdict:
        super().arrived(worker, sequence, oldest)
        return Verdict.JOURNAL if sequence <= self._streams[worker].journaled + 1 else Verdict.GAP


class TakesGaps(Inbox):
    def arrived(self, worker: str, sequence: int, oldest: int) -> Verdict:
        return super().arrived(worker, sequence, sequence)


class RemovesWhatWasSent(WorkerEndpoint):
    def next_outgoing(self, now: float) -> Message | None:
        outgoing = super().next_outgoing(now)
        self.spool.remove(self.outbox._sent)
        return outgoing


class SendsBeforeSyncing(WorkerEndpoint):
    def store(self, chunk: OutgoingChunk) -> bool:
        is_stored = super().store(chunk)
        if is_stored:
            self.stored()
        return is_stored


class NeverSendsAgain(Outbox):
    def held(self, sequence: int, *, rewind: bool, now: float) -> int:
        self._retry = float("inf")
        return super().held(sequence, rewind=False, now=now)


class IgnoresItsWindow(Outbox):
    def granted(self, window: int, now: float) -> None:
        super().granted(window, now)
        self._window = 10 * self._limit if window else 0


class QueuesWithoutBound(Exchange):
    def _pass_chunk(self, connection: int, worker: _Peer, outgoing: Outgoing) -> None:
        limit, self._limit = self._limit, 2**40
        super()._pass_chunk(connection, worker, outgoing)
        self._limit = limit

    def _grant(self, connection: int, window: int, *, remember: bool = True) -> None:
        limit, self._limit = self._limit, 2**40
        super()._grant(connection, window, remember=remember)
        self._limit = limit


class TakesAnyWeights(WorkerEndpoint):
    def __init__(self, spool: Spool, outbox: Outbox, *, cache_bytes: int) -> None:
        super().__init__(spool, outbox, cache_bytes=cache_bytes)
        self._versions = AnyVersion()


class AnyVersion(Versions):
    def admit(self, run: str, version: int) -> bool:
        return True


class ForgetsToSendWeightsAgain(TrainerEndpoint):
    def connected(self, now: float) -> None:
        super().connected(now)
        self._has_new_weights = False


class ForgetsTooMuch(Journal):
    def forget(self, marks: object) -> None:
        super().forget(self.held)


class TrustsWhatAKilledProcessWrote(Journal):
    def _open(self) -> None:
        disk = self._disk
        disk.sync_folder, kept = lambda: None, disk.sync_folder  # type: ignore[method-assign]
        for ordinal in self._log.segments:
            file = self._log._segments[ordinal].file
            file.sync = lambda: None  # type: ignore[method-assign]
        super()._open()
        disk.sync_folder = kept  # type: ignore[method-assign]
        for ordinal in self._log.segments:
            vars(self._log._segments[ordinal].file).pop("sync", None)


MUTANTS: dict[str, Machines] = {
    "acknowledges before syncing": Machines(inbox=AcknowledgesBeforeSyncing),
    "takes duplicates": Machines(inbox=TakesDuplicates),
    "takes gaps": Machines(inbox=TakesGaps),
    "removes what was sent": Machines(worker=RemovesWhatWasSent),
    "sends before syncing": Machines(worker=SendsBeforeSyncing),
    "never sends again": Machines(outbox=NeverSendsAgain),
    "ignores its window": Machines(outbox=IgnoresItsWindow),
    "queues without bound": Machines(exchange=QueuesWithoutBound),
    "takes any weights": Machines(worker=TakesAnyWeights),
    "forgets to send weights again": Machines(trainer=ForgetsToSendWeightsAgain),
    "forgets too much": Machines(journal=ForgetsTooMuch),
    "trusts what a killed process wrote": Machines(journal=TrustsWhatAKilledProcessWrote),
}


def first_violation(machines: Machines, seeds: Sequence[int]) -> str | None:
    for seed in seeds:
        try:
            World(seed, machines).run()
        except Violation as violation:
            return str(violation)
    return None


@pytest.mark.parametrize("mutant", MUTANTS)
def test_relay_schedules_find_what_was_broken_on_purpose(mutant: str) -> None:
    found = first_violation(MUTANTS[mutant], range(SEEDS_TO_FIND_A_MUTANT))
    assert found is not None, f"no schedule noticed a machine that {mutant}"
