"""A relay on real sockets: who gets in and who does not, chunks one way, weights the other, and its end."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec
from paddock.distributed.relay import RelayServer
from paddock.distributed.wire.addresses import LocalAddress
from paddock.distributed.wire.certificates import RelayFolder
from paddock.distributed.wire.dial import check_validity, dial
from paddock.distributed.wire.frames import pieces
from paddock.distributed.wire.link import LinkClosed, Refused, Unreachable
from paddock.distributed.wire.messages import (
    Challenge,
    Chunk,
    Grant,
    Held,
    Joined,
    Left,
    Order,
    Ping,
    Pong,
    Weights,
    Welcome,
)
from relay_cases import SPEC, WORKER, TestRelay, hello, receive, received_message, relay_log

grpc = pytest.importorskip("grpc")


@pytest.fixture(params=["tls", "local"])
def relay(request, tmp_path):
    made = TestRelay(tmp_path / "relay", tls=request.param == "tls")
    yield made
    made.close()


@pytest.fixture
def tls_relay(tmp_path):
    made = TestRelay(tmp_path / "relay", tls=True)
    yield made
    made.close()


def refused(what) -> tuple[str, float]:
    """The sentence of a refusal, and after how many seconds it came."""
    start = time.monotonic()
    with pytest.raises(Refused) as caught:
        what()
    return str(caught.value), time.monotonic() - start


def test_relay_carries_chunks_to_the_trainer_and_acknowledgements_back(relay):
    trainer, worker = relay.dial("trainer", "learner"), relay.dial("worker", "pc")
    joined = received_message(trainer, Joined)
    assert (joined.worker, joined.hello.name) == (WORKER, "pc")
    trainer.send(Grant(10**6, WORKER))
    assert received_message(worker, Grant).window > 0
    body = os.urandom(9_000)
    worker.send(Chunk(WORKER, 1, 50, 0, b"header"), [body[:4_000], body[4_000:]])
    chunk = receive(trainer, Chunk)
    assert chunk.message == Chunk(WORKER, 1, 50, 0, b"header")
    assert chunk.body == body
    trainer.send(Held(WORKER, 1))
    assert received_message(worker, Held).sequence == 1
    worker.close()
    assert received_message(trainer, Left).worker == WORKER


@pytest.mark.parametrize("size", [0, 1, 2**20, 2**20 + 1, 9 * 2**20 + 13])
def test_relay_carries_weights_of_every_size_and_keeps_them_for_late_joiners(relay, size):
    trainer, body = relay.dial("trainer", "learner"), os.urandom(size)
    trainer.send(Weights(7, Order("rollouts", 64), size), [body])
    trainer.send(Ping(1))
    received_message(trainer, Pong)
    worker = relay.dial("worker", "late")
    weights = receive(worker, Weights)
    assert (weights.message.version, weights.message.order.steps) == (7, 64)
    assert weights.body == body


def test_relay_gives_a_slow_worker_the_newest_weights_and_skips_others(relay):
    trainer, slow, quick = relay.dial("trainer", "learner"), relay.dial("worker", "slow"), None
    quick = relay.dial("worker", "quick", id="c" * 16)
    size = 8 * 2**20
    for version in range(1, 13):
        trainer.send(Weights(version, Order(), size), [bytes(size)])
        received_message(quick, Weights)
    seen = []
    while not seen or seen[-1] != 12:
        seen.append(received_message(slow, Weights).version)
    assert seen == sorted(set(seen))
    assert len(seen) < 12


def test_relay_answers_a_ping_while_it_carries_weights(relay):
    trainer, worker = relay.dial("trainer", "learner"), relay.dial("worker", "pc")
    size = 2 * 2**20
    sending = threading.Thread(
        target=lambda: [trainer.send(Weights(version, Order(), size), [bytes(size)]) for version in range(1, 20)]
    )
    sending.start()
    for number in range(10):
        worker.send(Ping(number))
        assert received_message(worker, Pong).number == number
    sending.join()


@pytest.mark.parametrize(
    ("role", "changes", "words"),
    [
        ("worker", {"experiment": "pendulum"}, "plays the experiment 'pendulum', the trainer learns 'racing'"),
        ("worker", {"protocol": 99}, "speaks version 99 of the relay's protocol"),
        (
            "worker",
            {"spec": Spec(observation=SPEC.observation, action=ArraySpec(shape=(3,), dtype="float32"))},
            "the action has the shape",
        ),
        ("worker", {"spec": None}, "sent no Spec"),
        ("trainer", {"run": "run-2", "id": "d" * 16}, "already has the trainer 'learner'"),
    ],
)
def test_relay_refuses_with_one_sentence_within_a_second(relay, caplog, role, changes, words):
    trainer = relay.dial("trainer", "learner")
    sentence, seconds = refused(lambda: relay.dial(role, "other", **changes))
    assert words in sentence
    assert seconds < 1
    assert len([line for line in relay_log(caplog) if words in line]) == 1
    trainer.send(Ping(1))
    received_message(trainer, Pong)


def test_relay_replaces_the_half_open_connection_of_the_same_run(relay):
    address = relay.address("learner", "trainer")
    first = relay.dial("trainer", "learner", address=address)
    second = relay.dial("trainer", "learner", address=address, incarnation=1)
    second.send(Ping(5))
    assert received_message(second, Pong).number == 5
    with pytest.raises(LinkClosed, match="newer connection"):
        receive(first, Pong)


def test_relay_with_a_token_refuses_another_token(tmp_path, caplog):
    relay = TestRelay(tmp_path / "relay", tls=False)
    try:
        known = LocalAddress.read(relay.path)
        assert (relay.path / "local.json").stat().st_mode & 0o777 == 0o600
        assert relay.path.stat().st_mode & 0o777 == 0o700
        for token in ("", "guess", known.token[:-1]):
            address = dataclasses.replace(known, token=token)
            sentence, seconds = refused(lambda address=address: relay.dial(address=address))
            assert "does not know the token" in sentence
            assert seconds < 1
        assert known.token not in caplog.text + repr(known)
        assert "guess" not in caplog.text
    finally:
        relay.close()


def test_relay_with_a_token_keeps_it_over_restarts(tmp_path):
    first = RelayServer(tmp_path / "relay", port=0)
    first.start()
    token = LocalAddress.read(tmp_path / "relay").token
    first.stop()
    second = RelayServer(tmp_path / "relay", port=0)
    second.start()
    try:
        assert LocalAddress.read(tmp_path / "relay").token == token
    finally:
        second.stop()


def test_relay_without_certificates_listens_on_the_loopback_only(tmp_path):
    for host in ("0.0.0.0", "192.0.2.7", "::", "example.org"):
        with pytest.raises(InputError, match="paddock relay init"):
            RelayServer(tmp_path / "relay", host=host, port=0).start()


def test_relay_says_that_its_port_is_in_use(tmp_path):
    first = RelayServer(tmp_path / "one", port=0)
    first.start()
    try:
        with pytest.raises(InputError, match="the port is in use"):
            RelayServer(tmp_path / "two", port=first.port).start()
    finally:
        first.stop()


def test_relay_that_is_not_there_is_unreachable_within_a_second(tmp_path):
    relay = RelayServer(tmp_path / "relay", port=0)
    relay.start()
    address = LocalAddress.read(tmp_path / "relay")
    relay.stop()
    start = time.monotonic()
    with pytest.raises(Unreachable, match="no relay answers at 127"):
        dial(address, hello())
    assert time.monotonic() - start < 1


def test_relay_that_stops_says_so_and_takes_its_peers_back(tmp_path):
    relay = TestRelay(tmp_path / "relay", tls=False)
    worker = relay.dial()
    relay.server.stop()
    with pytest.raises(LinkClosed, match="the relay was stopped"):
        receive(worker, Pong)
    with pytest.raises(LinkClosed):
        worker.send(Ping(1))
    again = RelayServer(tmp_path / "relay", port=relay.port)
    again.start()
    try:
        link = relay.dial()
        link.send(Ping(3))
        assert received_message(link, Pong).number == 3
    finally:
        link.close()
        again.stop()


def test_dial_refuses_a_relay_that_does_not_have_the_token(tmp_path):
    """Another program took the relay's port: it says yes to everything, and never sees the token."""
    heard = []

    def serve(requests, _):
        yield from pieces(Challenge(bytes(16)))
        heard.append(next(requests) + next(requests))
        yield from pieces(Welcome("pc", proof=bytes(32)))

    class Handler(grpc.GenericRpcHandler):
        def service(self, _):
            return grpc.stream_stream_rpc_method_handler(serve)

    server = grpc.server(ThreadPoolExecutor(2), handlers=[Handler()])
    address = LocalAddress(port=server.add_insecure_port("127.0.0.1:0"), token="the secret")
    server.start()
    sentence, seconds = refused(lambda: dial(address, hello()))
    server.stop(0)
    assert "does not have the relay's token" in sentence
    assert seconds < 1
    assert b"the secret" not in heard[0]


