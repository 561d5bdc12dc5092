"""A pair of Links in memory: order, bounds, closing."""

from __future__ import annotations

import threading
import time

import pytest

from paddock.distributed.wire.link import LinkClosed, memory_pair
from paddock.distributed.wire.messages import Order, Ping, ProtocolError, Weights


def test_memory_link_carries_messages_and_bodies_in_order():
    one, other = memory_pair()
    one.send(Ping(1))
    one.send(Weights(2, Order(), 5), [b"ab", memoryview(b"cde")])
    first, second = other.receive(1), other.receive(1)
    assert first is not None
    assert first.message == Ping(1)
    assert second is not None
    assert second.message == Weights(2, Order(), 5)
    assert bytes(second.body) == b"abcde"
    assert other.receive(0) is None


def test_memory_link_refuses_a_body_where_none_may_follow():
    one, _ = memory_pair()
    with pytest.raises(ProtocolError, match="more than the 0"):
        one.send(Ping(1), [b"x"])


def test_memory_link_holds_up_the_sender_while_the_window_is_full():
    one, other = memory_pair(window=1_000)
    body = bytes(800)
    for _ in range(2):
        thread = threading.Thread(target=lambda: one.send(Weights(1, Order(), 800), [body]))
        thread.start()
        thread.join(0.1)
    assert thread.is_alive()
    assert other.receive(1) is not None
    thread.join(1)
    assert not thread.is_alive()


def test_memory_link_closed_by_the_other_side_is_read_to_the_end():
    one, other = memory_pair()
    one.send(Ping(1))
    one.close()
    assert other.receive(1) is not None
    with pytest.raises(LinkClosed, match="other side closed"):
        other.receive(1)
    with pytest.raises(LinkClosed):
        other.send(Ping(2))


def test_memory_link_severed_wakes_who_waits():
    one, other = memory_pair()
    threading.Timer(0.05, one.sever).start()
    start = time.monotonic()
    with pytest.raises(LinkClosed, match="broke"):
        other.receive(5)
    assert time.monotonic() - start < 1
