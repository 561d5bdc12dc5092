"""Every message between a run, the server and the page: its name, its fields and their limits, in this one place.

Run and server exchange `ViewerMessage` and `RunMessage` as msgpack over a WebSocket; server and page exchange JSON
(`PageMessage` and `PAGE_NEWS`) and binary snapshots. `dashboard/page_messages.py` writes the page's constants.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from paddock.core.errors import InputError, did_you_mean

LARGEST_REQUEST = 64 * 1024  # bytes of a message that a run takes
LARGEST_MESSAGE = 8 * 1024 * 1024  # bytes of a message that a run sends: a scene, a picture
SLOWEST_FACTOR, FASTEST_FACTOR = 0.05, 1000.0  # times real time
FASTEST_RATE = 60.0  # snapshots a second
MOST_CARS = 64  # that a snapshot shows
MOST_WORKERS = 256  # that a status lists
LONGEST_NAME, LONGEST_TEXT = 128, 1000  # characters
Answer = dict[str, Any]

Number = Annotated[float, Meta(ge=-1e12, le=1e12, description="a number")]
Name = Annotated[str, Meta(max_length=LONGEST_NAME, description="a name")]
Text = Annotated[str, Meta(max_length=LONGEST_TEXT, description="a text")]
Flag = Annotated[bool, Meta(description="true or false")]
Share = Annotated[float, Meta(ge=0.0, le=1.0, description="a number; allowed: a share from 0 to 1")]
Factor = Annotated[
    float,
    Meta(
        ge=SLOWEST_FACTOR,
        le=FASTEST_FACTOR,
        description=f"a number; allowed: {SLOWEST_FACTOR:g} to {FASTEST_FACTOR:g} (times real time), null for no limit",
    ),
]
ModeName = Literal["manual", "assisted", "ai"]
MODES: tuple[str, ...] = get_args(ModeName)
Mode = Annotated[ModeName, Meta(description=f"one of {', '.join(MODES)}")]
Opponent = Annotated[Literal["opponent"], Meta(description="opponent")]


# --- commands that a run takes ---


class Command(msgspec.Struct):
    """done: what the page says once it has happened. internal: fields that the server fills in, never the page."""

    done: ClassVar[str] = ""
    internal: ClassVar[frozenset[str]] = frozenset()


class Pause(Command, tag="pause"):
    """Save everything, then wait."""

    done: ClassVar[str] = "Paused."


class Resume(Command, tag="resume"):
    """Go on after a pause."""

    done: ClassVar[str] = "Running again."


class Stop(Command, tag="stop"):
    """Save everything, then end."""

    done: ClassVar[str] = "Stopping: the run saves, then ends."


class Save(Command, tag="save"):
    """Write a checkpoint, and the policy under a name of its own."""

    done: ClassVar[str] = "Policy saved."
    name: Text | None = None


class Load(Command, tag="load"):
    """Put a saved policy's weights into the run's. policy: `NAME`, or `RUN/NAME`. folder: where it is."""

    done: ClassVar[str] = "Policy loaded."
    internal: ClassVar[frozenset[str]] = frozenset({"folder"})
    policy: Text
    folder: Text | None = None


class Speed(Command, tag="speed"):
    """Hold the simulation to so many times real time; None is no limit."""

    factor: Factor | None


class Explore(Command, tag="explore"):
    """Whether actions are sampled while collecting; else the most likely one is taken."""

    on: Flag


class Reward(Command, tag="reward"):
    """Set the weight of a term of the reward."""

    term: Text
    weight: Number


class DriveMode(Command, tag="mode"):
    """Driving only: what steers the person's car. assist: the other driver's share of `assisted`."""

    mode: Mode
    assist: Share | None = None


class Reset(Command, tag="reset"):
    """Driving only: back to the line."""


class ShowGhost(Command, tag="ghost"):
    """Driving only: show or hide the other car."""

    kind: Opponent
    on: Flag


AnyCommand = Pause | Resume | Stop | Save | Load | Speed | Explore | Reward | DriveMode | Reset | ShowGhost
COMMANDS: dict[str, type[Command]] = {str(one.__struct_config__.tag): one for one in get_args(AnyCommand)}
Handlers = Mapping[type[Command], Callable[[Any], Answer]]


def command_name(command: Command | type[Command]) -> str:
    """What a command is called on the wire and in `events.jsonl`."""
    return str(command.__struct_config__.tag)


def parse_command(name: Any, arguments: Mapping[str, Any], *, is_from_page: bool = False) -> Any:
    """The command of this name with its arguments checked, or a refusal that says what is allowed."""
    kind = COMMANDS.get(name) if isinstance(name, str) else None
    if kind is None:
        given = str(name)[:40]
        raise InputError(f"unknown command '{given}'; allowed: {', '.join(COMMANDS)}.{did_you_mean(given, COMMANDS)}")
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    hidden = kind.internal if is_from_page else frozenset()
    if unknown := arguments.keys() - (fields.keys() - hidden):
        raise InputError(f"'{name}' does not take {', '.join(sorted(map(repr, unknown)))[:200]}.")
    for field in fields.values():
        if field.required and field.name not in arguments:
            raise InputError(f"'{name}' needs '{field.name}'.")
    return kind(**{key: _checked(fields[key], value) for key, value in arguments.items()})


def _checked(field: msgspec.structs.FieldInfo, value: Any) -> Any:
    try:
        return msgspec.convert(value, field.type)
    except msgspec.ValidationError as error:
        allowed = limits_of(field.type).description
        raise InputError(f"{field.name} is {str(value)[:40]}; it must be {allowed}.") from error


def limits_of(kind: Any) -> Meta:
    """What is declared about the values of a command's field."""
    for one in (kind, *get_args(kind)):
        found = next((meta for meta in getattr(one, "__metadata__", ()) if isinstance(meta, Meta)), None)
        if found is not None:
            return found
    raise AssertionError(f"{kind} says nothing of its values")


