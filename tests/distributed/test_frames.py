"""Messages as pieces: the same after the way there, however the body was given and whoever passed it on."""

from __future__ import annotations

import numpy as np
import pytest

from paddock.distributed.wire.frames import PIECE, Assembler, Forwarder, pieces
from paddock.distributed.wire.messages import LARGEST_MESSAGE, Order, Ping, ProtocolError, Report, Weights

SIZES = [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE + 7]


def cut(data: bytes, seed: int) -> list[memoryview]:
    """The same bytes as a body of several buffers."""
    places = sorted(np.random.default_rng(seed).integers(0, len(data) + 1, 5)) if seed else []
    return [memoryview(data)[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


def sent(feed, message, body) -> list:
    found = [feed(piece) for piece in pieces(message, body)]
    assert all(one is None for one in found[:-1])
    return found[-1]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(4))
def test_frames_carry_bodies_of_every_size(size, seed):
    data = np.random.default_rng(size).bytes(size)
    message = Weights(1, Order(), size)
    got = sent(Assembler(lambda _: size).feed, message, cut(data, seed))
    assert got.message == message
    assert got.body == data
    assert got.body.readonly


@pytest.mark.parametrize("size", SIZES)
def test_frames_are_passed_on_without_a_copy(size):
    data = np.random.default_rng(size).bytes(size)
    message = Weights(1, Order(), size)
    came = list(pieces(message, [data]))
    forwarder = Forwarder(lambda _: size)
    found = [forwarder.feed(piece) for piece in came][-1]
    assert found is not None
    assert found[1].nbytes == size
    again = list(pieces(found[0], found[1].parts))
    assert again == came
    if size > PIECE:
        assert all(one is other for one, other in zip(again[1:], came[1:], strict=True))


def test_frames_follow_each_other():
    assembler = Assembler(lambda _: 2 * PIECE)
    for number in range(3):
        assert sent(assembler.feed, Ping(number), ()).message == Ping(number)
        assert sent(assembler.feed, Weights(1, Order(), 2 * PIECE), [bytes(2 * PIECE)]).body.nbytes == 2 * PIECE


def test_frames_refuse_a_message_that_is_too_long_before_it_is_sent():
    numbers = {f"{number:0250d}": 0.0 for number in range(5_000)}
    with pytest.raises(ProtocolError, match=f"more than the {LARGEST_MESSAGE:,} allowed"):
        next(pieces(Report("0" * 16, numbers)))
