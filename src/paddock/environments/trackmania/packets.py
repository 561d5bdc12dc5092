"""The plugins' packets: little-endian floats without a header, told apart by what their numbers can mean.

Three plugins share a port. Theirs are streams of 11, 14 or 33 floats a frame; a connection begins with a whole packet,
and TCP may tear and merge packets at any byte.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paddock.core.errors import PaddockError

Numbers = Sequence[float]
Vector = tuple[float, float, float]

MOST_GEARS = 10
MOST_SPEED = 1_000.0  # m/s
LARGEST_PLACE = 1e5  # m
SLACK = 1e-3
MOST_UNDECIDED = 4_096  # bytes that are kept while no format has been found


class ProtocolError(PaddockError):
    """Bytes that are no packets of a plugin that is known here."""


@dataclass(frozen=True)
class Packet:
    """One frame of the game.

    number: of the packet since the client began. received: ns of the client's clock. speed m/s, distance m driven,
    position m (x, y up, z). steer -1 to 1, right positive; gas 0 to 1; brake 0 or 1: as the game applied them.
    direction: unit vector of the car's nose; race_time: s since the start, both only where the plugin sends them.
    """

    number: int
    received: int
    speed: float
    distance: float
    position: Vector
    steer: float
    gas: float
    brake: float
    is_finished: bool
    gear: float
    rpm: float
    direction: Vector | None = None
    race_time: float | None = None


@dataclass(frozen=True)
class PacketFormat:
    """A plugin's packet: how many floats, what they may be, what they mean, and the floats of a given packet."""

    name: str
    floats: int
    is_plausible: Callable[[Numbers], bool]
    read: Callable[[Numbers, int, int], Packet]
    write: Callable[[Packet], list[float]]

    @property
    def size(self) -> int:
        """Bytes."""
        return 4 * self.floats

    def unpack(self, data: bytes) -> Numbers:
        return struct.unpack(f"<{self.floats}f", data)

    def pack(self, packet: Packet) -> bytes:
        """The bytes that the plugin would send."""
        return struct.pack(f"<{self.floats}f", *self.write(packet))


def _is_flag(value: float) -> bool:
    return value in (0.0, 1.0)


def _is_share(value: float) -> bool:
    return -SLACK <= value <= 1.0 + SLACK


def _is_whole(value: float, most: float) -> bool:
    return 0.0 <= value <= most and value == int(value)


def _is_place(values: Numbers) -> bool:
    return all(abs(value) < LARGEST_PLACE for value in values)


def _is_unit(values: Numbers) -> bool:
    return abs(math.hypot(*values) - 1.0) < 0.02


def _are_finite(values: Numbers) -> bool:
    return all(math.isfinite(value) for value in values)


def _is_grab(values: Numbers) -> bool:
    return (
        _are_finite(values)
        and 0.0 <= values[0] < MOST_SPEED
        and values[1] >= 0.0
        and _is_place(values[2:5])
        and abs(values[5]) <= 1.0 + SLACK
        and _is_share(values[6])
        and _is_flag(values[7])
        and _is_flag(values[8])
        and _is_whole(values[9], MOST_GEARS)
        and values[10] >= 0.0
    )


def _is_grab_with_axis(values: Numbers) -> bool:
    return _is_grab(values) and _is_unit(values[11:14])


def _is_connect(values: Numbers) -> bool:
    return (
        _are_finite(values)
        and _is_whole(values[0], 1e4)
        and _is_whole(values[1], 1e4)
        and _is_flag(values[2])
        and _is_place(values[4:7])
        and _is_unit(values[10:13])
        and _is_unit(values[13:16])
        and 0.0 <= values[16] < MOST_SPEED
        and values[17] >= 0.0
        and _is_whole(values[18], MOST_GEARS)
        and abs(values[30]) <= 1.0 + SLACK
        and _is_share(values[31])
        and _is_share(values[32])
    )


def _read_grab(values: Numbers, number: int, received: int) -> Packet:
    speed, distance, x, y, z, steer, gas, brake, finished, gear, rpm = values[:11]
    axis = values[11:14]
    direction = (axis[0], axis[1], axis[2]) if axis else None
    return Packet(number, received, speed, distance, (x, y, z), steer, gas, brake, finished > 0.5, gear, rpm, direction)


