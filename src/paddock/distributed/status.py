"""`paddock relay status`: asking a relay on this machine who is connected, and showing the answer."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from paddock import __version__
from paddock.core.errors import InputError
from paddock.core.reading import DamagedError, read_bytes
from paddock.core.text import printable
from paddock.distributed.wire.addresses import Invitation, LocalAddress, write_private
from paddock.distributed.wire.certificates import RelayFolder
from paddock.distributed.wire.dial import dial
from paddock.distributed.wire.link import Unreachable
from paddock.distributed.wire.messages import Hello, Peer, Status, StatusReply

LISTENING = "listening.json"
TIMEOUT = 5.0  # seconds
COLUMNS = {  # of a worker's own numbers: heading, factor, how they are written
    "steps_per_second": ("steps/s", 1.0, "{:,.0f}"),
    "version_lag": ("lag", 1.0, "{:.0f}"),
    "round_trip": ("round trip", 1_000.0, "{:.1f} ms"),
    "return": ("last return", 1.0, "{:.1f}"),
    "spool_bytes": ("spool", 2.0**-20, "{:,.1f} MiB"),
}


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """Where the relay of a folder listens; written when it starts."""

    host: str
    port: int
    process: int


def write_listening(folder: Path, host: str, port: int) -> None:
    values = Listening(host=host, port=port, process=os.getpid())
    write_private(folder / LISTENING, msgspec.json.encode(values))


def ask_status(folder: Path) -> StatusReply:
    """What the relay of this folder answers; a sentence where none runs."""
    hello = Hello("operator", "operator", os.urandom(8).hex(), paddock=__version__, sent=time.time())
    link = dial(_operator_address(folder), hello, timeout=TIMEOUT)
    try:
        link.send(Status())
        deadline = time.monotonic() + TIMEOUT
        while (left := deadline - time.monotonic()) > 0:
            received = link.receive(left)
            if received is not None and isinstance(received.message, StatusReply):
                return received.message
    finally:
        link.close()
    raise Unreachable("the relay took the connection, but did not answer.")


def _operator_address(folder: Path) -> Invitation | LocalAddress:
    relay = RelayFolder(folder)
    if not relay.has_certificates:
        return LocalAddress.read(folder)
    path = folder / LISTENING
    if not path.exists():
        raise InputError(f"the relay of '{folder}' was never started. Start it: paddock relay")
    try:
        listening = msgspec.json.decode(read_bytes(path, limit=4_096), type=Listening)
    except msgspec.DecodeError as error:
        raise DamagedError(path, f"it does not say where a relay listens ({error})") from error
    return dataclasses.replace(relay.operator(), host=listening.host, port=listening.port)


def status_lines(reply: StatusReply) -> Iterator[Any]:
    """What to print: a sentence, the trainer, a table of workers."""
    from rich.table import Table

    weights = "no weights yet" if reply.version is None else f"weights {_version(reply.version)}"
    yield f"relay (Paddock {reply.paddock}) running for {_duration(reply.running_for)}, {weights}"
    yield _trainer_line(reply.trainer)
    if not reply.workers:
        yield "no workers"
        return
    table = Table("worker", "host", "connected", "chunks", *(heading for heading, _, _ in COLUMNS.values()))
    for worker in reply.workers:
        own = [_number(key, worker.numbers) for key in COLUMNS]
        place = printable(worker.host or worker.address)
        table.add_row(printable(worker.name), place, _duration(worker.connected_for), f"{worker.held:,}", *own)
    yield table


def _trainer_line(trainer: Peer | None) -> str:
    if trainer is None:
        return "no trainer: workers keep what they collect until one connects"
    name, run = printable(trainer.name), printable(trainer.run)
    return f"trainer '{name}' (run '{run}', {printable(trainer.experiment)}), {_duration(trainer.connected_for)}"


def _number(key: str, numbers: dict[str, float | str]) -> str:
    value = numbers.get(key)
    if value is None or isinstance(value, str):
        return printable(value or "-")
    _, factor, form = COLUMNS[key]
    return form.format(factor * value)


def _version(version: int) -> str:
    """As `incarnation.count`."""
    return f"{version >> 32}.{version & 0xFFFFFFFF}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
