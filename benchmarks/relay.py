"""What the relay costs: weights there and back, transitions per second, and how late a control loop gets.

    python benchmarks/relay.py [--rounds 200] [--seconds 20] [--tlspyo PYTHON] [weights large transitions lateness]

weights: 4 MiB to the relay and on to a worker, beside an echo over plain gRPC and over a raw TCP socket, which also
carry 4 MiB twice; with --tlspyo, an interpreter that has tlspyo, also a broadcast over its relay. large: 64 MiB, with
the memory that each process needed beyond what it had before. transitions: chunks of lidar and of camera transitions,
from a worker's spool through the relay into the trainer's journal and into arrays, everything synced to disk.
lateness: of a 50 ms loop in a process that receives 20 MB of weights every 0.5 s. Relay, worker and trainer are
processes of their own on the loopback, with mutual TLS unless it says otherwise.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from paddock.core.specs import ArraySpec, Spec
from paddock.distributed.chunk_files import OutgoingChunk
from paddock.distributed.sessions import TrainerSession, WorkerSession
from paddock.distributed.wire.addresses import Invitation, LocalAddress
from paddock.distributed.wire.arrays import Packer, unpack
from paddock.distributed.wire.certificates import RelayFolder
from paddock.distributed.wire.dial import dial
from paddock.distributed.wire.link import Link
from paddock.distributed.wire.messages import Hello, Order, Ping, Pong, Weights

MIB = 2**20
WEIGHTS, LARGE, BROADCAST = 4 * MIB, 64 * MIB, 20 * 10**6  # bytes
STEP, EVERY = 0.05, 0.5  # seconds: of the control loop, between two broadcasts
ANY_SPEC = Spec(observation={}, action=ArraySpec(shape=(1,), dtype="float32"))
TLSPYO = """
import statistics, sys, time
from tlspyo import Endpoint, Relay
size, rounds, port = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
if __name__ == "__main__":
    relay = Relay(port=port, password="benchmark", accepted_groups=None, local_com_port=port + 1, security=None,
                  header_size=12)
    ends = [
        Endpoint(ip_server="127.0.0.1", port=port, password="benchmark", groups=(group,), local_com_port=port + number,
                 security=None, header_size=12)
        for number, group in ((2, "trainers"), (3, "workers"))
    ]
    body, taken = bytes(size), []
    for number in range(rounds):
        start = time.perf_counter()
        ends[0].broadcast((number, body), "workers")
        while True:
            found = ends[1].get_last(blocking=True)
            if found and found[-1][0] == number:
                break
        taken.append(1_000 * (time.perf_counter() - start))
    print(statistics.median(taken), flush=True)
    for one in (*ends, relay):
        one.stop()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20.0, help="of transitions and of the control loop")
    parser.add_argument("--tlspyo", metavar="PYTHON", help="an interpreter in whose environment tlspyo is installed")
    parser.add_argument("--serve", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("parts", nargs="*", choices=["weights", "large", "transitions", "lateness", []])
    arguments = parser.parse_args()
    if arguments.serve:
        SERVED[arguments.serve[0]](*arguments.serve[1:])
        return
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "weights": lambda: weights(arguments.rounds, arguments.tlspyo),
        "large": large,
        "transitions": lambda: transitions(arguments.seconds),
        "lateness": lambda: lateness(arguments.seconds),
    }
    for name in arguments.parts or parts:
        print(json.dumps({name: parts[name]()}, indent=1), flush=True)


# --- 4 MiB there and back ---


def weights(rounds: int, tlspyo: str | None) -> dict[str, Any]:
    """Milliseconds for 4 MiB in both directions: median, and the fastest tenth."""
    found: dict[str, Any] = {
        "raw TCP (ms)": over_tcp(rounds),
        "plain gRPC (ms)": over_grpc(rounds),
        "relay, loopback and token (ms)": over_relay(rounds, tls=False),
        "relay, mutual TLS (ms)": over_relay(rounds, tls=True),
    }
    found["tlspyo without TLS (ms)"] = over_tlspyo(tlspyo) if tlspyo else "left out: give --tlspyo PYTHON"
    return found