# --- invitations ---


def test_relay_refuses_a_revoked_invitation_and_closes_its_connection(tls_relay, caplog):
    address = tls_relay.address("pc", "worker")
    worker, other = tls_relay.dial(address=address), tls_relay.dial(name="other", id="c" * 16)
    tls_relay.folder.revoke("pc")
    start = time.monotonic()
    with pytest.raises(LinkClosed, match="revoked"):
        receive(worker, Pong)
    assert time.monotonic() - start < 1
    sentence, seconds = refused(lambda: tls_relay.dial(address=address))
    assert "the invitation of 'pc' was revoked" in sentence
    assert seconds < 1
    other.send(Ping(1))
    received_message(other, Pong)
    assert len([line for line in relay_log(caplog) if "was revoked" in line]) == 2


def test_relay_refuses_an_invitation_for_another_role(tls_relay):
    sentence, _ = refused(lambda: tls_relay.dial("trainer", "pc", address=tls_relay.address("pc", "worker")))
    assert "is for a worker, and a trainer came with it" in sentence


def test_relay_calls_a_peer_by_the_name_of_its_invitation(tls_relay):
    trainer = tls_relay.dial("trainer", "learner")
    tls_relay.dial("worker", "somebody", address=tls_relay.address("pc", "worker"))
    assert received_message(trainer, Joined).hello.name == "pc/somebody"