# --- from a viewer to a run ---


class Watch(msgspec.Struct, tag="watch"):
    """What a viewer wants to see. rate: snapshots a second; cars: whose rays and dials; pictures: rendered frames."""

    rate: Number = 0.0
    cars: list[int] = []
    pictures: bool = False


class SceneRequest(msgspec.Struct, tag="scene"):
    """What stands still on one of the run's tracks."""

    track: int = 0


class DriverInput(msgspec.Struct, tag="input"):
    """Pedals and wheel of a person: steer -1 to 1 (left is positive), throttle and brake 0 to 1."""

    steer: Number = 0.0
    throttle: Number = 0.0
    brake: Number = 0.0
    is_released: bool = False


class Request(msgspec.Struct, tag="request"):
    """A command by name; the run answers with a `Reply` of the same id."""

    id: int
    command: str
    arguments: dict[str, Any] = {}
    by: str = "channel"


ViewerMessage = Watch | SceneRequest | DriverInput | Request


# --- from a run to its viewers ---


class WorkerStatus(msgspec.Struct, kw_only=True):
    """A worker of a run. A number is None where it was not reported; round_trip: s; pause: why it does not collect."""

    name: Name
    host: Name = ""
    is_connected: bool
    version_lag: float | None = None
    steps_per_second: float | None = None
    idle_share: float | None = None
    round_trip: float | None = None
    episode_return: float | None = None
    episode_length: float | None = None
    test_return: float | None = None
    pause: Text = ""


class CorrectionStatus(msgspec.Struct, kw_only=True):
    """What a driving policy has learned from a person who took over: stretches and their decisions, updates so far, and
    the policy's error on corrections before and after the last round of learning, where there was one."""

    stretches: int
    steps: int
    is_learning: bool = False
    updates: int = 0
    error_before: float | None = None
    error_after: float | None = None


class Status(msgspec.Struct, tag="status", kw_only=True):
    """How a run stands, twice a second. workers: of a run whose environments are elsewhere, the first `MOST_WORKERS`.
    The fields from `mode` on are a driving session's, or of the car that a person may drive beside an agent that
    learns: then `car` is its number."""

    status: str
    agent_steps: int
    seconds: float
    steps_per_second: float
    speed: float | None
    phase: str | None = None
    explore: bool | None = None
    latest: dict[str, float] = {}
    rewards: dict[str, float] = {}
    workers: list[WorkerStatus] | UnsetType = UNSET
    policy: str | UnsetType | None = UNSET
    video_problem: str | UnsetType | None = UNSET
    car: int | UnsetType = UNSET
    mode: str | UnsetType = UNSET
    assist: float | UnsetType = UNSET
    driver: str | UnsetType = UNSET
    pilot: str | UnsetType = UNSET
    opponent: str | UnsetType | None = UNSET
    laps: int | UnsetType = UNSET
    is_waiting: bool | UnsetType = UNSET
    last_lap: float | UnsetType | None = UNSET
    best_lap: float | UnsetType | None = UNSET
    corrections: CorrectionStatus | UnsetType = UNSET


