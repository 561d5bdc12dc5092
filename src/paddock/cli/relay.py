"""`paddock relay`: the one place where workers and a trainer meet, and who may connect to it."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from paddock.cli.help import RunningGroup

app = typer.Typer(
    pretty_exceptions_enable=False,
    cls=RunningGroup,
    epilog="""
Examples:
  paddock relay                                       on this machine only, with a token file
  paddock relay init --address play.example.org       certificates, once
  paddock relay invite garage-pc --role worker        one file for another machine
  paddock relay status
""",
)

FolderOption = Annotated[
    Path | None,
    typer.Option("--config-folder", metavar="DIR", help="Certificates and token; PADDOCK_HOME/relay by default."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
PORT_HELP = "The port; 55580 by default."


@app.callback(invoke_without_command=True)
def relay(
    ctx: typer.Context,
    host: Annotated[str, typer.Option(help="The address to listen on; with certificates all of this machine's.")] = "",
    port: Annotated[int | None, typer.Option(min=0, max=65535, help=PORT_HELP + " 0 takes a free one.")] = None,
    config_folder: FolderOption = None,
) -> None:
    """Run the relay: workers send transitions through it to a trainer, which sends weights back.

    Workers and trainer dial out to it, so that only the relay's machine needs an open port. Without certificates it
    takes connections from this machine only; `init` and `invite` let other machines in, over mutual TLS.
    """
    ctx.obj = config_folder
    if ctx.invoked_subcommand is not None:
        return
    from paddock.core.memory import keep_freed_memory
    from paddock.distributed.relay import CHUNK_BYTES, KEPT_PIECES, RelayServer
    from paddock.distributed.tls_log import TlsLog

    server = RelayServer(_folder(ctx, None), host=host, port=_port(ctx, port))
    keep_freed_memory(KEPT_PIECES, CHUNK_BYTES)
    tls_log = TlsLog()
    try:
        _show_log(tls_log.descriptor)
        server.start()
        _announce(server)
        stopped = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stopped.set())
        stopped.wait()
        server.stop()
    finally:
        tls_log.close()


@app.command("init")
def init(
    ctx: typer.Context,
    address: Annotated[
        str | None,
        typer.Option(metavar="HOST[:PORT]", help="Where other machines reach this one; its own address by default."),
    ] = None,
    config_folder: FolderOption = None,
) -> None:
    """Make a private certificate authority and the relay's own certificate."""
    from paddock.distributed.wire.certificates import RelayFolder

    folder = RelayFolder(_folder(ctx, config_folder))
    host, port = _address(address) if address else (_own_address(), 0)
    folder.initialise(host, *([port] if port else []))
    listed = folder.invitations()
    typer.echo(f"certificates: {folder.path} (for you alone; authority.key signs invitations for any machine)")
    typer.echo(f"other machines will look for the relay at {listed.host}, port {listed.port}")
    typer.echo("next: paddock relay invite NAME --role worker|trainer")


@app.command("invite")
def invite(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="What the relay calls this machine.")],
    role: Annotated[str, typer.Option(help="worker or trainer.")] = "worker",
    days: Annotated[int, typer.Option(help="Days until it expires.")] = 365,
    address: Annotated[
        str | None,
        typer.Option(metavar="HOST[:PORT]", help="Where it reaches the relay, if not as `init` said."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file to write; NAME.invitation.json by default.")
    ] = None,
    config_folder: FolderOption = None,
) -> None:
    """Write the one file that a worker's or a trainer's machine needs. It holds a private key."""
    from paddock.core.errors import InputError
    from paddock.distributed.wire.certificates import RelayFolder

    path = output or Path(f"{name}.invitation.json")
    if path.exists():
        raise InputError(f"'{path}' exists already; give another --output, or remove it first.")
    host, port = _address(address) if address else ("", 0)
    invitation = RelayFolder(_folder(ctx, config_folder)).invite(name, role, days=days, host=host, port=port)
    invitation.write(path)
    typer.echo(f"{path}: {role} '{name}', {days} days, relay at {invitation.target}")
    typer.echo("It holds a private key: copy it over a safe way, and remove it here.")


@app.command("revoke")
def revoke(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="The name of an invitation.")],
    config_folder: FolderOption = None,
) -> None:
    """Refuse a machine from now on; a running relay closes its connections within a second."""
    from paddock.distributed.wire.certificates import RelayFolder

    RelayFolder(_folder(ctx, config_folder)).revoke(name)
    typer.echo(f"{name}: revoked")


@app.command("status")
def status(ctx: typer.Context, as_json: JsonOption = False, config_folder: FolderOption = None) -> None:
    """Which workers and which trainer are connected to the relay that runs on this machine."""
    import msgspec

    from paddock.distributed.status import ask_status, status_lines

    reply = ask_status(_folder(ctx, config_folder))
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(reply)).decode())
        return
    from rich.console import Console

    console = Console()
    for line in status_lines(reply):
        console.print(line, highlight=False)


def _folder(ctx: typer.Context, given: Path | None) -> Path:
    from paddock.distributed.wire.addresses import relay_folder

    return given or ctx.obj or relay_folder()


def _port(ctx: typer.Context, given: int | None) -> int:
    """As given, else as the invitations say, else the usual one."""
    from paddock.distributed.wire.addresses import DEFAULT_PORT
    from paddock.distributed.wire.certificates import RelayFolder

    if given is not None:
        return given
    folder = RelayFolder(_folder(ctx, None))
    return folder.invitations().port if folder.has_certificates else DEFAULT_PORT


def _address(given: str) -> tuple[str, int]:
    """HOST or HOST:PORT, with [HOST]:PORT for IPv6; the port is 0 where none is given."""
    from paddock.core.errors import InputError

    host, port = given, ""
    if given.startswith("["):
        host, _, port = given[1:].partition("]")
        port = port.removeprefix(":")
    elif given.count(":") == 1:
        host, port = given.split(":")
    if not host or (port and not (port.isdigit() and 0 < int(port) < 65536)):
        raise InputError(f"'{given}' is not an address; write HOST or HOST:PORT, such as play.example.org:55580.")
    return host, int(port or 0)


def _own_address() -> str:
    """The address of this machine on the way to others. Nothing is sent for it."""
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def _show_log(descriptor: int) -> None:
    """The relay's own log on standard error, with the time."""
    stream: Any = open(descriptor, "w", buffering=1, closefd=False)  # noqa: SIM115
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log = logging.getLogger("paddock.distributed")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False


def _announce(server: Any) -> None:
    if server.has_certificates:
        print(f"relay listening on port {server.port} with mutual TLS", flush=True)
    else:
        print(f"relay listening on 127.0.0.1:{server.port}, for this machine only", flush=True)
        print(f"token file: {server.token_file}", flush=True)
    print("Ctrl-C stops the relay; workers keep what they collect and go on when it is back.", flush=True)
    sys.stdout.flush()
