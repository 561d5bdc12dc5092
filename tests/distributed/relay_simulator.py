"""Workers, relay and trainer over a simulated network, disk and clock, all from one seed.

The classes are those of the real processes: the Exchange, both endpoints, spool and journal. A schedule is some turns
with faults (which kinds and how many is drawn too), then turns without any, in which everything has to arrive. After
every turn the invariants are checked; a Violation names the seed.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from simulated_nodes import (
    CHANNEL,
    LARGEST_CHUNK,
    PATIENCE,
    Chances,
    Machines,
    Node,
    TrainerNode,
    Violation,
    Wire,
    WorkerNode,
    below,
)

from paddock.distributed.delivery.exchange import Exchange
from paddock.distributed.delivery.versions import make_version
from paddock.distributed.wire.messages import Chunk, Grant, Held, Message, Refusal


class World:
    """One schedule."""

    def __init__(self, seed: int, machines: Machines | None = None, note: Callable[[str], None] | None = None) -> None:
        random = self.random = Random(seed)
        self.seed, self.machines = seed, machines or Machines()
        self._note = note
        self.now = 0.0
        self.pace = random.choice((0.02, 0.1, 0.5))
        self.is_healing = False
        self.chances = Chances.draw(random)
        self.window = random.choice((40, 150, 400))
        self.spool_limit = random.choice((100, 400, 2_000))
        self.segment_bytes = random.choice((100, 300, 1_000))
        self.most_spool_bytes = 4 * (self.spool_limit + 2 * self.segment_bytes + 500)  # framing of tiny chunks
        self.cache_bytes = random.choice((0, 60, 400))
        self.inbox_limit = random.choice((60, 200, 1_000))
        self.relay_limit = random.choice((60, 200, 1_000))
        self.turns = random.randrange(60, 140) if random.random() < 0.8 else random.randrange(200, 400)
        self.workers = [WorkerNode(self, index) for index in range(1, random.choice((2, 2, 3, 4)))]
        self.by_id = {worker.id: worker for worker in self.workers}
        self.trainer = TrainerNode(self)
        self.nodes: list[Node] = [*self.workers, self.trainer]
        self.exchange: Exchange | None = None
        self._wires: dict[int, Wire] = {}
        self._dialled = 0

    def run(self) -> None:
        """All turns; raises a Violation that names the seed."""
        try:
            for _ in range(self.turns):
                self._step()
            self._heal()
        except Violation as violation:
            raise Violation(f"seed {self.seed}, at {self.now:.2f} s: {violation}") from None
        except Exception as error:
            raise Violation(f"seed {self.seed}, at {self.now:.2f} s: {error!r}") from error

    def note(self, text: str) -> None:
        if self._note is not None:
            self._note(f"{self.now:8.2f} {text}")

    def some(self, limit: int) -> int:
        """How many messages or chunks a process handles in its turn."""
        return 20 if self.is_healing else below(self.random, limit)

    # ---- the network

    def dial(self, node: Node) -> Wire | None:
        if self.exchange is None:
            return None
        self._dialled += 1
        wire = Wire(self._dialled)
        answer = self.exchange.connect(wire.number, node.hello(), self.now)
        if isinstance(answer, Refusal):
            self.note(f"{node.name} is refused: {answer.reason}")
            return None
        self._wires[wire.number] = wire
        self.note(f"{node.name} connects as {wire.number}")
        if self.random.random() < self.chances.half_open and not self.is_healing:
            return None  # The relay's answer is lost.
        return wire

    def pick(self, channel: list[tuple[Message, memoryview]]) -> tuple[Message, memoryview]:
        """The next message of a channel, with what its network does to order and number."""
        random, chances = self.random, self.chances
        if self.is_healing:
            return channel.pop(0)
        index = below(random, len(channel)) if chances.reorder and random.random() < chances.reorder else 0
        if chances.drop and random.random() < chances.drop and len(channel) > 1:
            dropped = channel.pop(index)
            self.note(f"the network drops {_short(dropped[0])}")
            index = 0
        if chances.duplicate and random.random() < chances.duplicate:
            return channel[index]
        return channel.pop(index)

    # ---- the relay

    def relay_turn(self) -> None:
        exchange = self.exchange
        if exchange is None:
            exchange = self.exchange = self.machines.exchange(chunk_bytes=self.relay_limit)
            self.note("the relay starts")
        for number, wire in list(self._wires.items()):
            if not wire.far_open or (not wire.near_open and not wire.to_relay):
                exchange.disconnect(number, self.now)
                del self._wires[number]
                continue
            self._relay_wire(exchange, number, wire)
        exchange.awake()
        for number, reason in exchange.closings():
            self.note(f"the relay closes {number}: {reason}")
            closed = self._wires.pop(number, None)
            if closed is not None:
                closed.near_open = False
        self._check_relay(exchange)

    def _relay_wire(self, exchange: Exchange, number: int, wire: Wire) -> None:
        for _ in range(self.some(6)):
            if not wire.to_relay:
                break
            message, body = self.pick(wire.to_relay)
            exchange.receive(number, message, body, self.now)
        for _ in range(self.some(6)):
            if len(wire.to_near) >= CHANNEL:
                break
            outgoing = exchange.next(number)
            if outgoing is None:
                break
            if wire.near_open:
                wire.to_near.append((outgoing.message, outgoing.body))

    def _check_relay(self, exchange: Exchange) -> None:
        most, most_notices = max(self.relay_limit, LARGEST_CHUNK), 12 + 2 * len(self.workers)
        for number in self._wires:
            chunk_bytes, notices = exchange.waiting_chunk_bytes(number), exchange.waiting_notices(number)
            if chunk_bytes > most or notices > most_notices:
                raise Violation(f"the relay keeps {chunk_bytes} bytes of chunks and {notices} messages")

    def kill_relay(self) -> None:
        self.note("the relay dies")
        self.exchange = None
        for wire in self._wires.values():
            wire.near_open = False
            wire.to_near.clear()
        self._wires.clear()

    # ---- schedules

    def _step(self) -> None:
        random = self.random
        self.now += random.random() * self.pace
        chosen = below(random, len(self.workers) + 4)
        if chosen < len(self.workers):
            self.workers[chosen].turn()
        elif chosen < len(self.workers) + 2:
            self.trainer.turn()
        else:
            self.relay_turn()
        self._faults()

    def _faults(self) -> None:
        random, chances = self.random, self.chances
        node = self.trainer if random.random() < 0.4 else random.choice(self.workers)
        if random.random() < chances.kill:
            if random.random() < 0.3:
                self.kill_relay()
            else:
                self.note(f"{node.name} is killed")
                node.die(power_cut=False)
        if random.random() < chances.power_cut:
            self.note(f"{node.name} loses power")
            node.die(power_cut=True)
        if random.random() < chances.fuse:
            node.disk.fuse = below(random, 6)
        if random.random() < chances.full_disk:
            node.disk.is_full = not node.disk.is_full
            self.note(f"the disk of {node.name} is {'full' if node.disk.is_full else 'free'}")
        if random.random() < chances.partition:
            self.note(f"{node.name} is cut off")
            node.partitioned_until = self.now + random.random() * 20 * self.pace
            self._cut(node, near=True, far=True)
        if random.random() < chances.cut:
            self._cut(node, near=True, far=True)
        if random.random() < chances.half_open:
            side = random.random() < 0.5
            self._cut(node, near=side, far=not side)

    def _cut(self, node: Node, *, near: bool, far: bool) -> None:
        wire = node.wire
        if wire is None:
            return
        self.note(f"the connection {wire.number} of {node.name} breaks ({near=}, {far=})")
        wire.to_near.clear()
        wire.to_relay.clear()
        if near:
            wire.near_open = False
        if far:
            wire.far_open = False

    def _heal(self) -> None:
        """No more faults: everything arrives in bounded time."""
        self.note("faults end")
        self.is_healing = True
        for node in self.nodes:
            node.disk.is_full, node.disk.fuse, node.partitioned_until = False, None, 0.0
            wire = node.wire
            if wire is not None and wire.near_open != wire.far_open:
                self._cut(node, near=True, far=True)  # Both sides notice after a while.
        if self.trainer.endpoint is not None:
            self.trainer.publish()
        rounds, best = 0, -1
        while not self._is_done():
            self.now += 1.0
            for node in self.nodes:
                node.turn()
            self.relay_turn()
            delivered = sum(self.trainer.buffer.values())
            rounds, best = (0, delivered) if delivered > best else (rounds + 1, best)
            if rounds > PATIENCE:
                raise Violation(f"no progress after the faults: {self._state()}")
        self._check_end()

    def _is_done(self) -> bool:
        trainer = self.trainer
        if trainer.endpoint is None or trainer.endpoint.waiting:
            return False
        if trainer.newest not in (-1, make_version(trainer.endpoint.journal.incarnation, trainer.count)):
            trainer.publish()  # A new process of the trainer publishes what it resumed from.
        return all(worker.is_done(trainer.newest) for worker in self.workers)

    def _check_end(self) -> None:
        for worker in self.workers:
            delivered = self.trainer.buffer.get(worker.id, 0)
            if set(worker.durable) - set(range(1, delivered + 1)):
                raise Violation(f"{worker.name}: {len(worker.durable)} chunks were spooled, {delivered} delivered")

    def _state(self) -> str:
        parts = []
        for worker in self.workers:
            outbox = worker.endpoint.outbox
            parts.append(
                f"{worker.name}: {outbox.acknowledged} of {outbox.newest} acknowledged, version {worker.version}"
            )
        parts.append(f"trainer: {self.trainer.endpoint.waiting} wait, version {self.trainer.newest}")
        return "; ".join(parts)


def _short(message: Message) -> str:
    if isinstance(message, Chunk | Held):
        return f"{type(message).__name__} {message.sequence} of {message.worker[-2:]}"
    return f"Grant {message.window}" if isinstance(message, Grant) else type(message).__name__


def run_schedule(seed: int, machines: Machines | None = None, note: Callable[[str], None] | None = None) -> World:
    """Run one schedule; returns what it was, raises a Violation if an invariant broke."""
    world = World(seed, machines, note)
    world.run()
    return world