def test_relay_lets_no_invitation_take_the_place_of_another_ones_worker(tls_relay):
    first = tls_relay.dial("worker", "pc")
    sentence, _ = refused(lambda: tls_relay.dial("worker", "thief"))
    assert "is connected with another invitation" in sentence
    first.send(Ping(1))
    received_message(first, Pong)


def test_relay_refuses_the_invitation_of_another_authority(tls_relay, tmp_path):
    other = RelayFolder(tmp_path / "other")
    other.initialise("127.0.0.1", tls_relay.port)
    foreign = other.invite("pc", "worker")
    sentence, seconds = refused(lambda: tls_relay.dial(address=foreign))
    assert "is not the relay that made the invitation of 'pc'" in sentence
    assert seconds < 1
    ours = tls_relay.address("pc", "worker")
    mixed = dataclasses.replace(foreign, authority=ours.authority)
    sentence, seconds = refused(lambda: tls_relay.dial(address=mixed))
    assert "does not take the invitation of 'pc': it was made by another relay" in sentence
    assert seconds < 1


@pytest.mark.parametrize(("shift", "words"), [(400 * 86_400, "expired on"), (-2 * 86_400, "this machine's clock says")])
def test_relay_invitation_out_of_its_time_is_refused_before_dialling(tls_relay, shift, words):
    address = tls_relay.address("pc", "worker")
    with pytest.raises(Refused, match=words):
        check_validity(address, time.time() + shift)
    moved = dataclasses.replace(address, begins=address.begins - shift, expires=address.expires - shift)
    tls_relay.server.stop()
    sentence, seconds = refused(lambda: dial(moved, hello()))
    assert words in sentence
    assert seconds < 1


def test_relay_refuses_an_invitation_that_expired_by_its_own_clock(tls_relay):
    """The peer's clock is behind: only the relay can know."""
    expired = tls_relay.folder._invite("pc", "worker", days=-0.5, port=tls_relay.port)
    assert expired.expires < time.time()
    behind = dataclasses.replace(expired, expires=time.time() + 1_000)
    sentence, seconds = refused(lambda: tls_relay.dial(address=behind))
    assert "does not take the invitation of 'pc'" in sentence
    assert "expired" in sentence
    assert seconds < 1


def test_relay_warns_of_a_clock_that_is_an_hour_off_and_goes_on(relay, caplog):
    for shift, word in ((-3_600, "behind"), (3_600, "ahead of")):
        link = relay.dial("worker", f"pc{shift}", sent=time.time() + shift, id=f"{shift & 0xFFFF:016x}")
        assert f"3,600 s {word} the relay's" in link.welcome.warning
        link.send(Ping(1))
        received_message(link, Pong)
    assert len([line for line in relay_log(caplog) if "the clock of" in line]) == 2


def test_relay_writes_no_secret_to_its_log(tls_relay, caplog):
    caplog.set_level("DEBUG")
    address = tls_relay.address("pc", "worker")
    tls_relay.dial(address=address).close()
    tls_relay.folder.revoke("pc")
    refused(lambda: tls_relay.dial(address=address))
    lines = [line for line in address.key.splitlines() if "PRIVATE" not in line]
    shown = caplog.text + repr(address) + str(tls_relay.server.status())
    assert not any(line in shown for line in lines)
