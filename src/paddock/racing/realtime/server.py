"""The process of a racing world in real time: `python -m paddock.racing.realtime.server`, started by `client.py`.

It listens on the loopback, for clients with the token that its starter gave it, and drives on between messages. The
starter's connection is the agent's; it ends with that one. Further connections only look, or drive the person's car.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import selectors
import signal
import socket
import sys
import time
from typing import Any

import numpy as np

from paddock.core.errors import PaddockError
from paddock.environments.realtime.clock import SECOND
from paddock.racing.env.config import racing_config
from paddock.racing.realtime.timed_world import TimedWorld
from paddock.racing.realtime.wire import Wire

GREETING_SECONDS = 5.0
MOST_CONNECTIONS = 8


class WorldServer:
    """Answers messages, each a mapping with `do`; those that need no answer get none."""

    def __init__(self, world: TimedWorld, listener: socket.socket, token: str) -> None:
        self._world, self._listener, self._token = world, listener, token
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._agent: Wire | None = None
        self._people: set[Wire] = set()  # who may drive the person's car

    def serve(self) -> None:
        """Until the agent's connection ends."""
        while True:
            due = self._world.due()
            wait = None if due is None else max((due - time.perf_counter_ns()) / SECOND, 0.0)
            for key, _ in self._selector.select(wait):
                if key.fileobj is self._listener:
                    self._admit()
                elif not self._hear(key.data):
                    return
            self._world.advance(time.perf_counter_ns())

    def _admit(self) -> None:
        connection, _ = self._listener.accept()
        connection.settimeout(GREETING_SECONDS)
        wire = Wire(connection)
        try:
            greeting = wire.receive()
        except (OSError, PaddockError):
            wire.close()
            return
        is_known = hmac.compare_digest(str(greeting.get("token", "")), self._token)
        if not is_known or len(self._selector.get_map()) > MOST_CONNECTIONS:
            wire.close()
            return
        if self._agent is None and greeting.get("role") == "agent":
            self._agent = wire
        if self._world.person is not None and greeting.get("role") == "person":
            self._people.add(wire)
        self._selector.register(connection, selectors.EVENT_READ, wire)

    def _hear(self, wire: Wire) -> bool:
        """One message; False once the agent has gone."""
        try:
            message = wire.receive()
            answer = self._answer(message, wire)
            if answer is not None:
                wire.send(answer)
        except (OSError, PaddockError):
            self._selector.unregister(wire.connection)
            self._people.discard(wire)
            wire.close()
            return wire is not self._agent
        return True

    def _answer(self, message: dict[str, Any], wire: Wire) -> dict[str, Any] | None:
        what, now, world = message.get("do"), time.perf_counter_ns(), self._world
        try:
            if what == "snapshot":
                return {"value": self._snapshot(tuple(message.get("cars", ())))}
            if what == "scene":
                return {"value": world.env.view.scene(int(message.get("track", 0)))}
            if wire in self._people:
                return self._drive(message)
            if wire is not self._agent:
                return {"error": "this connection may only look."}
            if what == "send":
                world.send(now, np.asarray(message["action"], np.float32))
                return None
            if what == "capture":
                return {"value": world.capture(now)}
            if what == "reset":
                # The episode begins when its first observation is ready, not when it is asked for.
                world.env.reset(seed=message.get("seed"), options=message.get("options"))
                return {"value": world.begin(time.perf_counter_ns())}
            if what == "weights":
                return {"value": world.env.reward_weights}
            if what == "weigh":
                world.env.set_reward_weight(str(message["name"]), float(message["weight"]))
                return {"value": None}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return {"error": f"unknown message {what!r}."}

    def _snapshot(self, cars: tuple[int, ...]) -> dict[str, Any]:
        """The cars, the world's time, s, and how the person's car stands."""
        world = self._world
        person = {} if world.person is None else {"person": world.person.status()}
        return {**world.env.view.snapshot(cars), "time": world.driven * world.env.world.settings.time_step, **person}

    def _drive(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """What a person does with the car."""
        what, person = message.get("do"), self._world.person
        assert person is not None
        if what == "steer":
            values = (float(message.get(name, 0.0)) for name in ("steer", "throttle", "brake"))
            person.steer(*values, is_released=bool(message.get("is_released")))
            return None
        if what == "mode":
            person.set_mode(str(message["mode"]), message.get("assist"))
            return {"value": None}
        if what == "place":
            person.place()
            return {"value": None}
        return {"error": f"unknown message {what!r} of a person."}


def main() -> None:
    """Reads one line of JSON: the options of the world, and the token. Prints the port."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the agent's process, whose end ends this one.
    given = json.loads(sys.stdin.readline())
    world = TimedWorld(racing_config(**given["world"]))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            WorldServer(world, listener, given["token"]).serve()


if __name__ == "__main__":
    main()