def _write_grab(packet: Packet) -> list[float]:
    flags = [float(packet.brake > 0.5), float(packet.is_finished)]
    pedals = [packet.steer, packet.gas, *flags]
    return [packet.speed, packet.distance, *packet.position, *pedals, packet.gear, packet.rpm]


def _write_grab_with_axis(packet: Packet) -> list[float]:
    return [*_write_grab(packet), *(packet.direction or (1.0, 0.0, 0.0))]


def _read_connect(values: Numbers, number: int, received: int) -> Packet:
    return Packet(
        number,
        received,
        speed=values[16],
        distance=math.nan,  # not in this plugin's packets
        position=(values[4], values[5], values[6]),
        steer=values[30],
        gas=values[31],
        brake=values[32],
        is_finished=values[2] > 0.5,
        gear=values[18],
        rpm=values[17],
        direction=(values[10], values[11], values[12]),
        race_time=values[3] / 1_000.0,
    )


def _write_connect(packet: Packet) -> list[float]:
    direction = packet.direction or (1.0, 0.0, 0.0)
    race = [0.0, 0.0, float(packet.is_finished), round(1_000.0 * (packet.race_time or 0.0))]
    motion = [*packet.position, *(packet.speed * value for value in direction), *direction, 0.0, 1.0, 0.0]
    engine = [packet.speed, packet.rpm, packet.gear]
    wheels = [*([0.0] * 4), *([16.0] * 4), 0.0, 0.0, 1.0]  # slip, material, skidding, flying, adherence
    return [*race, *motion, *engine, *wheels, packet.steer, packet.gas, packet.brake]


GRAB = PacketFormat("TMRL Grab Data", 11, _is_grab, _read_grab, _write_grab)
GRAB_WITH_AXIS = PacketFormat("TMRL Grab Data (axis)", 14, _is_grab_with_axis, _read_grab, _write_grab_with_axis)
CONNECT = PacketFormat("TrackmaniaRL Connect", 33, _is_connect, _read_connect, _write_connect)
FORMATS = {one.floats: one for one in (GRAB, GRAB_WITH_AXIS, CONNECT)}


class PacketStream:
    """Bytes of one connection in, whole packets out. The format is found from the first bytes."""

    def __init__(self, first_number: int = 0) -> None:
        self.format: PacketFormat | None = None
        self._number = first_number
        self._buffer = b""

    def feed(self, data: bytes, received: int = 0) -> list[Packet]:
        """The packets that end in `data`, oldest first; ProtocolError for bytes that are none."""
        self._buffer += data
        if self.format is None:
            self.format = self._find_format()
        if self.format is None:
            return []
        size, found = self.format.size, []
        whole = len(self._buffer) - len(self._buffer) % size
        for start in range(0, whole, size):
            found.append(self._packet(self.format, self._buffer[start : start + size], received))
        self._buffer = self._buffer[whole:]
        return found

    def _packet(self, form: PacketFormat, data: bytes, received: int) -> Packet:
        values = form.unpack(data)
        if not form.is_plausible(values):
            raise ProtocolError(
                f"the telemetry began as packets of {form.name} ({form.floats} floats) and went on as something else."
            )
        self._number += 1
        return form.read(values, self._number, received)

    def _find_format(self) -> PacketFormat | None:
        """The one format whose packets the bytes can be, once every other one has failed on a whole packet."""
        left = [form for form in FORMATS.values() if self._can_be(form)]
        if not left:
            raise ProtocolError(
                "the telemetry is not in a known format: neither 11, 14 nor 33 floats a frame can be read from it."
            )
        if len(left) == 1 and len(self._buffer) >= left[0].size:
            return left[0]
        if len(self._buffer) > MOST_UNDECIDED:
            names = " and ".join(form.name for form in left)
            raise ProtocolError(f"the telemetry can be packets of {names}, and nothing in it decides.")
        return None

    def _can_be(self, form: PacketFormat) -> bool:
        whole = len(self._buffer) - len(self._buffer) % form.size
        pieces = (self._buffer[start : start + form.size] for start in range(0, whole, form.size))
        return all(form.is_plausible(form.unpack(piece)) for piece in pieces)
