"""The agent's side of a racing world: in a process of its own, or in this one for virtual time."""

from __future__ import annotations

import json
import os
import secrets
import select
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from paddock.core.errors import InputError, PaddockError
from paddock.core.files import replace_file
from paddock.core.reading import DamagedError, read_json
from paddock.environments.realtime.clock import Clock, WallClock
from paddock.racing.env.config import RacingConfig
from paddock.racing.realtime.timed_world import TimedWorld
from paddock.racing.realtime.wire import Wire, WireError

START_SECONDS = 180.0  # the simulator may have to be compiled first
ANSWER_SECONDS = 10.0
ADDRESS = "world.json"  # how a world's process is reached, in a folder of its starter's
LOOK_SECONDS = 0.5
END_SECONDS = 10.0
Captured = tuple[dict[str, Any], float, bool, dict[str, Any]]


class WorldError(PaddockError):
    """The process of a racing world has ended, or answers no more."""


class RacingWorld(Protocol):
    """A racing world that goes on by itself."""

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]: ...

    def send(self, action: NDArray[Any]) -> None: ...

    def capture(self) -> Captured: ...

    def scene(self, track: int) -> dict[str, Any]: ...

    def snapshot(self, watched: tuple[int, ...]) -> dict[str, Any]: ...

    def reward_weights(self) -> dict[str, float]: ...

    def set_reward_weight(self, name: str, weight: float) -> None: ...

    def close(self) -> None: ...


class WorldHere:
    """A world of this process, which lives by any clock."""

    def __init__(self, config: RacingConfig, clock: Clock) -> None:
        self.timed, self.clock = TimedWorld(config), clock

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
        self.timed.env.reset(seed=seed, options=options)
        return self.timed.begin(self.clock.now())

    def send(self, action: NDArray[Any]) -> None:
        self.timed.send(self.clock.now(), action)

    def capture(self) -> Captured:
        return self.timed.capture(self.clock.now())

    def scene(self, track: int) -> dict[str, Any]:
        return self.timed.env.view.scene(track)

    def snapshot(self, watched: tuple[int, ...]) -> dict[str, Any]:
        return self.timed.env.view.snapshot(watched)

    def reward_weights(self) -> dict[str, float]:
        return self.timed.env.reward_weights

    def set_reward_weight(self, name: str, weight: float) -> None:
        self.timed.env.set_reward_weight(name, weight)

    def close(self) -> None:
        self.timed.env.close()


class Asking:
    """One question at a time over a connection, from any thread."""

    def __init__(self, wire: Wire) -> None:
        self._wire, self._lock = wire, threading.Lock()

    def tell(self, what: str, **values: Any) -> None:
        with self._lock:
            self._attempt(lambda: self._wire.send({"do": what, **values}))

    def ask(self, what: str, **values: Any) -> Any:
        with self._lock:
            self._attempt(lambda: self._wire.send({"do": what, **values}))
            answer = self._attempt(self._wire.receive)
        if "error" in answer:
            raise WorldError(f"the racing world's process could not {what}: {answer['error']}")
        return answer.get("value")

    def _attempt(self, action: Any) -> Any:
        try:
            return action()
        except (OSError, WireError) as error:
            raise WorldError(f"the racing world's process does not answer: {error}") from error

    def close(self) -> None:
        self._wire.close()

    def scene(self, track: int) -> dict[str, Any]:
        return self.ask("scene", track=track)

    def snapshot(self, watched: tuple[int, ...]) -> dict[str, Any]:
        return self.ask("snapshot", cars=list(watched))


class WorldProcess(Asking):
    """A world in a process of its own, by that process' own clock; started here, and ended by `close`."""

    def __init__(self, config: RacingConfig) -> None:
        token = secrets.token_hex(16)
        if config.reward.custom or (config.opponents.count and config.opponents.driver != "classical"):
            raise InputError(
                "a reward function or an opponents' driver of your own runs in this process only; set "
                "environment.process=false."
            )
        values = config.model_dump(mode="json", include=set(RacingConfig.model_fields) - {"target_"})
        given = json.dumps({"world": values, "token": token})
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "paddock.racing.realtime.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert self._process.stdin is not None
        try:
            with self._process.stdin as pipe:
                pipe.write(given + "\n")
            self.address = {"port": self._port(), "token": token}
            super().__init__(connect(self.address, role="agent"))
        except BaseException:
            self._end()
            raise

    def _port(self) -> int:
        output = self._process.stdout
        assert output is not None
        ready, _, _ = select.select([output], [], [], START_SECONDS)
        line = output.readline() if ready else ""
        if not line.strip().isdigit():
            raise WorldError("the racing world's process did not start; what it says stands above.")
        return int(line)

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
        observation, info = self.ask("reset", seed=seed, options=_plain(options))
        return observation, info

    def send(self, action: NDArray[Any]) -> None:
        self.tell("send", action=np.asarray(action, np.float32))

    def capture(self) -> Captured:
        observation, reward, terminated, info = self.ask("capture")
        return observation, float(reward), bool(terminated), info

    def reward_weights(self) -> dict[str, float]:
        return self.ask("weights")

    def set_reward_weight(self, name: str, weight: float) -> None:
        self.ask("weigh", name=name, weight=weight)

    def announce(self, folder: Path) -> None:
        """Tell viewers of this machine's user how the world is reached."""
        replace_file(folder / ADDRESS, json.dumps(self.address).encode())

    def close(self) -> None:
        self._wire.close()
        self._end()

    def _end(self) -> None:
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def connect(address: dict[str, Any], *, role: str, timeout: float = ANSWER_SECONDS) -> Wire:
    """A connection to a world's process."""
    try:
        connection = socket.create_connection(("127.0.0.1", int(address["port"])), timeout=timeout)
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise WorldError(f"the racing world's process cannot be reached: {error}") from error
    wire = Wire(connection)
    try:
        wire.send({"token": address["token"], "role": role})
    except OSError as error:
        wire.close()
        raise WorldError(f"the racing world's process cannot be reached: {error}") from error
    return wire


class RemoteView:
    """What viewers see of a world that another process drives in, which announced it in `folder`.

    Before there is one, and after it has ended, the road is that of a world of this process, and its car stands.
    """

    def __init__(self, folder: Path, config: RacingConfig) -> None:
        self._file = folder / ADDRESS
        self._still = WorldHere(config, WallClock())  # It is never driven.
        self._asking: Asking | None = None
        self._address: dict[str, Any] = {}

    def scene(self, track: int) -> dict[str, Any]:
        return self._still.scene(track)

    def snapshot(self, watched: tuple[int, ...]) -> dict[str, Any]:
        try:
            return self._reached().snapshot(watched)
        except (WorldError, DamagedError):
            self.close()
            return self._still.snapshot(watched)

    def _reached(self) -> Asking:
        address = read_json(self._file)
        if self._asking is None or address != self._address:
            self.close()
            self._asking = Asking(connect(address, role="viewer", timeout=LOOK_SECONDS))
            self._address = address
        return self._asking

    def close(self) -> None:
        if self._asking is not None:
            self._asking.close()
        self._asking = None


def _plain(options: dict[str, Any] | None) -> dict[str, Any] | None:
    """Options of a reset as numbers and lists."""
    return None if options is None else {name: np.asarray(value).tolist() for name, value in options.items()}
