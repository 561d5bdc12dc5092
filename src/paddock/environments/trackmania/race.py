"""One race after another: restarts that are confirmed by telemetry, retried and reported, and lap times."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass
from functools import partial

from paddock.environments.calls import EnvironmentAway
from paddock.environments.realtime.clock import SECOND, VirtualClock
from paddock.environments.trackmania.link import GameLink
from paddock.environments.trackmania.packets import Packet
from paddock.environments.trackmania.pad import Button, press
from paddock.environments.trackmania.telemetry import Telemetry

log = logging.getLogger(__name__)

AT_REST = 1.0  # m/s, below which a car stands at the start
FRESH = 1.0  # s of race time, up to which a race has just begun
RETRY_SECONDS = 20.0  # until a paused run tries again
DIALOG_SECONDS = 0.3  # for a dialog to close


class GameError(EnvironmentAway):
    """The game is not in a race, and no button brings it into one. A run pauses, and tries again later: when a silent
    game sends telemetry again, else after a while."""

    def __init__(self, sentence: str, telemetry: Telemetry | None = None) -> None:
        raised = time.monotonic()
        has_waited = partial(_has_passed, raised)
        super().__init__(sentence, has_waited if telemetry is None else lambda: telemetry.age < FRESH)


def _has_passed(since: float) -> bool:
    return time.monotonic() - since > RETRY_SECONDS


@dataclass(frozen=True)
class RaceSettings:
    """sleep_at_reset: s from a restart to the first observation, the game's countdown. confirm_seconds: s that a
    restart may take to show. retries: further attempts. start_radius: m around the start. pause_seconds: s for which a
    restart is tried again and again before the run pauses."""

    sleep_at_reset: float = 1.5
    confirm_seconds: float = 1.0
    retries: int = 2
    start_radius: float = 10.0
    pause_seconds: float = 10.0
    retry_every: float = 2.0


class Race:
    """Begins races, and times them from the frame of the restart on."""

    def __init__(self, link: GameLink, settings: RaceSettings, start: tuple[float, float, float] | None) -> None:
        self._link, self._settings, self._start = link, settings, start
        self._began = 0

    def restart(self) -> Packet:
        """Bring the car to the start; the newest packet once it may drive.

        While the game is away the reason is logged and the restart is tried again; then GameError pauses the run.
        """
        clock = self._link.clock
        until = clock.now() + round(self._settings.pause_seconds * SECOND)
        reason = ""
        while True:
            confirmed, problem = self._try_restart()
            if confirmed is not None:
                if reason:
                    log.warning("the race goes on.")
                return self._past_countdown(confirmed)
            if clock.now() >= until:
                is_silent = self._link.telemetry.age > FRESH and not isinstance(clock, VirtualClock)
                raise GameError(
                    f"the race cannot be restarted: {problem} `paddock doctor --trackmania` tells more.",
                    self._link.telemetry if is_silent else None,
                )
            if problem != reason:
                log.warning("the race is paused until it can be restarted: %s", problem)
                reason = problem
            clock.sleep(self._settings.retry_every)

    def lap_time(self, packet: Packet) -> float:
        """Seconds from the start to this first packet of a finish, by the game's race time where it tells one.

        The finish was crossed between two frames: half of one is taken off.
        """
        if packet.race_time is not None:
            return packet.race_time
        before = [one.received for one in self._link.telemetry.since(packet.number - 2) if one.number < packet.number]
        half_frame = (packet.received - before[-1]) / 2 if before else 0.0
        return max(0.0, (packet.received - self._began - half_frame) / SECOND - self._settings.sleep_at_reset)

    def _try_restart(self) -> tuple[Packet | None, str]:
        telemetry, pad, clock = self._link.telemetry, self._link.pad, self._link.clock
        pad.apply(0.0, 0.0, 0.0)
        if telemetry.newest is None:
            telemetry.wait(0, self._settings.confirm_seconds)
        for attempt in range(self._settings.retries + 1):
            newest = telemetry.newest
            # A dialog hides from telemetry; after a restart without an effect there may be one.
            if newest is not None and (newest.is_finished or attempt > 0) and telemetry.age < 1.0:
                press(pad, Button.CONFIRM, clock)
                clock.sleep(DIALOG_SECONDS)
            before = telemetry.newest
            press(pad, Button.RESTART, clock)
            confirmed = self._confirmed(0 if before is None else before.number)
            if confirmed is not None:
                return confirmed, ""
        if telemetry.age > self._settings.confirm_seconds:
            return None, telemetry.problem or "the game sends no telemetry."
        return None, "the car does not come back to the start; the pad may not reach the game, or a menu is open."

    def _confirmed(self, after: int) -> Packet | None:
        """The first packet of a car that stands at the start."""
        clock, telemetry = self._link.clock, self._link.telemetry
        until = clock.now() + round(self._settings.confirm_seconds * SECOND)
        while (left := (until - clock.now()) / SECOND) > 0:
            newest = telemetry.wait(after, left)
            if newest is None:
                return None
            for packet in telemetry.since(after):
                if self._is_at_start(packet):
                    self._start = self._start or packet.position
                    return packet
            after = newest.number
        return None

    def _is_at_start(self, packet: Packet) -> bool:
        if packet.is_finished or packet.speed > AT_REST:
            return False
        if packet.race_time is not None and packet.race_time > FRESH + self._settings.sleep_at_reset:
            return False
        if self._start is not None:
            return math.dist(packet.position, self._start) <= self._settings.start_radius
        return packet.race_time is not None or packet.distance < AT_REST

    def _past_countdown(self, confirmed: Packet) -> Packet:
        clock, telemetry = self._link.clock, self._link.telemetry
        self._began = confirmed.received
        left = self._settings.sleep_at_reset - (clock.now() - confirmed.received) / SECOND
        clock.sleep(max(0.0, left))
        return telemetry.newest or confirmed
