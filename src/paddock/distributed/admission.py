"""Who a relay lets in: by the certificate of an invitation that is on its list, or by the token of this machine."""

from __future__ import annotations

import hmac
import os
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from paddock.distributed.wire.addresses import LOCAL_FILE, LocalAddress, make_private_folder, token_code
from paddock.distributed.wire.certificates import InvitationList, RelayFolder, serial_of
from paddock.distributed.wire.messages import Hello, Proof


class NotAdmitted(Exception):
    """A peer that may not connect; the sentence is for its person."""


class ByToken:
    """Loopback only: every process that can read this user's files has the token. It is proven, never sent."""

    def __init__(self, folder: Path, port: int) -> None:
        """Keep the token that is there, so that workers find a relay that was started again."""
        make_private_folder(folder)
        known = LocalAddress.read(folder).token if (folder / LOCAL_FILE).exists() else ""
        self._token = known or secrets.token_urlsafe(32)
        self.file = LocalAddress(port=port, token=self._token).write(folder)

    def challenge(self) -> bytes | None:
        return os.urandom(16)

    def identify(self, certificate: bytes | None) -> str:
        return ""  # Everyone with the token is the same person.

    def check(self, challenge: bytes, proof: Proof) -> bytes:
        """The relay's own proof for a peer that has the token; raises NotAdmitted for others."""
        expected = token_code(self._token, "peer", challenge, proof.nonce)
        if not hmac.compare_digest(expected, proof.code):
            raise NotAdmitted(
                f"this relay does not know the token that was given. Read it from '{LOCAL_FILE}' in the folder of the "
                "relay that runs now."
            )
        return token_code(self._token, "relay", challenge, proof.nonce)

    def admit(self, identity: str, hello: Hello) -> Hello:
        return hello

    def is_revoked(self, identity: str) -> bool:
        return False


class ByCertificate:
    """Anywhere: TLS has checked that the certificate is ours; the list says whether it still counts."""

    def __init__(self, folder: RelayFolder) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._list: InvitationList | None = None

    def challenge(self) -> bytes | None:
        return None

    def check(self, challenge: bytes, proof: Proof) -> bytes:
        raise NotAdmitted("this relay takes connections with an invitation only.")

    def identify(self, certificate: bytes | None) -> str:
        """The serial number of a peer's certificate; raises NotAdmitted."""
        if certificate is None:
            raise NotAdmitted("this relay takes connections with an invitation only.")
        return serial_of(certificate)

    def admit(self, identity: str, hello: Hello) -> Hello:
        """The Hello with the invited name in it; raises NotAdmitted."""
        found = self._listed().by_serial(identity)
        if found is None:
            raise NotAdmitted("this relay's list of invitations does not have this one. Make a new invitation.")
        if found.revoked is not None:
            raise NotAdmitted(f"the invitation of '{found.name}' was revoked. Make a new one on the relay's machine.")
        if found.expires < time.time():
            raise NotAdmitted(f"the invitation of '{found.name}' expired. Make a new one on the relay's machine.")
        if found.role != hello.role:
            raise NotAdmitted(
                f"the invitation of '{found.name}' is for a {found.role}, and a {hello.role} came with it. Make one "
                f"with: paddock relay invite NAME --role {hello.role}"
            )
        own = f"{found.name}/{hello.name}"[:128] if hello.name != found.name else found.name
        return replace(hello, name=own)

    def is_revoked(self, identity: str) -> bool:
        found = self._listed().by_serial(identity)
        return found is None or found.revoked is not None or found.expires < time.time()

    def _listed(self) -> InvitationList:
        """The list, read again when its file changed."""
        with self._lock:
            status = (self._folder.path / "invitations.json").stat()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            if self._list is None or stamp != self._stamp:
                self._list, self._stamp = self._folder.invitations(), stamp
            return self._list


Admission = ByToken | ByCertificate


def certificate_of(auth_context: Mapping[str, Sequence[bytes]]) -> bytes | None:
    """The peer's certificate in what gRPC knows about a connection."""
    found = auth_context.get("x509_pem_cert")
    return found[0] if found else None
