"""The state machines of delivery, one rule at a time; `test_relay_schedules` runs them together."""

from __future__ import annotations

import pytest

from paddock.core.specs import ArraySpec, Spec
from paddock.distributed.delivery.exchange import Exchange
from paddock.distributed.delivery.inbox import Answer, Inbox, Verdict
from paddock.distributed.delivery.outbox import Outbox, SequenceAhead
from paddock.distributed.delivery.versions import Versions, make_version, split_version
from paddock.distributed.wire.messages import (
    Chunk,
    Grant,
    Held,
    Hello,
    Joined,
    Left,
    Message,
    Order,
    Ping,
    Pong,
    Refusal,
    Report,
    Waiting,
    Weights,
    Welcome,
)

SPEC = Spec(
    observation={"state": ArraySpec(shape=(4,), dtype="float32")}, action=ArraySpec(shape=(1,), dtype="float32")
)
A, B = "a" * 16, "b" * 16
EMPTY = memoryview(b"")


def filled(count: int = 5, *, window: int = 1_000, size: int = 100) -> Outbox:
    outbox = Outbox(window=window, retry_seconds=5.0)
    for sequence in range(1, count + 1):
        outbox.spooled(sequence, size)
    outbox.connected(0.0)
    return outbox


def sent(outbox: Outbox, now: float = 0.0) -> list[int]:
    found = []
    while (sequence := outbox.next(now)) is not None:
        found.append(sequence)
    return found


def test_outbox_sends_nothing_without_credit_and_in_order_with_it() -> None:
    outbox = filled()
    assert sent(outbox) == []
    outbox.granted(1_000, 0.0)
    assert sent(outbox) == [1, 2, 3, 4, 5]
    assert outbox.in_flight_bytes == 500
    assert outbox.held(3, rewind=False, now=0.0) == 3
    assert outbox.in_flight_bytes == outbox.waiting_bytes == 200


def test_outbox_keeps_to_the_window_but_always_sends_one() -> None:
    outbox = filled(window=250)
    outbox.granted(1_000, 0.0)
    assert sent(outbox) == [1, 2]
    outbox.held(1, rewind=False, now=0.0)
    assert sent(outbox) == [3]
    small = filled(window=10)
    small.granted(10, 0.0)
    assert sent(small) == [1]


def test_outbox_sends_again_on_rewind_on_a_new_connection_and_after_a_time_without_progress() -> None:
    outbox = filled(3)
    outbox.granted(1_000, 0.0)
    assert sent(outbox) == [1, 2, 3]
    outbox.held(1, rewind=True, now=0.0)
    assert sent(outbox) == [2, 3]
    outbox.connected(1.0)
    assert sent(outbox, 1.0) == []
    outbox.granted(1_000, 1.0)
    assert sent(outbox, 1.0) == [2, 3]
    assert sent(outbox, 5.9) == []
    assert sent(outbox, 6.1) == [2, 3]
    assert sent(outbox, 11.2) == []  # The wait doubles.
    assert sent(outbox, 16.2) == [2, 3]
    assert outbox.sent_again == 8


def test_outbox_asks_when_it_waits_without_credit() -> None:
    outbox = filled(1)
    assert not outbox.asks(4.0)
    assert outbox.asks(5.1)
    assert not outbox.asks(6.0)
    outbox.granted(1_000, 7.0)
    assert not outbox.asks(20.0)


def test_outbox_refuses_an_acknowledgement_of_chunks_that_it_never_made() -> None:
    with pytest.raises(SequenceAhead, match="holds chunk 9 of this worker, whose last chunk is 5"):
        filled().held(9, rewind=False, now=0.0)


def journaled(inbox: Inbox, worker: str, *sequences: int) -> None:
    for sequence in sequences:
        assert inbox.arrived(worker, sequence, 1) is Verdict.JOURNAL
        inbox.journaled(worker, sequence)


def test_inbox_takes_the_next_chunk_only_and_acknowledges_what_was_synced() -> None:
    inbox = Inbox(limit=1_000, window=100)
    inbox.joined(A)
    assert inbox.answers(0.0) == [Answer(A, 0, 100, True)]
    journaled(inbox, A, 1, 2)
    assert inbox.answers(0.1) == []
    inbox.synced()
    assert inbox.answers(0.2) == [Answer(A, 2, 100, False)]
    assert inbox.arrived(A, 2, 1) is Verdict.DUPLICATE
    assert inbox.answers(0.3) == [Answer(A, 2, 100, False)]
    assert [inbox.arrived(A, 4, 1), inbox.arrived(A, 5, 1)] == [Verdict.GAP, Verdict.GAP]
    assert inbox.answers(0.4) == [Answer(A, 2, 100, True)]
    assert (inbox.duplicates, inbox.gaps) == (1, 2)
    assert inbox.answers(0.5) == []
    assert inbox.answers(1.5) == [Answer(A, 2, 100, False)]  # Repeated, in case it was lost.


