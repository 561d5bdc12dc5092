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
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from paddock.core.errors import InputError, PaddockError
from paddock.core.files import replace_file
from paddock.core.reading import DamagedError
from paddock.environments.realtime.clock import Clock, WallClock
from paddock.racing.env.config import RacingConfig
from paddock.racing.env.opponents import CLASSICAL, PERSON
from paddock.racing.realtime.person import CAR
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
        if config.reward.custom or (config.opponents.count and config.opponents.driver not in (CLASSICAL, PERSON)):
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
    """What viewers see of a world in another process, and how a person drives in it. `find` gives the world's address.

    Before there is one, and after it has ended, the road is that of a world of this process, and its cars stand.
    persons_car: the number of the car that a person may drive; None where there is none.
    """

    goes_on = True  # whether or not the run takes steps

    def __init__(self, find: Callable[[], dict[str, Any]], config: RacingConfig) -> None:
        self._find = find
        self._still = WorldHere(config, WallClock())  # It is never driven.
        has_person = config.opponents.count > 0 and config.opponents.driver == PERSON
        self.persons_car: int | None = CAR if has_person else None
        self.person: dict[str, Any] = {}  # how the person's car stood at the last snapshot
        self._asking: Asking | None = None
        self._address: dict[str, Any] = {}
        self._lock = threading.Lock()  # Snapshots and a person's inputs come from different threads.

    def scene(self, track: int) -> dict[str, Any]:
        return self._still.scene(track)

    def snapshot(self, watched: tuple[int, ...]) -> dict[str, Any]:
        try:
            found = self._reached().snapshot(watched)
            self.person = found.pop("person", {})
            return found
        except (WorldError, DamagedError):
            self.close()
            return {**self._still.snapshot(watched), "time": 0.0}

    # --- a person ---

    def steer(self, steer: float, throttle: float, brake: float, *, is_released: bool) -> None:
        """Pass on what a person does at the wheel; nothing happens while there is no world."""
        try:
            self._reached().tell("steer", steer=steer, throttle=throttle, brake=brake, is_released=is_released)
        except (WorldError, DamagedError):
            self.close()

    def set_mode(self, mode: str, assist: float | None) -> None:
        """Give the person's car to the person, to the classical driver (`ai`), or to both."""
        self._reached_or_refused().ask("mode", mode=mode, assist=assist)

    def place(self) -> None:
        """Put the person's car on the line."""
        self._reached_or_refused().ask("place")

    def _reached_or_refused(self) -> Asking:
        try:
            return self._reached()
        except DamagedError as error:
            raise WorldError("the racing world has not begun yet.") from error

    def _reached(self) -> Asking:
        address = self._find()
        with self._lock:
            if self._asking is None or address != self._address:
                self._close()
                role = "viewer" if self.persons_car is None else "person"
                self._asking = Asking(connect(address, role=role, timeout=LOOK_SECONDS))
                self._address = address
            return self._asking

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._asking is not None:
            self._asking.close()
        self._asking = None


def _plain(options: dict[str, Any] | None) -> dict[str, Any] | None:
    """Options of a reset as numbers and lists."""
    return None if options is None else {name: np.asarray(value).tolist() for name, value in options.items()}