def timed(rounds: int, once: Callable[[int], None]) -> dict[str, float]:
    taken = []
    for number in range(rounds + 10):
        start = time.perf_counter()
        once(number + 1)
        taken.append(1_000 * (time.perf_counter() - start))
    taken = taken[10:]  # the first ones open windows and warm caches
    return {"median": round(statistics.median(taken), 2), "fastest tenth": round(float(np.quantile(taken, 0.1)), 2)}


def over_tcp(rounds: int) -> dict[str, float]:
    with served("tcp") as (port, _), socket.create_connection(("127.0.0.1", port)) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        body, back = os.urandom(WEIGHTS), memoryview(bytearray(WEIGHTS))

        def once(_: int) -> None:
            sending = threading.Thread(target=link.sendall, args=(body,))
            sending.start()
            filled = 0
            while filled < WEIGHTS:
                filled += link.recv_into(back[filled:])
            sending.join()

        return timed(rounds, once)


def serve_tcp() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    link, _ = listener.accept()
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    buffer = memoryview(bytearray(MIB))
    while size := link.recv_into(buffer):
        link.sendall(buffer[:size])


def over_grpc(rounds: int) -> dict[str, float]:
    import grpc

    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    with served("grpc") as (port, _), grpc.insecure_channel(f"127.0.0.1:{port}", options) as channel:
        echo, body = channel.unary_unary("/echo/Echo"), os.urandom(WEIGHTS)
        return timed(rounds, lambda _: echo(body))


