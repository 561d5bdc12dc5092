"""Joining a Ray cluster, or starting one on this machine, and leaving it as it was found."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from paddock.core.errors import InputError, PaddockError
from paddock.core.lazy import require

log = logging.getLogger(__name__)

SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # Nothing is sent to Ray's makers.
    "RAY_worker_niceness": "0",  # Workers have the priority of the command; Ray would make them yield to all others.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # A worker without a GPU leaves CUDA_VISIBLE_DEVICES as it is.
}
ATTEMPTS = 4  # at starting a cluster here
AUTHENTICATION = "RAY_AUTH_MODE"
MOST_STORE = 2**30  # bytes of shared memory of a cluster that is started here
LONGEST_FOLDER = 40  # characters; sockets below it have names of up to 107


def import_ray(address: str | None, purpose: str = "experience=ray") -> Any:
    """The module, or a sentence that says which extra brings it. address: of the cluster that will be joined."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    # The servers of a cluster that is started here listen on every interface, so each of its processes has to show a
    # token that only they know. Ray reads this when it is imported.
    if address is None and "ray" not in sys.modules and AUTHENTICATION not in os.environ:
        os.environ.update({AUTHENTICATION: "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)})
    return require("ray", extra="ray", purpose=purpose)


class Cluster:
    """A connection of this process to a Ray cluster. One that exists already is used and left alone."""

    def __init__(self, address: str | None, *, cpus: float) -> None:
        self.ray = import_ray(address)
        self._is_ours = not self.ray.is_initialized()
        if not self._is_ours:
            return
        with _keeping_signals():
            if address is None:
                self._start(cpus)
            else:
                self._join(address)

    def _start(self, cpus: float) -> None:
        """Ray gives its own processes 30 s to start, which a busy machine may not; then it is tried again."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._start_once(cpus)
                return
            except Exception as error:  # Ray raises a plain one.
                self.ray.shutdown()
                reason = (str(error).splitlines() or [type(error).__name__])[0]
                if attempt == ATTEMPTS:
                    raise PaddockError(f"Ray did not start on this machine in {ATTEMPTS} attempts: {reason}") from error
                log.warning("Ray did not start and is started again: %s", reason)

    def _start_once(self, cpus: float) -> None:
        self.ray.init(
            address="local",  # Else one that was left on this machine, alive or dead, would be joined.
            num_cpus=max(int(-(-cpus // 1)), 1),
            include_dashboard=False,
            object_store_memory=MOST_STORE,
            log_to_driver=False,
            configure_logging=False,
            _temp_dir=short_folder(),
        )

    def _join(self, address: str) -> None:
        try:
            self.ray.init(address=address, log_to_driver=False, configure_logging=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise InputError(
                f"no Ray cluster answers at '{address}': {str(error).splitlines()[0]} Start one with "
                "'ray start --head', or leave the address out: then one is started on this machine."
            ) from error

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        if self._is_ours and self.ray.is_initialized():
            with _keeping_signals():
                self.ray.shutdown()


def short_folder() -> str:
    """Where Ray keeps sockets and logs: below the usual folder for temporary files, if its name is short enough."""
    usual = os.path.join(tempfile.gettempdir(), "ray")
    return usual if len(usual) <= LONGEST_FOLDER else f"/tmp/ray-{os.getuid()}"


@contextmanager
def _keeping_signals() -> Iterator[None]:
    """Ray takes SIGTERM for itself, and a run that is asked to end has to save first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
