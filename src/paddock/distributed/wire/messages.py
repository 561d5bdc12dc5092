"""What relay, workers and trainer say to each other: tagged structs, encoded with msgpack. Nothing is ever unpickled.

A message may be followed by a body, raw bytes whose size stands in the frame around both (`frames`). Every text and
number is bounded here, so that decoding a message from a stranger takes no more memory than its bytes.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from paddock import __version__
from paddock.core.specs import ArraySpec, Spec

PROTOCOL = 1  # grows when a message changes its meaning; a relay refuses other numbers
LARGEST_MESSAGE = 2**20  # bytes of a message without its body
LARGEST_CHUNK = 64 * 2**20  # bytes of a chunk's body
LARGEST_WEIGHTS = 2**30  # bytes of a policy's weights
MOST_STEPS = 2**20  # transitions in one chunk
ROOM_PER_CHUNK, ROOM_PER_STEP = 2**16, 512  # bytes beyond what the Spec needs: rewards, flags, episode numbers
COPIES = 4  # observation, next observation, and both once more while samples are checked
MOST_AXES = 8
ITEM_SIZES = {  # bytes of each dtype that travels
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
    "float16": 2, "float32": 4, "float64": 8,
}  # fmt: skip

Role = Literal["worker", "trainer", "operator"]
Name = Annotated[str, Meta(min_length=1, max_length=128)]
WorkerId = Annotated[str, Meta(pattern=r"^[0-9a-f]{16}\Z")]
Label = Annotated[str, Meta(max_length=256)]
Count = Annotated[int, Meta(ge=0)]
Sequence = Annotated[int, Meta(ge=1)]
Sentence = Annotated[str, Meta(max_length=2_000)]
Nonce = Annotated[bytes, Meta(min_length=16, max_length=16)]
Code = Annotated[bytes, Meta(max_length=32)]


class Hello(Struct, frozen=True, tag="hello"):
    """The first message of every connection.

    id: of a worker 16 hex digits that outlive its restarts; of a trainer the same, from its run. run: the trainer's run
    id, empty for others. incarnation: grows with every start of a trainer's process. spec: the environment's, None for
    an operator. sent: the sender's wall clock, to warn about one that is wrong; nothing else depends on it.
    """

    role: Role
    name: Name
    id: WorkerId
    run: Label = ""
    incarnation: Count = 0
    protocol: int = PROTOCOL
    paddock: Label = ""
    experiment: Label = ""
    spec: Spec | None = None
    host: Label = ""
    sent: float = 0.0


class Challenge(Struct, frozen=True, tag="challenge"):
    """The first message of a relay without certificates; it is answered with a Proof."""

    nonce: Nonce


class Proof(Struct, frozen=True, tag="proof"):
    """A peer has the token of this machine: a code made with it, over both nonces. Then comes its Hello."""

    nonce: Nonce
    code: Code


class Welcome(Struct, frozen=True, tag="welcome"):
    """The relay took the connection. name: what the relay calls this peer; warning: a sentence for its person.

    proof: of a relay without certificates, that it has the token, too.
    """

    name: Name
    paddock: Label = ""
    has_trainer: bool = False
    warning: Sentence = ""
    proof: Code = b""


class Refusal(Struct, frozen=True, tag="refusal"):
    """The relay does not take the connection, or takes it no longer; it is closed after this."""

    reason: Sentence


class Chunk(Struct, frozen=True, tag="chunk"):
    """Consecutive vector steps of one worker; the body holds their arrays.

    steps: transitions in it (T x n). version: of the weights that acted last. header: describes the body (`arrays`).
    oldest: the lowest sequence that the worker still has, so that the trainer waits for none that is gone.
    """

    worker: WorkerId
    sequence: Sequence
    steps: Annotated[int, Meta(ge=0, le=MOST_STEPS)]
    version: Count
    header: bytes = b""
    oldest: Sequence = 1


class Held(Struct, frozen=True, tag="held"):
    """The trainer has every chunk of this worker up to `sequence` on its disk; 0 for none.

    rewind: what was sent after it did not arrive and has to be sent again.
    """

    worker: WorkerId
    sequence: Count
    rewind: bool = False


class Grant(Struct, frozen=True, tag="grant"):
    """How many bytes of chunks a worker may have sent and not yet acknowledged. 0: it keeps them in its spool.

    From the trainer: for one worker, or for all of them where `worker` is None. From the relay: to this worker.
    """

    window: Count
    worker: WorkerId | None = None


class Waiting(Struct, frozen=True, tag="waiting"):
    """From a worker to the trainer: it has chunks and got neither credit nor an acknowledgement for a while."""

    worker: WorkerId


class Joined(Struct, frozen=True, tag="joined"):
    """To the trainer: a worker is connected."""

    worker: WorkerId
    hello: Hello


class Left(Struct, frozen=True, tag="left"):
    """To the trainer: a worker is no longer connected."""

    worker: WorkerId
    reason: Sentence = ""


class Order(Struct, frozen=True, tag="order"):
    """What workers shall do. free: collect without waiting; rollouts: `steps` vector steps, then wait for new weights.

    test_every: a test episode after this many training episodes, 0 for none. soft_lag, hard_lag: versions that a
    worker's weights may be behind before it counts that, before it pauses; 0 for no limit.
    """

    mode: Literal["free", "rollouts"] = "free"
    steps: Count = 0
    test_every: Count = 0
    soft_lag: Count = 0
    hard_lag: Count = 0


class Weights(Struct, frozen=True, tag="weights"):
    """A policy; the body holds its parameters. size: bytes of the body. run: the trainer's; the relay writes it."""

    version: Count
    order: Order
    size: Annotated[int, Meta(ge=0, le=LARGEST_WEIGHTS)]
    header: bytes = b""
    run: Label = ""