class Welcome(msgspec.Struct, tag="welcome"):
    """The first message. kind: `racing` or `video`; can: the commands that this run takes."""

    kind: str
    can: list[str]
    status: Status
    ghosts: list[dict[str, Any]] = []


class Scene(msgspec.Struct, tag="scene"):
    """What stands still on a track."""

    track: int
    scene: dict[str, Any]


class Snapshot(msgspec.Struct, tag="snapshot", kw_only=True):
    """The cars at one moment. time: s of simulation; wall: s of the clock; cars: float32 [C, columns];
    tracks: uint16 [C]; rays: float32 [R] m and dials of the watched cars."""

    time: float
    wall: float
    sequence: int
    cars: bytes
    tracks: bytes
    rays: dict[int, bytes] = {}
    dials: dict[int, int] = {}


class Picture(msgspec.Struct, tag="picture"):
    """A rendered frame."""

    jpeg: bytes


class Lap(msgspec.Struct, tag="lap", kw_only=True):
    """A lap that was just completed. deltas: s of each sector, by what they are compared with."""

    car: int
    lap_time: float
    sectors: list[float] = []
    deltas: dict[str, list[float]] = {}
    valid: bool = True


class Reply(msgspec.Struct, tag="reply"):
    """What came of a request."""

    id: int
    ok: bool
    error: str | None = None
    result: dict[str, Any] = {}


RunMessage = Welcome | Status | Scene | Snapshot | Picture | Lap | Reply
encode = msgspec.msgpack.Encoder().encode
decode_viewer_message = msgspec.msgpack.Decoder(ViewerMessage).decode
decode_run_message = msgspec.msgpack.Decoder(RunMessage).decode


# --- between the server and the page ---


class SetRate(msgspec.Struct, tag="rate"):
    """Snapshots a second that the page wants."""

    hz: float


class Follow(msgspec.Struct, tag="follow"):
    """The car whose rays and dials the page shows; None for none."""

    car: int | None = None


class ShowRays(msgspec.Struct, tag="rays"):
    """Whether the rays of the followed car are wanted."""

    on: bool


class Ping(msgspec.Struct, tag="ping"):
    """Comes back as a pong with the same number."""

    t: float


class Release(msgspec.Struct, tag="release"):
    """The person has let go of wheel and pedals."""


PageMessage = SetRate | Follow | ShowRays | Ping | DriverInput | Release
decode_page_message = msgspec.json.Decoder(PageMessage).decode
PAGE_MESSAGES = tuple(str(one.__struct_config__.tag) for one in get_args(PageMessage))
PAGE_NEWS = ("scene", "status", "event", "metrics", "lap", "ghost", "pong", "gone")  # types of JSON to the page
REFUSED = 4000  # plus the HTTP status: close code of a WebSocket that is refused
# Lines of `events.jsonl`, and whether the page marks them as good or bad news.
EVENTS: dict[str, str] = {
    "alert": "bad",
    "alert_undelivered": "bad",
    "cleanup": "",
    "continued": "",
    "control": "",
    "correction": "",
    "evaluation": "good",
    "failed": "bad",
    "finished": "good",
    "lap": "good",
    "opponent_put_back": "",
    "paused": "",
    "phase": "",
    "resumed": "",
    "stopped": "",
    "worker_replaced": "bad",
}

SNAPSHOT_VERSION = 1
SNAPSHOT_HEADER = (
    ("version", "B"), ("flags", "B"), ("cars", "H"), ("rays", "H"), ("followed", "H"), ("time", "d"), ("wall", "d"),
    ("sequence", "I"), ("dials", "I"),
)  # fmt: skip
HEADER = struct.Struct("<" + "".join(code for _, code in SNAPSHOT_HEADER))
HAS_RAYS = 1  # bit of `flags`
NO_CAR = 65535  # as `followed`
CAR_COLUMNS = ("x", "y", "heading", "speed", "steer", "throttle", "progress", "lap_time", "last_lap", "state")
OFF_TRACK, RESTARTED, HUMAN = 1, 2, 4  # bits of `state`
STATES = {"OFF_TRACK": OFF_TRACK, "RESTARTED": RESTARTED, "HUMAN": HUMAN}
