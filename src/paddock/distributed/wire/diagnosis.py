"""Why a relay could not be reached, in one sentence: gRPC says only that it could not."""

from __future__ import annotations

import os
import socket
import ssl
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from paddock.core.errors import PaddockError
from paddock.distributed.wire.addresses import SERVER_NAME, Invitation, LocalAddress
from paddock.distributed.wire.link import Refused, Unreachable

LONGEST_PROBE = 0.8  # seconds
ALERTS = {  # what a relay's TLS answers to a client's certificate
    "UNKNOWN_CA": "was made by another relay, or before this one was initialised anew",
    "CERTIFICATE_EXPIRED": "has expired by the relay's clock",
    "CERTIFICATE_REVOKED": "was revoked",
    "CERTIFICATE_REQUIRED": "holds no certificate",
    "BAD_CERTIFICATE": "was made by another relay, or is damaged",
    "CERTIFICATE_UNKNOWN": "was made by another relay, or is not valid by the relay's clock",
    "DECRYPT_ERROR": "was made by another relay, or is damaged",
    "UNSUPPORTED_CERTIFICATE": "is not meant for a client",
}


def explain(address: Invitation | LocalAddress, reason: str, deadline: float) -> PaddockError:
    """The error for a connection that failed before the relay answered. reason: what gRPC made of it."""
    limit = max(0.1, min(LONGEST_PROBE, deadline - time.monotonic()))
    try:
        with socket.create_connection((address.host, address.port), limit) as connection:
            if isinstance(address, Invitation):
                return _explain_tls(address, connection) or Unreachable(_plain(address, reason))
    except ssl.SSLError as error:
        return Refused(_tls_sentence(address, error))
    except OSError as error:
        return Unreachable(
            f"no relay answers at {address.target} ({_words(error)}). Is `paddock relay` running there, and is the "
            "port open?"
        )
    return Unreachable(_plain(address, reason))


def _plain(address: Invitation | LocalAddress, reason: str) -> str:
    return f"something answers at {address.target}, but no connection to a relay came about: {reason}"


def _explain_tls(invitation: Invitation, connection: socket.socket) -> PaddockError | None:
    """Shake hands once more, with a TLS that says what was wrong. None where nothing was."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    try:
        context.load_verify_locations(cadata=invitation.authority)
        with _as_file(invitation.certificate + invitation.key) as path:
            context.load_cert_chain(path)
    except ssl.SSLError:
        return Refused(
            f"the certificate in the invitation of '{invitation.name}' is damaged; ask for a new invitation."
        )
    with context.wrap_socket(connection, server_hostname=SERVER_NAME) as wrapped:
        try:
            # In TLS 1.3 a client's certificate is refused after its handshake. A relay that took it begins to speak.
            is_taken = bool(wrapped.recv(1))
        except TimeoutError:
            return None
        except ConnectionError:
            is_taken = False
    return None if is_taken else Refused(_not_taken(invitation, f"{ALERTS['UNKNOWN_CA']}, or it has expired there"))


def _tls_sentence(address: Invitation | LocalAddress, error: ssl.SSLError) -> str:
    name = address.name if isinstance(address, Invitation) else ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"what answers at {address.target} is not the relay that made the invitation of '{name}' "
            f"({error.verify_message}). Check the address, or ask for a new invitation."
        )
    for alert, meaning in ALERTS.items():
        if alert in (error.reason or ""):
            return _not_taken(address, meaning)
    return f"what answers at {address.target} does not speak a relay's TLS ({error.reason or 'no reason given'})."


def _not_taken(address: Invitation | LocalAddress, meaning: str) -> str:
    name = address.name if isinstance(address, Invitation) else ""
    return (
        f"the relay at {address.target} does not take the invitation of '{name}': it {meaning}. Make a new one on the "
        f"relay's machine: paddock relay invite {name}"
    )


def _words(error: OSError) -> str:
    return (error.strerror or str(error) or type(error).__name__).lower()


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """A path under which `ssl` can read a secret; in memory where the system can do that."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("paddock", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(text)
        file.flush()
        yield file.name
