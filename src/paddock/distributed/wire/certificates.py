"""A relay's private certificate authority: who may connect, for how long, and who no longer.

Everything lies in one folder of mode 0700. A peer is known by the serial number of its certificate, which has to be in
the list of invitations; so one that is taken off the list is refused although its certificate is still valid.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from paddock.core.errors import InputError, unknown_choice
from paddock.core.lazy import require
from paddock.core.reading import DamagedError, read_bytes
from paddock.core.system import lock, open_file
from paddock.distributed.wire.addresses import DEFAULT_PORT, SERVER_NAME, Invitation, make_private_folder, write_private
from paddock.distributed.wire.messages import Role

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate

AUTHORITY, AUTHORITY_KEY = "authority.pem", "authority.key"
RELAY, RELAY_KEY = "relay.pem", "relay.key"
LIST = "invitations.json"
LOCK = "lock"
AUTHORITY_DAYS, DEFAULT_DAYS, MOST_DAYS = 3_650, 365, 3_650
BACKDATED = timedelta(days=1)  # so that a clock that is some hours late finds a new certificate valid
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
OPERATOR = "operator"
OPERATOR_FILE = "operator.json"
ROLES = ("worker", "trainer")
LARGEST_LIST = 4 * 2**20  # bytes
PURPOSE = "A relay with certificates"


class Invited(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the list. serial: of the certificate, in hex; expires: seconds since 1970."""

    serial: str
    name: str
    role: Role
    expires: float
    revoked: float | None = None  # when


class InvitationList(msgspec.Struct, frozen=True, kw_only=True):
    """Everyone who was ever invited, and where the relay is reached."""

    format: Literal[1] = 1
    host: str
    port: int
    invited: list[Invited] = []

    def by_serial(self, serial: str) -> Invited | None:
        return next((one for one in self.invited if one.serial == serial), None)

    def valid(self, name: str, now: float) -> Invited | None:
        """The invitation of this name that can still be used."""
        live = (one for one in self.invited if one.name == name and one.revoked is None and one.expires > now)
        return next(live, None)