def serve_grpc() -> None:
    import grpc

    class Handler(grpc.GenericRpcHandler):
        def service(self, _: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(lambda request, _: request)

    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    server = grpc.server(ThreadPoolExecutor(4), handlers=[Handler()], options=options)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


def over_relay(rounds: int, *, tls: bool) -> dict[str, float]:
    with Relay(tls=tls) as relay, relay.link("trainer") as trainer, relay.link("worker") as worker:
        body = os.urandom(WEIGHTS)

        def once(number: int) -> None:
            trainer.send(Weights(number, Order(), WEIGHTS), [body])
            assert receive(worker, Weights).body.nbytes == WEIGHTS

        return timed(rounds, once)


def over_tlspyo(python: str) -> float | str:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "tlspyo_benchmark.py")
        script.write_text(TLSPYO)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1] - 10  # its four ports have to be chosen by hand
        command = [python, str(script), str(WEIGHTS), "20", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return round(float(done.stdout.split()[-1]), 1) if done.returncode == 0 else f"failed: {done.stderr[-300:]}"


# --- 64 MiB ---


def large() -> dict[str, Any]:
    """Seconds for 64 MiB to the relay and on to a worker, and memory as multiples of the message."""
    with Relay(tls=True) as relay, served("receive", *relay.given("worker")) as (_, worker):
        with served("publish", *relay.given("trainer"), str(LARGE)) as (_, trainer):
            told = json.loads(worker.stdout.readline())
            grown = json.loads(trainer.stdout.readline())
        seconds = told["received"] - grown["sent"]
        return {
            "seconds": round(seconds, 3),
            "relay's memory / message": round(relay.grown() / LARGE, 2),
            "worker's memory / message": round(told["grown"] / LARGE, 2),
            "trainer's memory / message, with the message": round(grown["grown"] / LARGE, 2),
        }


def serve_receive(kind: str, path: str) -> None:
    with contextlib.closing(dial(address(kind, path), hello("worker"))) as link:
        before = peak_memory()
        print(0, flush=True)
        receive(link, Weights, 60)
        print(json.dumps({"received": time.monotonic(), "grown": peak_memory() - before}), flush=True)
        time.sleep(1)


def serve_publish(kind: str, path: str, size: str) -> None:
    with contextlib.closing(dial(address(kind, path), hello("trainer"))) as link:
        before = peak_memory()
        body = os.urandom(int(size))
        print(0, flush=True)
        start = time.monotonic()
        link.send(Weights(1, Order(), len(body)), [body])
        link.send(Ping(1))
        receive(link, Pong, 60)
        print(json.dumps({"sent": start, "grown": peak_memory() - before}), flush=True)


def peak_memory() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1_024
    raise RuntimeError("this system does not say how much memory a process needed")


# --- transitions per second ---

KINDS = {  # name: observation of one environment, copies, steps in a chunk
    "lidar": (ArraySpec(shape=(83,), dtype="float32"), 8, 50),
    "camera": (ArraySpec(shape=(64, 64), dtype="uint8"), 1, 50),
}


def kind_spec(kind: str) -> Spec:
    return Spec(observation={"observation": KINDS[kind][0]}, action=ArraySpec(shape=(3,), dtype="float32"))


def kind_arrays(kind: str) -> dict[str, np.ndarray]:
    """A chunk's arrays [T, n, ...], as noisy as a real sensor's."""
    random, (observation, copies, steps) = np.random.default_rng(0), KINDS[kind]
    shape = (steps, copies)
    noise = random.normal(0, 1, (*shape, *observation.shape))
    return {
        "observation": (128 + 20 * noise if observation.dtype == "uint8" else noise).astype(observation.dtype),
        "action": random.normal(0, 1, (*shape, 3)).astype(np.float32),
        "reward": random.normal(0, 1, shape).astype(np.float32),
        "terminated": np.zeros(shape, bool),
        "truncated": np.zeros(shape, bool),
        "episode": np.zeros(shape, np.int64),
        "step": np.arange(steps)[:, None].repeat(copies, 1),
    }


def transitions(seconds: float) -> dict[str, Any]:
    """Transitions per second from one worker, each journaled, unpacked and copied into arrays of a buffer."""
    return {kind: transitions_of(kind, seconds / 2) for kind in KINDS}


def transitions_of(kind: str, seconds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder, Relay(tls=True) as relay:
        where = address(*relay.given("trainer"))
        spec = kind_spec(kind)
        trainer = TrainerSession.open(
            Path(folder, "journal"), dial=lambda one: dial(where, one), hello=hello("trainer", spec)
        )
        with served("offer", *relay.given("worker"), kind, str(Path(folder, "spool"))), contextlib.closing(trainer):
            store = {name: np.zeros((64, *array.shape), array.dtype) for name, array in kind_arrays(kind).items()}
            steps, size, count, begun = 0, 0, 0, 0.0
            while not begun or time.monotonic() - begun < seconds:
                chunk = trainer.take(1.0)
                if chunk is None:
                    continue
                arrays = unpack(chunk.header, chunk.body, finite=True)
                for name, array in arrays.items():
                    store[name][count % 64] = array
                count += 1
                if count % 64 == 0:
                    trainer.checkpointed(trainer.marks)
                if not begun and count == 20:  # windows are open
                    begun, steps, size = time.monotonic(), 0, 0
                steps, size = steps + chunk.steps, size + chunk.size
            taken = time.monotonic() - begun
    return {
        "transitions/s": round(steps / taken),
        "MB/s": round(size / taken / 1e6, 1),
        "bytes/transition": round(size / steps),
    }


def serve_offer(kind: str, path: str, what: str, folder: str) -> None:
    """A worker that offers as much as is taken."""
    where, arrays = address(kind, path), kind_arrays(what)
    session = WorkerSession.open(
        Path(folder), dial=lambda one: dial(where, one), hello=hello("worker", kind_spec(what))
    )
    packer, (_, copies, steps) = Packer(), KINDS[what]
    print(0, flush=True)
    while True:
        packed = packer.pack(arrays)
        session.offer(OutgoingChunk(steps * copies, 0, packed.header, packed.body), timeout=None)


# --- a control loop ---


def lateness(seconds: float) -> dict[str, Any]:
    """Milliseconds by which the steps of a 50 ms loop begin late, without and with broadcasts."""
    return {
        "without weights (ms)": lateness_of(seconds, broadcasts=False),
        "20 MB every 0.5 s (ms)": lateness_of(seconds, broadcasts=True),
    }


def lateness_of(seconds: float, *, broadcasts: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder, Relay(tls=True) as relay:
        given = relay.given("worker")
        with relay.link("trainer") as trainer, served("loop", *given, folder, str(seconds)) as (_, worker):
            stopped = threading.Event()
            sending = threading.Thread(target=broadcast, args=(trainer, stopped))
            if broadcasts:
                sending.start()
            told = json.loads(worker.stdout.readline())
            stopped.set()
            if broadcasts:
                sending.join()
    return told


def broadcast(trainer: Link, stopped: threading.Event) -> None:
    body, version = os.urandom(BROADCAST), 0
    while not stopped.wait(EVERY):
        version += 1
        trainer.send(Weights(version, Order(), BROADCAST), [body])


def serve_loop(kind: str, path: str, folder: str, seconds: str) -> None:
    where = address(kind, path)
    session = WorkerSession.open(Path(folder), dial=lambda one: dial(where, one), hello=hello("worker"))
    print(0, flush=True)
    late, versions = [], set()
    begun = time.monotonic()
    for number in range(1, int(float(seconds) / STEP)):
        time.sleep(max(0.0, begun + number * STEP - time.monotonic()))
        late.append(1_000 * (time.monotonic() - begun - number * STEP))
        weights = session.weights
        if weights is not None:
            versions.add(weights.version)
    found = {f"p{share}": round(float(np.percentile(late, share)), 2) for share in (50, 99)}
    print(json.dumps({**found, "worst": round(max(late), 2), "versions": len(versions)}), flush=True)
    session.close()


# --- processes ---


class Relay:
    """`paddock relay` in a process of its own."""

    def __init__(self, *, tls: bool) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._path, self._tls = Path(self._folder.name, "relay"), tls
        if tls:
            RelayFolder(self._path).initialise("127.0.0.1")
        command = [sys.executable, "-m", "paddock", "relay", "--host", "127.0.0.1", "--port", "0", "--config-folder"]
        self._process = subprocess.Popen([*command, str(self._path)], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._process.stdout.readline()
        self._before = self._peak()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()

    def given(self, role: str) -> tuple[str, str]:
        """What a process needs to dial it: the kind of its address, and a file."""
        if not self._tls:
            return "local", str(self._path)
        file = Path(self._folder.name, f"{role}.json")
        if not file.exists():
            port = json.loads((self._path / "listening.json").read_text())["port"]
            RelayFolder(self._path).invite(role, role, port=port).write(file)
        return "invitation", str(file)

    @contextlib.contextmanager
    def link(self, role: str) -> Iterator[Link]:
        with contextlib.closing(dial(address(*self.given(role)), hello(role))) as link:
            yield link

    def grown(self) -> int:
        """Bytes of memory that it took since it started."""
        return self._peak() - self._before

    def _peak(self) -> int:
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1_024
        raise RuntimeError("this system does not say how much memory a process needed")


def address(kind: str, path: str) -> Invitation | LocalAddress:
    return LocalAddress.read(Path(path)) if kind == "local" else Invitation.read(Path(path))


def hello(role: Any, spec: Spec = ANY_SPEC) -> Hello:
    number = "1" if role == "trainer" else "2"
    return Hello(role, role, number * 16, run="benchmark" if role == "trainer" else "", spec=spec)


def receive(link: Link, kind: type, timeout: float = 10.0) -> Any:
    deadline = time.monotonic() + timeout
    while (left := deadline - time.monotonic()) > 0:
        received = link.receive(left)
        if received is not None and isinstance(received.message, kind):
            return received
    raise TimeoutError(f"no {kind.__name__} within {timeout} s")


@contextlib.contextmanager
def served(*what: str) -> Iterator[tuple[int, Any]]:
    """A process of this file in another role; gives the number that it prints first."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--serve", *what], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline()), process
    finally:
        psutil.Process(process.pid).kill()
        process.wait()


SERVED: dict[str, Callable[..., None]] = {
    "tcp": serve_tcp,
    "grpc": serve_grpc,
    "receive": serve_receive,
    "publish": serve_publish,
    "offer": serve_offer,
    "loop": serve_loop,
}

if __name__ == "__main__":
    main()
