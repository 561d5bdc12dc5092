"""The actors of a run: started, asked, and replaced where one dies with its process or its node."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from paddock.core.errors import PaddockError
from paddock.core.seeding import derive_seed
from paddock.distributed.ray.cluster import Cluster
from paddock.distributed.ray.collectors import RowCollector, Rows

log = logging.getLogger(__name__)

PLACE_SECONDS = 30.0  # until an actor has a place and has started, before it is said that it has not
MOST_PLACE_SECONDS = 600.0  # after which the run ends; it can be resumed
LONGEST = 300  # characters of a reason
MOST_DEATHS, WITHIN = 5, 60.0  # deaths of one worker within so many seconds, after which the run ends


class Member:
    """A worker that lives on in the next actor when one dies. lives: actors so far."""

    def __init__(self, name: str, rows: Rows) -> None:
        self.name, self.rows = name, rows
        self.actor: Any = None
        self.lives = 0
        self.about: dict[str, Any] = {}
        self.deaths: list[float] = []


class Team:
    """One actor for each group of rows. `on_death` hears of each worker that was replaced, and why."""

    def __init__(
        self, cluster: Cluster, rows: Sequence[Rows], *, cpus: float, on_death: Callable[[Member, str], None]
    ) -> None:
        self.ray, self._cluster, self._on_death = cluster.ray, cluster, on_death
        self._kind = self.ray.remote(num_cpus=cpus, max_restarts=0)(RowCollector)
        self.members = [Member(f"worker-{number + 1}", one) for number, one in enumerate(rows)]
        for member in self.members:
            self._begin(member)
        for member in self.members:  # All start at once, and are waited for one after the other.
            self._meet(member)

    @property
    def is_by_rows(self) -> bool:
        """Whether what the environments do does not depend on how they are spread."""
        return len(self.members) == 1 or all(member.about.get("is_by_rows") for member in self.members)

    def ask(self, member: Member, method: str, *arguments: Any) -> Any:
        """A reference to what the worker's method will give."""
        return getattr(member.actor, method).remote(*arguments)

    def result(self, member: Member, reference: Any, again: Callable[[], Any]) -> Any:
        """What a call gave. Where the worker died, another takes its place and `again` asks it the same."""
        while True:
            try:
                return self.ray.get(reference)
            except self.ray.exceptions.RayTaskError as error:
                raise _told(member, error) from error
            except self.ray.exceptions.RayError as error:
                self.replace(member, _sentence(error))
                reference = again()

    def replace(self, member: Member, reason: str) -> None:
        """Another actor for the rows of one that died; it begins other episodes than the dead one did."""
        now = time.monotonic()
        member.deaths = [when for when in member.deaths if now - when < WITHIN] + [now]
        if len(member.deaths) >= MOST_DEATHS:
            raise PaddockError(f"{member.name} died {MOST_DEATHS} times within a minute; the last time: {reason}")
        log.warning("%s died and is replaced: %s", member.name, reason)
        self.ray.kill(member.actor)
        seed = derive_seed(member.rows.seed, "replaced", member.lives, member.rows.first)
        self._begin(member)
        self._meet(member)
        self.ray.get(member.actor.begin_anew.remote(seed))
        self._on_death(member, reason)

    def close(self) -> None:
        """End the actors, then leave the cluster."""
        for member in self.members:
            if member.actor is not None:
                self.ray.kill(member.actor)
        self._cluster.close()

    def _begin(self, member: Member) -> None:
        member.actor, member.lives = self._kind.remote(member.rows), member.lives + 1

    def _meet(self, member: Member) -> None:
        """Wait until the actor has a place and has made its environments."""
        reference, began = member.actor.about.remote(), time.monotonic()
        while not self.ray.wait([reference], timeout=PLACE_SECONDS)[0]:
            free = self.ray.available_resources().get("CPU", 0.0)
            if time.monotonic() - began > MOST_PLACE_SECONDS:
                raise PaddockError(
                    f"{member.name} was not ready after {MOST_PLACE_SECONDS:.0f} s; {free:g} CPUs are free in the "
                    "cluster. Add a node, or give fewer experience.workers or experience.cpus."
                )
            log.warning("%s is not ready yet; %g CPUs are free in the cluster.", member.name, free)
        try:
            member.about = self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            raise _told(member, error) from error
        except self.ray.exceptions.RayError as error:
            raise PaddockError(f"{member.name} did not start: {_sentence(error)}") from error


def rows_of(rows: Rows, counts: Sequence[int]) -> list[Rows]:
    """All rows in groups of these sizes."""
    firsts = [sum(counts[:number]) for number in range(len(counts))]
    return [replace(rows, first=first, count=count) for first, count in zip(firsts, counts, strict=True)]


def _told(member: Member, error: Any) -> Exception:
    """What a worker's own code raised: a sentence for people stays one."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, PaddockError):
        return cause
    return PaddockError(f"{member.name} failed: {_sentence(error)}")


def _sentence(error: Exception) -> str:
    """The last line of what Ray says, without its advice."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1].partition(" Some common causes")[0][:LONGEST] if lines else type(error).__name__
