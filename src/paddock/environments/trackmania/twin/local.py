"""A twin inside of this process that lives by a given clock: telemetry, screen and pad in one object."""

from __future__ import annotations

import threading
from collections import deque

from paddock.environments.realtime.clock import SECOND, Clock
from paddock.environments.trackmania.packets import Packet, PacketStream
from paddock.environments.trackmania.pad import STRONG_RUMBLE, Button
from paddock.environments.trackmania.screen import Picture
from paddock.environments.trackmania.telemetry import KEPT
from paddock.environments.trackmania.twin.game import TwinGame, TwinSettings


class LocalTwin:
    """Catches up with the clock whenever it is asked or told something, frame by frame; pictures are only drawn when
    they are looked at. In virtual time this is as fast as the machine computes, and always the same."""

    def __init__(self, settings: TwinSettings, clock: Clock) -> None:
        self.game = TwinGame(settings)
        self._clock, self._period = clock, SECOND // settings.frame_rate
        self._began, self._frames = clock.now(), 0
        self._stream = PacketStream()
        self._newest: Packet | None = None
        self._recent: deque[Packet] = deque(maxlen=KEPT)
        self._buttons, self._axes = Button(0), (0.0, 0.0, 0.0)
        self._strongest = 0
        self._lock = threading.Lock()

    @property
    def newest(self) -> Packet | None:
        self._catch_up()
        return self._newest

    @property
    def age(self) -> float:
        self._catch_up()
        return float("inf") if self._newest is None else (self._clock.now() - self._newest.received) / SECOND

    @property
    def problem(self) -> str:
        return "" if self.age < 1.0 else "the game is connected and sends nothing: it is in a menu, or it is loading."

    def wait(self, after: int, seconds: float) -> Packet | None:
        until = self._clock.now() + round(seconds * SECOND)
        while self._clock.now() <= until:
            newest = self.newest
            if newest is not None and newest.number > after:
                return newest
            self._clock.sleep(self._period / SECOND)
        return None

    def since(self, after: int) -> list[Packet]:
        self._catch_up()
        return [packet for packet in self._recent if packet.number > after]

    def grab(self) -> Picture:
        self._catch_up()
        return self.game.picture()

    def apply(self, gas: float, brake: float, steer: float) -> None:
        self._axes = (gas, brake, steer)
        self._use_pad()

    def hold(self, buttons: Button) -> None:
        self._buttons = buttons
        self._use_pad()

    def rumbled(self) -> bool:
        self._catch_up()
        strongest, self._strongest = self._strongest, 0
        return strongest > STRONG_RUMBLE

    def close(self) -> None:
        """Nothing is kept open."""

    def _use_pad(self) -> None:
        self._catch_up()
        self.game.use_pad(self._buttons, self._axes)

    def _catch_up(self) -> None:
        with self._lock:
            due = (self._clock.now() - self._began) // self._period
            while self._frames < due:
                self._frames += 1
                self.game.frame()
                self._strongest = max(self._strongest, self.game.rumble)
                data = self.game.packet()
                if data is not None:
                    received = self._began + self._frames * self._period
                    packets = self._stream.feed(data, received)
                    self._newest = packets[-1] if packets else self._newest
                    self._recent.extend(packets)
