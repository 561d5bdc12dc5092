"""Relay, trainer and workers as real processes over mutual TLS that are killed at random and started again.

The trainer's buffer is a list of chunks in a checkpoint file, which is compared with what workers made in the end.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

from paddock.distributed.wire.certificates import RelayFolder

COMMON = """
import json, os, struct, sys, time
from pathlib import Path
from paddock.core.files import replace_file
from paddock.distributed.chunk_files import OutgoingChunk
from paddock.distributed.sessions import TrainerSession, WorkerSession
from paddock.distributed.wire.addresses import Invitation
from paddock.distributed.wire.dial import dial
from relay_cases import hello
folder, name = Path(sys.argv[1]), sys.argv[2]
address = Invitation.read(folder / f"{name}.invitation")
def connect(hello):
    return dial(address, hello, timeout=3.0)
"""

WORKER = f"""{COMMON}
session = WorkerSession.open(folder / name, dial=connect, hello=hello("worker", name))
index = int(name.rpartition("-")[2])
number = session.status.newest
while not (folder / "finish").exists():
    number += 1
    body = [struct.pack("<qq", number, index), bytes(500)]
    while not session.offer(OutgoingChunk(1, 0, b"", body), timeout=1.0):
        pass
    while session.status.newest < number:  # One that dies with this process is made again by the next.
        time.sleep(0.001)
    time.sleep(0.002)
while session.status.waiting_chunks:
    time.sleep(0.01)
replace_file(folder / f"{{name}}.count", str(number).encode())
session.close()
"""

TRAINER = f"""{COMMON}
workers = int(sys.argv[3])
checkpoint = folder / "checkpoint.json"
buffer = json.loads(checkpoint.read_text()) if checkpoint.exists() else []
marks, counts = {{}}, [0] * workers
for worker, sequence, _, index in buffer:
    marks[worker] = sequence
    counts[index] = sequence
session = TrainerSession.open(folder / "journal", dial=connect, hello=hello("trainer", name))
session.delivered(marks)
session.publish([bytes(100_000)])
progress = os.open(folder / "progress", os.O_RDWR | os.O_CREAT)
def is_done():
    made = [folder / f"worker-{{index}}.count" for index in range(workers)]
    return all(one.exists() and int(one.read_text()) == count for one, count in zip(made, counts, strict=True))
while True:
    chunk = session.take(timeout=0.2)
    if chunk is not None:
        number, index = struct.unpack("<qq", chunk.body[:16])
        buffer.append((chunk.worker, chunk.sequence, number, index))
        counts[index] = chunk.sequence
        os.pwrite(progress, struct.pack(f"<{{workers}}q", *counts), 0)
    if chunk is None or len(buffer) % 200 == 0:
        replace_file(checkpoint, json.dumps(buffer).encode())
        session.checkpointed(session.marks)
        if chunk is None and is_done():
            break
replace_file(folder / "done", b"")
session.close()
"""

RELAY = """
import sys, time
from pathlib import Path
from paddock.distributed.relay import RelayServer
RelayServer(Path(sys.argv[1]) / "relay", host="127.0.0.1", port=int(sys.argv[2])).start()
while True:
    time.sleep(1)
"""


class Campaign:
    """Start everything; `kill` ends one process, `start` starts it again; `finish` checks what arrived."""

    def __init__(self, folder: Path, *, workers: int = 2) -> None:
        self._folder, self._workers = folder, workers
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        relay = RelayFolder(folder / "relay")
        relay.initialise("127.0.0.1")
        self._commands = {"relay": [RELAY, str(folder), str(port)]}
        for name, role in [("learner", "trainer"), *((f"worker-{index}", "worker") for index in range(workers))]:
            relay.invite(name, role, port=port).write(folder / f"{name}.invitation")
            self._commands[name] = [TRAINER if role == "trainer" else WORKER, str(folder), name, str(workers)]
        places = [str(Path(__file__).parent), str(Path(__file__).parents[1]), *sys.path]
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        for name in self._commands:
            self.start(name)

    @property
    def names(self) -> list[str]:
        return list(self._commands)

    def counts(self) -> list[int]:
        """Chunks of each worker in the buffer at present."""
        try:
            data = (self._folder / "progress").read_bytes()
        except FileNotFoundError:
            data = b""
        return list(struct.unpack(f"<{self._workers}q", data)) if data else [0] * self._workers

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self._running[name].send_signal(signal.SIGKILL)
        self._running[name].wait()

    def wait_for_progress(self, before: list[int], seconds: float = 60.0) -> float:
        """Seconds until every worker has more chunks in the buffer than `before`."""
        start = time.monotonic()
        while not all(now > then for now, then in zip(self.counts(), before, strict=True)):
            if time.monotonic() - start > seconds:
                raise AssertionError(f"no progress for {seconds:.0f} s: {before} before, {self.counts()} now")
            time.sleep(0.005)
        return time.monotonic() - start

    def finish(self, seconds: float = 120.0) -> int:
        """Let workers end, wait until the trainer has everything, and check it. Returns the number of chunks."""
        (self._folder / "finish").touch()
        deadline = time.monotonic() + seconds
        while not (self._folder / "done").exists():
            if time.monotonic() > deadline:
                raise AssertionError(f"not everything arrived within {seconds:.0f} s: {self.counts()}")
            time.sleep(0.05)
        buffer = json.loads((self._folder / "checkpoint.json").read_text())
        for index in range(self._workers):
            made = int((self._folder / f"worker-{index}.count").read_text())
            found = [(sequence, number) for _, sequence, number, owner in buffer if owner == index]
            if found != [(number, number) for number in range(1, made + 1)]:
                raise AssertionError(f"worker {index} made {made} chunks; the buffer does not hold each once, in order")
        return len(buffer)

    def close(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()

    def start(self, name: str) -> None:
        command = [sys.executable, "-c", *self._commands[name]]
        self._running[name] = subprocess.Popen(command, env=self._environment, stdout=subprocess.DEVNULL)


def random_strike(campaign: Campaign, chance: random.Random) -> str:
    """Kill one process after a random time; returns which."""
    time.sleep(chance.uniform(0.3, 2.2))
    name = chance.choice(campaign.names)
    campaign.kill(name)
    time.sleep(chance.uniform(0.0, 0.3))
    campaign.start(name)
    return name
