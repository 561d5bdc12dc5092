"""What watching costs: training with and without four viewers, and how soon a pedal is seen to have moved.

    python benchmarks/dashboard.py [--rounds 6] [--seconds 8] [--viewers 4] [key=value ...]

One racing run with 64 cars and one `paddock dashboard`, both processes of their own. In turns nobody looks and
`--viewers` WebSocket clients (one more process) take snapshots at 60 Hz. Two numbers each: agent steps per second of
wall clock, and processor seconds of the training process per million steps, which says what the run itself pays even
while others use the machine. Then a driving session: from sending a pedal to the first snapshot in which it has moved.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import websockets

from paddock.control.address import read_address
from paddock.control.broadcast import Broadcast
from paddock.control.channel import Channel
from paddock.control.requests import Control
from paddock.core.paths import paddock_home
from paddock.racing.env.vector import RacingVectorEnv

RATE = 60
SETTLE = 1.0  # s after viewers come or leave that are not counted
HEADER = struct.Struct("<BBHHHddII")
WITHOUT_EVALUATION = (
    "training.phases=[{name: train, buffer: rollout, workflow_hooks: "
    "[{collect: {steps: '${workflow.rollout_steps}'}}, update]}]"
)


class Meter:
    """Reads what a run logs; nobody has to attach to it for that."""

    def __init__(self, folder: Path) -> None:
        address = read_address(folder)
        assert address is not None
        self._process = psutil.Process(address.pid)
        self._file = folder / "metrics.jsonl"

    def read(self) -> tuple[float, int, float]:
        """Wall clock s, agent steps and processor s, right after a point was logged."""
        before = self._file.stat().st_size
        while self._file.stat().st_size == before:
            time.sleep(0.002)
        whole, _, _ = self._file.read_bytes().rpartition(b"\n")  # the last line may be half written
        steps = json.loads(whole.splitlines()[-1])["agent_steps"]
        times = self._process.cpu_times()
        return time.perf_counter(), steps, times.user + times.system


def owner_headers(port: int) -> dict[str, str]:
    """What the owner's scripts send to the server at a port."""
    token = json.loads((paddock_home() / "dashboard" / f"{port}.json").read_bytes())["token"]
    return {"Authorization": f"Bearer {token}"}


def watch(address: str, headers: dict[str, str], viewers: int, is_on: Any, is_over: Any, counted: Any) -> None:
    """The process of the viewers: they come and go as `is_on` says."""

    async def one() -> None:
        async with websockets.connect(address, additional_headers=headers, compression=None, max_size=None) as opened:
            await opened.send(json.dumps({"type": "rate", "hz": RATE}))
            while is_on.is_set() and not is_over.is_set():
                if isinstance(await opened.recv(), bytes):
                    counted.value += 1

    async def all_of_them() -> None:
        await asyncio.gather(*(one() for _ in range(viewers)))

    while not is_over.is_set():
        if is_on.wait(0.1):
            asyncio.run(all_of_them())


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    log = (folder / f"{arguments[0]}.log").open("wb")
    return subprocess.Popen([sys.executable, "-m", "paddock", *arguments], cwd=folder, stdout=log, stderr=log)


def wait_for(condition: Any, patience: float = 400.0) -> Any:
    give_up = time.monotonic() + patience
    while not (found := condition()):
        if time.monotonic() > give_up:
            raise TimeoutError
        time.sleep(0.1)
    return found


def rounds_of(meter: Meter, is_on: Any, counted: Any, rounds: int, seconds: float, viewers: int) -> None:
    """Measure with and without viewers in turns, and print medians and every round."""
    found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    shown = 0.0
    for number in range(2 * rounds):
        watched = number % 2 == 1
        is_on.set() if watched else is_on.clear()
        time.sleep(SETTLE)
        first, pictures = meter.read(), counted.value
        time.sleep(seconds)
        last = meter.read()
        wall, steps, processor = (b - a for a, b in zip(first, last, strict=True))
        found[watched].append((steps / wall, 1e6 * processor / steps))
        if watched:
            shown += (counted.value - pictures) / wall / viewers / rounds
    is_on.clear()
    for watched, rows in found.items():
        rates, costs = zip(*rows, strict=True)
        name = f"{viewers} viewers" if watched else "nobody"
        medians = f"{statistics.median(rates):10,.0f} steps/s {statistics.median(costs):7.2f} cpu s per 1e6 steps"
        print(f"{name:10} {medians}   rounds {' '.join(f'{rate:,.0f}' for rate in rates)}")
    pairs = list(zip(found[False], found[True], strict=True))
    losses = [1 - after[0] / before[0] for before, after in pairs]
    extra = [after[1] / before[1] - 1 for before, after in pairs]
    print(f"loss of throughput, median of {rounds} pairs: {statistics.median(losses):+.1%} "
          f"(all: {' '.join(f'{loss:+.1%}' for loss in losses)})")  # fmt: skip
    print(f"extra processor time of the run, median: {statistics.median(extra):+.1%}")
    print(f"snapshots that reach each viewer: {shown:.1f} a second (none come while the run learns)")