def test_inbox_begins_a_worker_where_its_spool_begins_and_counts_what_is_gone() -> None:
    inbox = Inbox(limit=1_000, window=100)
    assert inbox.arrived(A, 57, 57) is Verdict.JOURNAL
    inbox.journaled(A, 57)
    assert inbox.missing == {}
    assert inbox.arrived(A, 60, 60) is Verdict.JOURNAL
    inbox.journaled(A, 60)
    assert inbox.missing == {A: 2}


def test_inbox_grants_shares_and_nothing_above_its_limit_until_half_is_free() -> None:
    inbox = Inbox(limit=1_000, window=800)
    inbox.joined(A)
    assert inbox.window == 800
    inbox.joined(B)
    assert inbox.window == 500
    inbox.queued(1_000)
    assert inbox.window == 0
    inbox.taken(400)
    assert inbox.window == 0
    inbox.taken(200)
    assert inbox.window == 300
    assert [answer.window for answer in inbox.answers(0.0, paused=True)] == [0, 0]


def test_versions_grow_over_incarnations_and_begin_anew_with_another_run() -> None:
    assert split_version(make_version(3, 7)) == (3, 7)
    versions = Versions()
    assert versions.admit("run", make_version(1, 9))
    assert not versions.admit("run", make_version(1, 9))
    assert not versions.admit("run", make_version(1, 8))
    assert versions.admit("run", make_version(2, 1))
    assert versions.admit("other", make_version(1, 1))


def hello(role: str, identity: str, *, run: str = "", incarnation: int = 0, experiment: str = "tiny") -> Hello:
    return Hello(
        role=role, name=f"{role} {identity[0]}", id=identity, run=run, incarnation=incarnation, experiment=experiment,
        spec=SPEC,
    )  # type: ignore[arg-type]  # fmt: skip


def outgoing(exchange: Exchange, connection: int) -> list[Message]:
    found = []
    while (one := exchange.next(connection)) is not None:
        found.append(one.message)
    return found


def chunk(worker: str, sequence: int) -> Chunk:
    return Chunk(worker, sequence, 1, 0)


@pytest.fixture
def exchange() -> Exchange:
    """Connection 1 is the trainer, 2 and 3 are workers."""
    made = Exchange(chunk_bytes=1_000)
    assert isinstance(made.connect(1, hello("trainer", "f" * 16, run="r", incarnation=1), 0.0), Welcome)
    assert isinstance(made.connect(2, hello("worker", A), 0.0), Welcome)
    assert isinstance(made.connect(3, hello("worker", B), 0.0), Welcome)
    joined = outgoing(made, 1)
    assert [type(message) for message in joined] == [Joined, Joined]
    return made


def test_exchange_passes_chunks_to_the_trainer_and_acknowledgements_to_the_worker(exchange: Exchange) -> None:
    exchange.receive(2, chunk(A, 1), memoryview(b"body"), 0.0)
    exchange.receive(2, Report(A, {"steps": 1.0}), EMPTY, 0.0)
    exchange.receive(2, Waiting(A), EMPTY, 0.0)
    assert exchange.awake() >= {1}
    assert outgoing(exchange, 1) == [Report(A, {"steps": 1.0}), Waiting(A), chunk(A, 1)]
    exchange.receive(1, Held(A, 1), EMPTY, 0.0)
    exchange.receive(1, Held(A, 2, rewind=True), EMPTY, 0.0)
    exchange.receive(1, Held(A, 3), EMPTY, 0.0)
    exchange.receive(1, Grant(2_000, A), EMPTY, 0.0)
    assert outgoing(exchange, 2) == [Held(A, 3, rewind=True), Grant(500, A)]
    assert outgoing(exchange, 3) == []
    exchange.receive(3, Ping(5), EMPTY, 0.0)
    assert outgoing(exchange, 3) == [Pong(5)]


