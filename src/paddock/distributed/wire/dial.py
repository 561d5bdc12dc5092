"""Opening a connection to a relay: the client's end of a gRPC stream, for workers, trainers and `relay status`.

Nothing here listens. Every failure is a sentence: Refused where a person has to act, Unreachable where time may help.
"""

from __future__ import annotations

import hmac
import os
import threading
import time
from datetime import UTC, datetime
from typing import Any, TypeVar

from paddock.distributed.wire.addresses import SERVER_NAME, Invitation, LocalAddress, token_code
from paddock.distributed.wire.channel import COMMON_OPTIONS, METHOD, PieceQueue, load_grpc
from paddock.distributed.wire.diagnosis import explain
from paddock.distributed.wire.frames import Assembler, pieces
from paddock.distributed.wire.link import WINDOW, Buffers, Link, LinkClosed, Mailbox, Received, Refused, Unreachable
from paddock.distributed.wire.messages import (
    Challenge,
    Hello,
    Message,
    Proof,
    ProtocolError,
    Refusal,
    Welcome,
    body_limit,
)

A = TypeVar("A", Challenge, Welcome)

PURPOSE = "A connection to a relay"
CLOSED_HERE = "the connection was closed here."
OPTIONS = [
    *COMMON_OPTIONS,
    ("grpc.use_local_subchannel_pool", 1),  # Every dial begins anew, without another one's back-off.
    ("grpc.enable_retries", 0),
]


class StreamLink:
    """The client's end of a connection to a relay. welcome: the relay's answer to the Hello."""

    welcome: Welcome

    def __init__(self, channel: Any, hello: Hello) -> None:
        self._channel, self._hello = channel, hello
        self._outgoing, self._incoming = PieceQueue(), Mailbox(WINDOW)
        self._call = channel.stream_stream(METHOD)(iter(self._outgoing))
        self._error: Any = None
        self._reader = threading.Thread(target=self._read, name="paddock-relay-reader", daemon=True)
        self._reader.start()

    def send(self, message: Message, body: Buffers = ()) -> None:
        for piece in pieces(message, body):
            self._outgoing.put(piece)

    def receive(self, timeout: float) -> Received | None:
        received = self._incoming.get(timeout)
        if received is not None and isinstance(received.message, Refusal):
            self._end(received.message.reason)
            raise LinkClosed(received.message.reason)
        return received

    def close(self) -> None:
        self._end(CLOSED_HERE)
        self._reader.join(1.0)

    def shake_hands(self, deadline: float, local: LocalAddress | None) -> None:
        """Introduce oneself and wait for the answer. Raises Refused, LinkClosed, or TimeoutError.

        local: of a relay without certificates; then both sides show first that they have its token.
        """
        expected = b""
        if local is not None:
            challenge, nonce = self._answer(Challenge, deadline).nonce, os.urandom(16)
            self.send(Proof(nonce, token_code(local.token, "peer", challenge, nonce)))
            expected = token_code(local.token, "relay", challenge, nonce)
        self.send(self._hello)
        self.welcome = self._answer(Welcome, deadline)
        if not hmac.compare_digest(self.welcome.proof, expected):
            raise Refused("what answers at this address does not have the relay's token.")

    def _answer(self, kind: type[A], deadline: float) -> A:
        received = self._incoming.get(max(0.0, deadline - time.monotonic()))
        if received is None:
            raise TimeoutError
        if isinstance(received.message, Refusal):
            raise Refused(received.message.reason)
        if not isinstance(received.message, kind):
            raise Refused("what answers at this address is not a relay of Paddock.")
        return received.message

    @property
    def error(self) -> Any:
        """gRPC's own error, once the connection failed."""
        return self._error

    def _end(self, reason: str) -> None:
        self._outgoing.close(reason)
        self._incoming.close(reason, drop=True)
        self._call.cancel()
        self._channel.close()

    def _read(self) -> None:
        grpc = load_grpc(PURPOSE)
        assembler = Assembler(lambda message: body_limit(message, self._hello.spec))
        reason = "the relay ended the connection."
        try:
            for piece in self._call:
                received = assembler.feed(piece)
                if received is not None:
                    self._incoming.put(received, len(piece) + received.body.nbytes)
        except grpc.RpcError as error:
            self._error = error
            reason = _reason(error)
        except ProtocolError as error:
            reason = f"the relay sent what it must not send: {error}."
            self._call.cancel()
        except LinkClosed as closed:
            reason = closed.reason
        self._incoming.close(reason)
        self._outgoing.close(reason)


def dial(address: Invitation | LocalAddress, hello: Hello, *, timeout: float = 10.0) -> Link:
    """Connect to a relay and introduce oneself. Raises Refused or Unreachable within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    if isinstance(address, Invitation):
        check_validity(address, time.time())
    link = _open(address, hello)
    try:
        link.shake_hands(deadline, address if isinstance(address, LocalAddress) else None)
    except BaseException as error:
        link.close()
        if isinstance(error, TimeoutError):
            raise Unreachable(f"the relay at {address.target} did not answer within {timeout:.0f} s.") from None
        if isinstance(error, LinkClosed):
            raise explain(address, error.reason, deadline) from None
        raise
    return link


def check_validity(invitation: Invitation, now: float) -> None:
    """Refuse an invitation that is over, or not yet valid by this machine's clock, without a word to the relay."""
    if now > invitation.expires:
        raise Refused(
            f"the invitation of '{invitation.name}' expired on {_day(invitation.expires)}. Make a new one on the "
            f"relay's machine: paddock relay invite {invitation.name}"
        )
    if now < invitation.begins:
        raise Refused(
            f"the invitation of '{invitation.name}' is valid from {_day(invitation.begins)}, and this machine's clock "
            f"says {_day(now)}. Set the clock."
        )


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _open(address: Invitation | LocalAddress, hello: Hello) -> StreamLink:
    grpc = load_grpc(PURPOSE)
    if isinstance(address, Invitation):
        credentials = grpc.ssl_channel_credentials(
            address.authority.encode(), address.key.encode(), address.certificate.encode()
        )
        options = [*OPTIONS, ("grpc.ssl_target_name_override", SERVER_NAME)]
        channel = grpc.secure_channel(address.target, credentials, options)
    else:
        channel = grpc.insecure_channel(address.target, [*OPTIONS, ("grpc.enable_http_proxy", 0)])
    return StreamLink(channel, hello)


def _reason(error: Any) -> str:
    code = error.code()
    words = {
        "UNAVAILABLE": "the connection to the relay broke.",
        "CANCELLED": "the relay ended the connection.",
        "RESOURCE_EXHAUSTED": "the relay is full, or a message was too large for it.",
        "UNIMPLEMENTED": "what answers at this address is not a relay of this version of Paddock.",
    }
    return words.get(code.name, f"the connection to the relay failed ({code.name.lower()}).")