class RelayFolder:
    """The folder of one relay."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def has_certificates(self) -> bool:
        return (self.path / LIST).exists()

    def initialise(self, host: str, port: int = DEFAULT_PORT) -> None:
        """Make the authority, the relay's own certificate, and the operator's, with which `relay status` asks."""
        x509 = require("cryptography.x509", extra="relay", purpose=PURPOSE)
        make_private_folder(self.path)
        with self._locked():
            if self.has_certificates:
                raise InputError(
                    f"'{self.path}' already has a relay's certificates. Remove the folder to begin anew; every "
                    "invitation becomes void then."
                )
            key = _new_key()
            until = timedelta(days=AUTHORITY_DAYS)
            authority = _sign(_subject(x509, "Paddock relay authority"), key, None, None, until=until)
            self._write(AUTHORITY_KEY, _key_pem(key))
            self._write(AUTHORITY, _pem(authority))
            relay_key = _new_key()
            relay = _sign(_subject(x509, SERVER_NAME), relay_key, authority, key, until=until, is_server=True)
            self._write(RELAY_KEY, _key_pem(relay_key))
            self._write(RELAY, _pem(relay))
            self._keep(InvitationList(host=host, port=port))  # last: its presence says that all is there
        self._invite(OPERATOR, "operator", days=AUTHORITY_DAYS - 1).write(self.path / OPERATOR_FILE)

    def invite(self, name: str, role: str, *, days: int = DEFAULT_DAYS, host: str = "", port: int = 0) -> Invitation:
        """A certificate for one worker or trainer. host, port: of the relay, if not as `initialise` said."""
        if role not in ROLES:
            raise unknown_choice("role", role, ROLES)
        if not NAME.fullmatch(name):
            raise InputError(
                f"'{name[:80]}' cannot be the name of a {role}: use up to 63 letters, digits, '-', '_' and '.', and "
                "begin with a letter or a digit."
            )
        if not 1 <= days <= MOST_DAYS:
            raise InputError(f"an invitation is valid for 1 to {MOST_DAYS:,} days, got {days}.")
        return self._invite(name, "worker" if role == "worker" else "trainer", days=days, host=host, port=port)

    def _invite(self, name: str, role: Role, *, days: int, host: str = "", port: int = 0) -> Invitation:
        x509 = require("cryptography.x509", extra="relay", purpose=PURPOSE)
        with self._locked():
            listed = self.invitations()
            if listed.valid(name, time.time()):
                raise InputError(
                    f"'{name}' is invited already. Take another name, or first: paddock relay revoke {name}"
                )
            authority, authority_key = self._authority()
            key = _new_key()
            certificate = _sign(_subject(x509, name), key, authority, authority_key, until=timedelta(days=days))
            expires = certificate.not_valid_after_utc.timestamp()
            entry = Invited(serial=f"{certificate.serial_number:x}", name=name, role=role, expires=expires)
            self._keep(msgspec.structs.replace(listed, invited=[*listed.invited, entry]))
        return Invitation(
            name=name,
            role=role,
            host=host or listed.host,
            port=port or listed.port,
            authority=_pem(authority).decode(),
            certificate=_pem(certificate).decode(),
            key=_key_pem(key).decode(),
            begins=certificate.not_valid_before_utc.timestamp(),
            expires=expires,
        )

    def revoke(self, name: str) -> None:
        """Refuse this peer from now on; a relay that runs closes its connections within a second."""
        with self._locked():
            listed = self.invitations()
            live = listed.valid(name, time.time())
            if live is None or live.role == OPERATOR:
                known = [one.name for one in listed.invited if one.revoked is None and one.name != OPERATOR]
                raise unknown_choice("invitation", name, known)
            gone = msgspec.structs.replace(live, revoked=time.time())
            invited = [gone if one.serial == live.serial else one for one in listed.invited]
            self._keep(msgspec.structs.replace(listed, invited=invited))

    def invitations(self) -> InvitationList:
        """The list as it stands on the disk."""
        path = self.path / LIST
        if not path.exists():
            raise InputError(f"'{self.path}' has no relay's certificates yet. Make them: paddock relay init")
        try:
            return msgspec.json.decode(read_bytes(path, limit=LARGEST_LIST), type=InvitationList)
        except msgspec.DecodeError as error:
            raise DamagedError(path, f"it is not a list of invitations ({error})") from error

    def operator(self) -> Invitation:
        """With what `paddock relay status` asks the relay of this folder."""
        return Invitation.read(self.path / OPERATOR_FILE)

    def server_files(self) -> tuple[bytes, bytes, bytes]:
        """The relay's key, its certificate and the authority's certificate."""
        found = [read_bytes(self.path / name, limit=2**16) for name in (RELAY_KEY, RELAY, AUTHORITY)]
        return found[0], found[1], found[2]

    def _authority(self) -> tuple[Certificate, EllipticCurvePrivateKey]:
        x509 = require("cryptography.x509", extra="relay", purpose=PURPOSE)
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key = load_pem_private_key(read_bytes(self.path / AUTHORITY_KEY, limit=2**16), None)
            certificate = x509.load_pem_x509_certificate(read_bytes(self.path / AUTHORITY, limit=2**16))
        except (ValueError, TypeError):
            raise InputError(
                f"the authority in '{self.path}' is damaged. Restore the folder from a copy, or remove it and begin "
                "anew with: paddock relay init"
            ) from None
        assert isinstance(key, EllipticCurvePrivateKey)
        return certificate, key

    def _write(self, name: str, data: bytes) -> None:
        write_private(self.path / name, data)

    def _keep(self, listed: InvitationList) -> None:
        self._write(LIST, msgspec.json.format(msgspec.json.encode(listed)))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Two commands at once do not lose one another's lines."""
        if not self.path.is_dir():
            raise InputError(f"'{self.path}' has no relay's certificates yet. Make them: paddock relay init")
        descriptor = open_file(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            lock(descriptor, wait=True)
            yield
        finally:
            os.close(descriptor)


def serial_of(certificate_pem: bytes) -> str:
    """The serial number of a certificate, in hex."""
    x509 = require("cryptography.x509", extra="relay", purpose=PURPOSE)
    return f"{x509.load_pem_x509_certificate(certificate_pem).serial_number:x}"


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _key_pem(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives import serialization as form

    return key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())


def _pem(certificate: Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _subject(x509, name: str):  # type: ignore[no-untyped-def]
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _sign(  # type: ignore[no-untyped-def]
    subject, key, issuer: Certificate | None, issuer_key, *, until: timedelta, is_server: bool = False
) -> Certificate:
    """A certificate; without an issuer an authority's own. Only the relay's is good for a server."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID

    now = datetime.now(UTC)
    is_authority = issuer is None
    public = key.public_key()
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + until)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(_usage(x509, is_authority), critical=True)
    )
    if issuer is not None:
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if is_server else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=True).add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
    if is_server:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(SERVER_NAME)]), critical=False)
    return builder.sign(key if issuer is None else issuer_key, hashes.SHA256())


def _usage(x509, is_authority: bool):  # type: ignore[no-untyped-def]
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