def test_exchange_drops_chunks_without_room_and_asks_for_them_when_there_is(exchange: Exchange) -> None:
    exchange.receive(1, Grant(1_000), EMPTY, 0.0)
    assert outgoing(exchange, 2) == [Grant(500, A)]
    outgoing(exchange, 3)
    for sequence in range(1, 8):
        exchange.receive(2, chunk(A, sequence), memoryview(bytes(300)), 0.0)
    assert exchange.waiting_chunk_bytes(1) == 900
    assert exchange.dropped_chunks == 4
    assert outgoing(exchange, 2) == [Grant(0, A)]
    assert outgoing(exchange, 1) == [chunk(A, 1), chunk(A, 2), chunk(A, 3)]
    assert outgoing(exchange, 2) == [Held(A, 0, rewind=True), Grant(500, A)]


def test_exchange_takes_credit_away_while_there_is_no_trainer(exchange: Exchange) -> None:
    exchange.disconnect(1, 1.0)
    assert outgoing(exchange, 2) == [Grant(0, A)]
    exchange.receive(2, chunk(A, 1), memoryview(b"body"), 1.0)
    assert exchange.dropped_chunks == 1
    assert isinstance(exchange.connect(4, hello("trainer", "f" * 16, run="r", incarnation=2), 2.0), Welcome)
    assert [message.worker for message in outgoing(exchange, 4) if isinstance(message, Joined)] == [A, B]
    exchange.disconnect(2, 3.0)
    assert outgoing(exchange, 4) == [Left(A, "the worker's connection ended.")]


def weights(version: int) -> Weights:
    return Weights(version, Order(), 4, run="r")


def test_exchange_keeps_the_newest_weights_for_late_joiners_and_skips_older_ones(exchange: Exchange) -> None:
    for version in (3, 5, 4):
        exchange.receive(1, weights(version), memoryview(bytes(4)), 0.0)
    assert outgoing(exchange, 2) == [weights(5)]
    assert exchange.waiting_bytes(3) == 4
    exchange.connect(4, hello("worker", "c" * 16), 0.0)
    assert weights(5) in outgoing(exchange, 4)
    assert outgoing(exchange, 3)[0] == weights(5)
    assert exchange.status(1.0).version == 5


def test_exchange_has_one_trainer_and_a_newer_process_of_its_run_replaces_it(exchange: Exchange) -> None:
    other = exchange.connect(4, hello("trainer", "e" * 16, run="other", incarnation=9), 0.0)
    assert isinstance(other, Refusal)
    assert other.reason.startswith("this relay already has the trainer 'trainer f' (run 'r').")
    assert isinstance(exchange.connect(5, hello("trainer", "f" * 16, run="r", incarnation=2), 0.0), Welcome)
    assert exchange.closings() == [(1, "this run's trainer opened a newer connection.")]
    exchange.receive(1, weights(7), memoryview(bytes(4)), 0.0)  # of the replaced one
    assert exchange.status(0.0).version is None
    late = exchange.connect(6, hello("trainer", "f" * 16, run="r", incarnation=1), 0.0)
    assert isinstance(late, Refusal)


def test_exchange_replaces_a_worker_that_connects_again(exchange: Exchange) -> None:
    assert isinstance(exchange.connect(4, hello("worker", A), 1.0), Welcome)
    assert exchange.closings() == [(2, "this worker opened a newer connection.")]
    exchange.receive(2, chunk(A, 1), memoryview(b"old"), 1.0)
    exchange.receive(4, chunk(A, 1), memoryview(b"new"), 1.0)
    assert [one for one in outgoing(exchange, 1) if isinstance(one, Chunk)] == [chunk(A, 1)]


def test_exchange_refuses_a_worker_of_another_experiment(exchange: Exchange) -> None:
    refused = exchange.connect(4, hello("worker", "c" * 16, experiment="other"), 0.0)
    assert isinstance(refused, Refusal)
    assert "plays the experiment 'other', the trainer learns 'tiny'" in refused.reason


def test_exchange_closes_a_connection_that_sends_what_its_role_must_not(exchange: Exchange) -> None:
    exchange.receive(2, weights(9), memoryview(bytes(4)), 0.0)
    assert exchange.closings() == [(2, "a worker sent a Weights that it must not send.")]
    exchange.receive(3, chunk(A, 1), memoryview(b"body"), 0.0)  # another worker's
    assert exchange.closings() == [(3, "a worker sent a Chunk that it must not send.")]


def test_exchange_lets_chunks_through_while_reports_never_end(exchange: Exchange) -> None:
    exchange.receive(2, chunk(A, 1), memoryview(b"body"), 0.0)
    found: list[Message] = []
    for number in range(40):
        exchange.receive(3, Report(B, {"number": float(number)}), EMPTY, 0.0)
        one = exchange.next(1)
        assert one is not None
        found.append(one.message)
    assert chunk(A, 1) in found
