"""How trainer and workers introduce themselves to a relay, and where they find it."""

from __future__ import annotations

import hashlib
import socket
import time
from pathlib import Path

from paddock import __version__
from paddock.core.errors import PaddockError
from paddock.core.specs import Spec
from paddock.distributed.connection import Dial
from paddock.distributed.wire.addresses import Invitation, LocalAddress
from paddock.distributed.wire.dial import dial
from paddock.distributed.wire.link import Link, Unreachable
from paddock.distributed.wire.messages import Hello
from paddock.experiments.run import RunFolder
from paddock.orchestration.launch import experiment_of

DIAL_SECONDS = 5.0


def dial_to(invitation: str | Path | None, folder: Path | None = None) -> Dial:
    """Connect with an invitation's file; without one to the relay of this machine, whose token is in `folder`."""
    if invitation is not None:
        address = Invitation.read(Path(invitation).expanduser())
        return lambda hello: dial(address, hello, timeout=DIAL_SECONDS)
    LocalAddress.read(folder)  # A wrong folder is said at once.
    return lambda hello: _dial_here(folder, hello)


def _dial_here(folder: Path | None, hello: Hello) -> Link:
    """A relay that was started again may have another port."""
    try:
        address = LocalAddress.read(folder)
    except (PaddockError, OSError) as error:
        raise Unreachable(str(error)) from error
    return dial(address, hello, timeout=DIAL_SECONDS)


def trainer_hello(folder: Path, name: str, spec: Spec) -> Hello:
    """Who a run is, to a relay. name: of its configuration."""
    run = RunFolder(folder).read_manifest()
    identity = str(run.get("id", folder.name))
    return Hello(
        role="trainer",
        name=folder.name[:128],
        id=hashlib.sha256(identity.encode()).hexdigest()[:16],
        run=identity[:256],
        paddock=__version__,
        experiment=experiment_of(run, name)[:256],
        spec=spec,
        host=socket.gethostname(),
        sent=time.time(),
    )
