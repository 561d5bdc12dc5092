"""The relay's messages: every one travels unchanged, and what is none of them is refused with a sentence."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from paddock.core.specs import ArraySpec, Spec
from paddock.distributed.wire import messages as wire

SPEC = Spec(
    observation={"rays": ArraySpec(shape=(19,), dtype="float32", low=0.0, high=float("inf"))},
    action=ArraySpec(shape=(2,), dtype="float32", low=-1.0, high=1.0),
    is_dict=True,
)
HELLO = wire.Hello("worker", "pc", "0123456789abcdef", experiment="racing", spec=SPEC, sent=1.5)
EVERY = [
    HELLO,
    wire.Challenge(bytes(16)),
    wire.Proof(bytes(16), bytes(32)),
    wire.Welcome("pc", warning="late", proof=bytes(32)),
    wire.Refusal("no"),
    wire.Chunk("0123456789abcdef", 3, 20, 1 << 32, b"\x00header"),
    wire.Held("0123456789abcdef", 0),
    wire.Grant(2**20),
    wire.Grant(0, "0123456789abcdef"),
    wire.Waiting("0123456789abcdef"),
    wire.Joined("0123456789abcdef", HELLO),
    wire.Left("0123456789abcdef", "gone"),
    wire.Weights(5, wire.Order("rollouts", 64), 12),
    wire.Report("0123456789abcdef", {"steps_per_second": 20.0, "track": "oval"}),
    wire.Ping(7),
    wire.Pong(7),
    wire.Status(),
    wire.StatusReply("0.1", 3.0, None, [wire.Peer("worker", "pc", "0123456789abcdef")]),
]


@pytest.mark.parametrize("message", EVERY, ids=lambda message: type(message).__name__)
def test_messages_travel_unchanged(message):
    assert wire.decode(wire.encode(message)) == message


def test_messages_of_every_kind_are_tested():
    assert {type(message) for message in EVERY} == set(wire.Message.__args__)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80",
        b"GET / HTTP/1.1",
        msgspec.msgpack.encode({"type": "chunk"}),
        msgspec.msgpack.encode({"type": "held", "worker": "../../etc", "sequence": 1}),
        msgspec.msgpack.encode({"type": "held", "worker": "0123456789abcdef\n", "sequence": 1}),
        msgspec.msgpack.encode({"type": "held", "worker": "0123456789abcdef", "sequence": -1}),
        msgspec.msgpack.encode({"type": "weights", "version": 1, "order": {"type": "order"}, "size": 2**40}),
        b"\x91" * 100_000,
    ],
)
def test_messages_that_are_none_are_refused(data):
    with pytest.raises(wire.ProtocolError, match="not a message"):
        wire.decode(data)


def test_messages_from_random_bytes_are_refused():
    random = np.random.default_rng(0)
    for _ in range(5_000):
        data = random.bytes(int(random.integers(0, 80)))
        with pytest.raises(wire.ProtocolError):
            wire.decode(data)


def test_messages_body_limit_follows_the_spec_of_the_handshake():
    chunk = wire.Chunk("0123456789abcdef", 1, 20, 0)
    needed = 20 * (2 * 19 * 4 + 2 * 4 + 4 + 2)
    assert needed <= wire.body_limit(chunk, SPEC) < 200_000
    assert wire.body_limit(wire.Ping(1), SPEC) == 0
    assert wire.body_limit(wire.Weights(1, wire.Order(), 500)) == 500


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"experiment": "pendulum"}, "plays the experiment 'pendulum', the trainer learns 'racing'"),
        ({"spec": msgspec.structs.replace(SPEC, observation={})}, "lacks rays"),
        (
            {"spec": msgspec.structs.replace(SPEC, action=ArraySpec(shape=(3,), dtype="float32"))},
            r"the action has the shape \[3\] there and \[2\] at the trainer",
        ),
        (
            {
                "spec": msgspec.structs.replace(
                    SPEC, observation={"rays": ArraySpec(shape=(19,), dtype="float64", low=0.0, high=float("inf"))}
                )
            },
            "'rays' has the dtype float64 there",
        ),
    ],
)
def test_mismatch_names_the_first_difference(changes, words):
    trainer = msgspec.structs.replace(HELLO, role="trainer", name="learner")
    assert wire.mismatch(trainer, HELLO) is None
    other = wire.mismatch(trainer, msgspec.structs.replace(HELLO, **changes))
    assert other is not None
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(other)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"protocol": 99}, "version 99"),
        ({"spec": None}, "no Spec"),
        ({"spec": Spec(observation={}, action=ArraySpec(shape=(-1,), dtype="float32"))}, "which no array has"),
        ({"spec": Spec(observation={}, action=ArraySpec(shape=(1,), dtype="O"))}, "dtype 'O'"),
    ],
)
def test_check_hello_says_what_cannot_be_understood(changes, words):
    assert wire.check_hello(HELLO) is None
    found = wire.check_hello(msgspec.structs.replace(HELLO, **changes))
    assert found is not None
    assert words in found