async def reactions(address: str, headers: dict[str, str], times: int) -> list[float]:
    delays = []
    async with websockets.connect(address, additional_headers=headers, compression=None, max_size=None) as opened:
        await opened.send(json.dumps({"type": "rate", "hz": RATE}))
        for number in range(times):
            wanted = 1 if number % 2 == 0 else -1
            values = {"type": "input", "steer": 0, "throttle": max(wanted, 0), "brake": max(-wanted, 0)}
            began = time.perf_counter()
            await opened.send(json.dumps(values))
            while True:
                message = await opened.recv()
                if isinstance(message, bytes):
                    if struct.unpack_from("<10f", message, HEADER.size)[5] * wanted > 0:
                        break
                    await opened.send(json.dumps(values))
            delays.append(time.perf_counter() - began)
            await asyncio.sleep(0.05)
    return delays


def pieces() -> None:
    """Processor time of what the loop does for viewers, piece by piece."""
    env = RacingVectorEnv(64, track="oval")
    env.reset(seed=1)
    broadcast: Any = Broadcast(Channel(None), Control(), env.view, None, 0.05)  # type: ignore[arg-type]
    action = np.zeros((64, 2), np.float32)
    for name, repeats, act in (
        ("a step of 64 cars", 500, lambda: env.step(action)),
        ("the hook after it, nobody watching", 200_000, broadcast.after_step),
        ("a snapshot of 64 cars", 2_000, lambda: env.view.snapshot((0, 1, 2, 3))),
    ):
        began = time.process_time()
        for _ in range(repeats):
            act()
        print(f"{name}: {1e6 * (time.process_time() - began) / repeats:.2f} us of processor time")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--viewers", type=int, default=4)
    parser.add_argument("overrides", nargs="*")
    given = parser.parse_args()
    print(f"load of the machine before: {psutil.getloadavg()[0]:.1f} on {psutil.cpu_count()} cores")
    pieces()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        # Short rollouts and a point for each: windows of seconds are not cut into a few long updates.
        options = [
            "environment.num_envs=64",
            "training.total_steps=null",
            "training.max_seconds=3600",
            WITHOUT_EVALUATION,
        ]
        options += ["workflow.rollout_steps=2048", "workflow.minibatch_size=1024", "logging.every_steps=2048"]
        training = start(folder, "train", "racing", *options, "logging.tensorboard=false", *given.overrides)
        server = start(folder, "dashboard", "--no-browser", "--port", str(port))
        try:
            run = wait_for(lambda: next((file.parent for file in folder.glob("runs/*/channel.json")), None))
            wait_for((run / "metrics.jsonl").exists)
            wait_for(lambda: b"Ctrl-C" in (folder / "dashboard.log").read_bytes())
            context = multiprocessing.get_context("spawn")
            is_on, is_over, counted = context.Event(), context.Event(), context.Value("l", 0)
            address, headers = f"ws://127.0.0.1:{port}/api/runs/{run.name}/live", owner_headers(port)
            viewers = context.Process(target=watch, args=(address, headers, given.viewers, is_on, is_over, counted))
            viewers.start()
            meter = Meter(run)
            meter.read()
            rounds_of(meter, is_on, counted, given.rounds, given.seconds, given.viewers)
            print(f"memory of the server: {psutil.Process(server.pid).memory_info().rss / 1e6:.0f} MB")
            is_over.set()
            viewers.join()
            training.terminate()
            training.wait()
            body = json.dumps({"track": "oval"}).encode()
            asked = urllib.request.Request(f"http://127.0.0.1:{port}/api/drive", data=body, headers=headers)
            drive = json.load(urllib.request.urlopen(asked, timeout=300))["id"]
            delays = asyncio.run(reactions(f"ws://127.0.0.1:{port}/api/runs/{drive}/live", headers, 60))
            delays.sort()
            middle, late, worst = (1e3 * delays[int(share * (len(delays) - 1))] for share in (0.5, 0.95, 1.0))
            print(f"pedal to snapshot: median {middle:.0f} ms, 95 % below {late:.0f} ms, worst {worst:.0f} ms")
            stop = json.dumps({"command": "stop"}).encode()
            control = urllib.request.Request(
                f"http://127.0.0.1:{port}/api/runs/{drive}/control", data=stop, headers=headers
            )
            urllib.request.urlopen(control, timeout=60).close()
        finally:
            for process in (training, server):
                process.terminate()
                process.wait()
    print(f"load of the machine after: {psutil.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
