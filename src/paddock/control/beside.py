"""A person who drives in the same world as an agent that learns. What viewers send goes to the world at once, because
it changes nothing of the run itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from paddock.control import messages as m
from paddock.control.channel import Channel


class DrivableView(Protocol):
    """A view with a car for a person. person: how it stood at the last snapshot, `mode`, `laps`, `lap` and so on."""

    persons_car: int | None
    person: dict[str, Any]

    def steer(self, steer: float, throttle: float, brake: float, *, is_released: bool) -> None: ...

    def set_mode(self, mode: str, assist: float | None) -> None: ...

    def place(self) -> None: ...


class DriverBeside:
    """note: writes an event of the run."""

    def __init__(self, view: DrivableView, channel: Channel, note: Callable[..., None]) -> None:
        self._view, self._channel, self._note = view, channel, note
        self._told: int | None = None  # the number of the last lap that viewers heard of

    @classmethod
    def of(cls, view: Any, channel: Channel, note: Callable[..., None]) -> DriverBeside | None:
        """None where a view has no car for a person."""
        return None if getattr(view, "persons_car", None) is None else cls(view, channel, note)

    def input(self, message: m.DriverInput) -> None:
        """Pedals and wheel."""
        self._view.steer(message.steer, message.throttle, message.brake, is_released=message.is_released)

    def do(self, command: m.DriveMode | m.Reset, by: str) -> m.Answer:
        """Another driver for the car, or back to the line with it."""
        if isinstance(command, m.Reset):
            self._view.place()
            return {}
        self._view.set_mode(command.mode, command.assist)
        self._note("control", command=m.command_name(command), by=by, mode=command.mode)
        return {"mode": command.mode}

    def tell(self) -> None:
        """Tell viewers of a lap that has ended since the last snapshot."""
        lap = self._view.person.get("lap")
        number = 0 if lap is None else int(lap["number"])
        if lap is not None and self._told is not None and number > self._told:
            self._channel.send(
                m.Lap(
                    car=int(self._view.person["car"]),
                    lap_time=float(lap["lap_time"]),
                    sectors=[float(one) for one in lap["sectors"]],
                    valid=bool(lap["valid"]),
                )
            )
        if self._view.person:
            self._told = number

    def status(self) -> dict[str, Any]:
        """Its fields of a `Status`."""
        person = self._view.person
        known = ("mode", "assist", "laps", "last_lap", "best_lap")
        return {"car": self._view.persons_car, **{name: person[name] for name in known if name in person}}
