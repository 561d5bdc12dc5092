"""New weights for a worker, loaded beside the control loop and swapped in between two steps."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from paddock.distributed.endpoints import NewWeights
from paddock.distributed.policy_weights import PolicyHeader, UnfitWeights, read_header, unpack_into
from paddock.distributed.wire.messages import Order
from paddock.rollout.controllers import ControllerManager

log = logging.getLogger(__name__)

POLL_SECONDS = 0.01


@dataclass(frozen=True)
class Acting:
    """Controllers with the weights of a version, and what the trainer wants done with them."""

    controllers: ControllerManager
    version: int
    header: PolicyHeader
    order: Order


class Standby:
    """A second set of networks that a thread of its own fills with the newest weights.

    `take` gives the filled set and gets back the one that acted, which is filled next.
    """

    def __init__(
        self, make: Callable[[], ControllerManager], newest: Callable[[], NewWeights | None], wake: threading.Event
    ) -> None:
        """make: builds one set. newest: the newest weights that arrived; never blocks. wake: set when one is loaded."""
        self._newest, self._wake = newest, wake
        self._empty: list[ControllerManager] = [make(), make()]
        self._ready: Acting | None = None
        self._loaded = -1
        self._lock = threading.Lock()
        self._is_closed = False
        self.problem: str = ""
        self._thread = threading.Thread(target=self._load_always, name="paddock-weights", daemon=True)
        self._thread.start()

    @property
    def version(self) -> int:
        """Of the newest weights that are loaded; -1 before the first."""
        return self._loaded

    def take(self, acting: Acting | None) -> Acting | None:
        """Newer weights than those that act, if there are any: what acted so far is then filled next."""
        with self._lock:
            ready, self._ready = self._ready, None
            if ready is not None and acting is not None:
                self._empty.append(acting.controllers)
        return ready

    def close(self) -> None:
        self._is_closed = True
        self._thread.join()

    def _load_always(self) -> None:
        pause = threading.Event()
        while not self._is_closed:
            new = self._newest()
            if new is None or new.version == self._loaded or not self._load(new):
                pause.wait(POLL_SECONDS)

    def _load(self, new: NewWeights) -> bool:
        with self._lock:
            if self._ready is not None:  # Loaded and not taken yet; newer weights go into the same set.
                self._empty.append(self._ready.controllers)
                self._ready = None
            if not self._empty:
                return False
            chosen = self._empty.pop()
        self._loaded = new.version
        try:
            header = read_header(new.header)
            unpack_into(chosen[header.controller], new.body)
        except (UnfitWeights, LookupError) as error:
            self.problem = str(error)
            log.error("%s", error)
            with self._lock:
                self._empty.append(chosen)
            return True
        with self._lock:
            self._ready, self.problem = Acting(chosen, new.version, header, new.order), ""
        self._wake.set()
        return True
