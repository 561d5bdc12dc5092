"""Starting a twin as a process of its own, and talking to one that runs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from dataclasses import fields
from typing import Any

from paddock.core.errors import PaddockError
from paddock.core.parent import WITH_PARENT
from paddock.core.reading import parse_json
from paddock.environments.trackmania.twin.game import TwinSettings

START_SECONDS = 240.0  # the simulator may have to be compiled first
ANSWER_SECONDS = 5.0
LONGEST_ANSWER = 64 * 1024  # bytes


class TwinError(PaddockError):
    """A twin that does not start or does not answer."""


class TwinProcess:
    """A twin that ends with this object, or with this process."""

    def __init__(self, settings: TwinSettings, *more: str) -> None:
        options = [*_options(settings), *more]
        # -P: a file of the working directory must not take the place of a module.
        command = [sys.executable, "-P", "-m", "paddock", "twin", "--port", "0", "--json", *options]
        environment = {**os.environ, WITH_PARENT: str(os.getpid())}
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )
        try:
            self.addresses = self._first_line()
        except BaseException:
            self.close()
            raise

    def ask(self, command: str, **values: Any) -> dict[str, Any]:
        """What the twin answers to a command."""
        return ask_twin(int(self.addresses["control"]), command, **values)

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _first_line(self) -> dict[str, Any]:
        """The addresses, which a twin prints once it can be reached."""
        assert self._process.stderr is not None
        lines: list[bytes] = []
        # A thread, because Windows cannot wait for a pipe with a time limit.
        reading = threading.Thread(target=lambda: lines.append(self._read_line()), daemon=True)
        reading.start()
        reading.join(START_SECONDS)
        if not lines:
            raise TwinError(f"the twin has not started within {START_SECONDS:g} s.")
        if not lines[0]:
            said = self._process.stderr.read(4_096).decode("utf-8", "replace").strip()
            raise TwinError(f"the twin has not started: {said.removeprefix('error: ')}")
        return parse_json(lines[0])

    def _read_line(self) -> bytes:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def ask_twin(control_port: int, command: str, **values: Any) -> dict[str, Any]:
    """What a running twin answers to a command; TwinError if there is none, or if it refuses."""
    try:
        with socket.create_connection(("127.0.0.1", control_port), timeout=ANSWER_SECONDS) as connection:
            connection.sendall(json.dumps({"command": command, **values}).encode() + b"\n")
            line = connection.makefile("rb").readline(LONGEST_ANSWER)
    except OSError as error:
        raise TwinError(f"no twin answers on port {control_port} of this machine; start one: paddock twin.") from error
    try:
        answer = parse_json(line)
    except ValueError as error:
        raise TwinError(f"what answers on port {control_port} is no twin.") from error
    if not isinstance(answer, dict) or not answer.get("ok"):
        raise TwinError(f"the twin refuses '{command}': {answer.get('error') if isinstance(answer, dict) else answer}")
    return answer


def _options(settings: TwinSettings) -> list[str]:
    """The command line of these settings."""
    options = []
    for one in fields(TwinSettings):
        if one.name == "faults":
            for fault in settings.faults:
                length = "" if fault.ends == float("inf") else f"+{fault.ends - fault.begins:g}"
                options += ["--fault", f"{fault.kind}@{fault.begins:g}{length}"]
        else:
            options += [f"--{one.name.replace('_', '-')}", str(getattr(settings, one.name))]
    return options
