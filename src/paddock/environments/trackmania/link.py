"""What an interface holds of a game: telemetry, screen and pad, of the game itself or of a twin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paddock.environments.realtime.clock import Clock, VirtualClock
from paddock.environments.trackmania.keyboard import Keyboard
from paddock.environments.trackmania.pad import LoopbackPad, Pad, VirtualGamepad
from paddock.environments.trackmania.screen import Screen, SharedScreen, WindowScreen
from paddock.environments.trackmania.telemetry import PORT, TcpTelemetry, Telemetry
from paddock.environments.trackmania.twin.game import TwinSettings
from paddock.environments.trackmania.twin.local import LocalTwin
from paddock.environments.trackmania.twin.process import TwinProcess, ask_twin

PADS: dict[str, Callable[[], Pad]] = {"gamepad": VirtualGamepad, "keyboard": Keyboard}


@dataclass
class GameLink:
    """Closed together; `close` also ends a twin that was started for this link."""

    telemetry: Telemetry
    screen: Screen
    pad: Pad
    clock: Clock
    process: TwinProcess | None = None

    def close(self) -> None:
        self.telemetry.close()
        self.screen.close()
        self.pad.close()
        if self.process is not None:
            self.process.close()


@dataclass(frozen=True)
class LinkSettings:
    """game: "trackmania" or "twin". port: of the telemetry; None starts a twin. twin: what that one is made with."""

    game: str = "trackmania"
    port: int | None = None
    pad: str = "gamepad"
    width: int = 256
    height: int = 128
    twin: TwinSettings = field(default_factory=TwinSettings)


def connect(settings: LinkSettings, clock: Clock) -> GameLink:
    """The link that the settings describe. In virtual time a twin lives in this process."""
    if settings.game == "trackmania":
        return _connect_to_game(settings, clock)
    if isinstance(clock, VirtualClock):
        local = LocalTwin(settings.twin, clock)
        return GameLink(local, local, local, clock)
    if settings.port is None:
        process = TwinProcess(settings.twin)
        try:
            return connect_to_twin(process.addresses, clock, process)
        except BaseException:
            process.close()
            raise
    return connect_to_twin(ask_twin(settings.port + 1, "describe"), clock)


def connect_to_twin(addresses: dict[str, Any], clock: Clock, process: TwinProcess | None = None) -> GameLink:
    """The link to a twin that told its addresses."""
    screen = SharedScreen(Path(addresses["screen"]))
    pad = LoopbackPad(int(addresses["pad"]))
    return GameLink(TcpTelemetry(int(addresses["telemetry"])), screen, pad, clock, process)


def _connect_to_game(settings: LinkSettings, clock: Clock) -> GameLink:
    screen = WindowScreen(settings.width, settings.height)
    pad = PADS[settings.pad]()
    return GameLink(TcpTelemetry(settings.port or PORT), screen, pad, clock)
