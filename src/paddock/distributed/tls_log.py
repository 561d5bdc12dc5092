"""One line in the relay's log for peers that TLS refused: gRPC writes about them to standard error, and only there."""

from __future__ import annotations

import logging
import os
import threading
import time

log = logging.getLogger(__name__)

MARK = b"Handshake failed"
QUIET_SECONDS = 2.0  # A peer tries twice within this; scanners try all day.
MEANINGS = {
    b"PEER_DID_NOT_RETURN_A_CERTIFICATE": "it has no certificate",
    b"CERTIFICATE_VERIFY_FAILED": "its certificate is not of this relay's authority, or is not valid by this clock",
    b"WRONG_VERSION_NUMBER": "it does not speak TLS",
    b"HTTP_REQUEST": "it does not speak TLS",
    b"UNKNOWN_CA": "it does not trust this relay's authority",
}


class TlsLog:
    """Takes standard error's place until it is closed: lines about TLS become log lines, all others pass through."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self.descriptor = os.dup(2)  # where standard error went before
        reading, writing = os.pipe()
        os.dup2(writing, 2)
        os.close(writing)
        self._thread = threading.Thread(target=self._read, args=(reading,), name="paddock-tls-log", daemon=True)
        self._thread.start()

    def close(self) -> None:
        os.dup2(self.descriptor, 2)  # The pipe's last writing end goes, so its thread ends with the last line.
        self._thread.join(1.0)

    def _read(self, reading: int) -> None:
        with os.fdopen(reading, "rb") as lines:
            for line in lines:
                if MARK not in line:
                    os.write(self.descriptor, line)
                    continue
                self._refused(meaning_of(line))

    def _refused(self, meaning: str) -> None:
        now = time.monotonic()
        if now - self._last.get(meaning, -QUIET_SECONDS) >= QUIET_SECONDS:
            log.warning("TLS refused a peer: %s", meaning)
        self._last[meaning] = now


def meaning_of(line: bytes) -> str:
    """What a line of gRPC about a failed handshake says, in our words: nothing of the peer's is quoted."""
    return next((meaning for mark, meaning in MEANINGS.items() if mark in line), "the handshake failed")