class Report(Struct, frozen=True, tag="report"):
    """A worker's statistics: steps/s, version lag, last episode, bytes in its spool."""

    worker: WorkerId
    numbers: dict[Label, float | Label]


class Ping(Struct, frozen=True, tag="ping"):
    """Answered at once with a Pong of the same number; the sender measures the time between on its own clock."""

    number: int


class Pong(Struct, frozen=True, tag="pong"):
    number: int


class Status(Struct, frozen=True, tag="status"):
    """Ask the relay who is connected."""


class Peer(Struct, frozen=True):
    """One connection, as `paddock relay status` shows it. Times in seconds, sizes in bytes."""

    role: Role
    name: Name
    id: WorkerId
    address: Label = ""
    host: Label = ""
    experiment: Label = ""
    run: Label = ""
    connected_for: float = 0.0
    held: Count = 0
    waiting_bytes: Count = 0
    round_trip: float | None = None
    numbers: dict[Label, float | Label] = {}


class StatusReply(Struct, frozen=True, tag="status_reply"):
    paddock: Label
    running_for: float
    trainer: Peer | None
    workers: list[Peer]
    version: Count | None = None  # of the newest weights
    weights_size: Count = 0
    counters: dict[Label, float] = {}


Message = (
    Hello
    | Challenge
    | Proof
    | Welcome
    | Refusal
    | Chunk
    | Held
    | Grant
    | Waiting
    | Joined
    | Left
    | Weights
    | Report
    | Ping
    | Pong
    | Status
    | StatusReply
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


class ProtocolError(Exception):
    """The other side sent what it must not send; the sentence says what."""


def encode(message: Message) -> bytes:
    return _encoder.encode(message)


def decode(data: bytes | memoryview) -> Message:
    """The message, or a ProtocolError that says what is wrong with it."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(f"this is not a message of Paddock's relay ({error})") from error


def body_limit(message: Message, spec: Spec | None = None) -> int:
    """The most bytes that may follow a message. A chunk's depends on the Spec of the worker's handshake."""
    if isinstance(message, Weights):
        return message.size
    if isinstance(message, Chunk):
        return LARGEST_CHUNK if spec is None else min(LARGEST_CHUNK, chunk_limit(spec, message.steps))
    return 0


def chunk_limit(spec: Spec, steps: int) -> int:
    """The most bytes that a chunk of so many transitions can need in these spaces, uncompressed."""
    arrays = [*spec.observation.values(), spec.action]
    per_step = COPIES * sum(one.size * ITEM_SIZES[one.dtype] for one in arrays) + ROOM_PER_STEP
    return ROOM_PER_CHUNK + steps * per_step


def check_hello(hello: Hello) -> str | None:
    """Why a peer cannot be understood, independent of other connections; None where it can."""
    if hello.protocol != PROTOCOL:
        return (
            f"'{hello.name}' speaks version {hello.protocol} of the relay's protocol (Paddock {hello.paddock}), this "
            f"relay speaks version {PROTOCOL} (Paddock {__version__}). Install the same Paddock on both machines."
        )
    if hello.role == "operator":
        return None
    if hello.spec is None:
        return f"'{hello.name}' sent no Spec of its environment, which a {hello.role} has to send."
    for one in (*hello.spec.observation.values(), hello.spec.action):
        if one.dtype not in ITEM_SIZES:
            return f"the Spec of '{hello.name}' has the dtype '{_short(one.dtype)}'. Allowed: {', '.join(ITEM_SIZES)}."
        if any(length < 0 for length in one.shape) or len(one.shape) > MOST_AXES:
            return f"the Spec of '{hello.name}' has the shape {_short(list(one.shape))}, which no array has."
    return None


def mismatch(trainer: Hello, worker: Hello) -> str | None:
    """Why this worker's transitions are of no use to this trainer, in a sentence; None where they fit."""
    if worker.experiment != trainer.experiment:
        return (
            f"the worker '{worker.name}' plays the experiment '{worker.experiment}', the trainer learns "
            f"'{trainer.experiment}'. Start the worker with: paddock worker {trainer.experiment}"
        )
    if worker.spec is None or trainer.spec is None:
        return None
    difference = _spec_difference(trainer.spec, worker.spec)
    if difference is None:
        return None
    return (
        f"the environment of the worker '{worker.name}' differs from the trainer's: {difference}. Start both with the "
        "same experiment and the same environment.* options."
    )


def _spec_difference(trainer: Spec, worker: Spec) -> str | None:
    theirs, ours = set(worker.observation), set(trainer.observation)
    if theirs != ours:
        missing, extra = sorted(ours - theirs), sorted(theirs - ours)
        return "; ".join(
            text
            for text in (
                f"its observation lacks {', '.join(missing)}" if missing else "",
                f"its observation has {', '.join(extra)}, which the trainer's lacks" if extra else "",
            )
            if text
        )
    for name in sorted(ours):
        found = _array_difference(trainer.observation[name], worker.observation[name])
        if found:
            return f"the observation's '{name}' {found}"
    found = _array_difference(trainer.action, worker.action)
    return f"the action {found}" if found else None


def _array_difference(trainer: ArraySpec, worker: ArraySpec) -> str | None:
    facts: list[tuple[str, Any, Any]] = [
        ("shape", list(trainer.shape), list(worker.shape)),
        ("dtype", trainer.dtype, worker.dtype),
        ("choices", trainer.choices, worker.choices),
        ("lower bound", trainer.low, worker.low),
        ("upper bound", trainer.high, worker.high),
    ]
    for what, ours, theirs in facts:
        if ours != theirs:
            return f"has the {what} {_short(theirs)} there and {_short(ours)} at the trainer"
    return None


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
