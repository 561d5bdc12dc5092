"""`paddock` as a process of its own, forked from one in which the heavy imports are done: a command costs what it does,
and not two seconds of importing torch as well.

A forked process is a real one: it has a folder, variables and a session of its own, it can be signalled and killed.
The tests of start-up itself start Python anew. Run as a script, this file is the process that is forked from: one JSON
request a line on its standard input.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

HEAVY = ("torch", "numba", "gymnasium", "hydra", "paddock.orchestration.launch", "paddock.cli.main")


class WarmProcess:
    """A command that runs by itself, as `subprocess.Popen` gives it."""

    def __init__(self, pid: int, code: Path) -> None:
        self.pid, self._code = pid, code
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None and self._code.exists():
            self.returncode = int(self._code.read_text())
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        give_up = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if give_up is not None and time.monotonic() > give_up:
                raise subprocess.TimeoutExpired(["paddock"], timeout or 0)
            time.sleep(0.005)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@cache
def warm_program() -> WarmProgram:
    """The one of this process; it ends with it."""
    return WarmProgram()


class WarmProgram:
    """Runs `paddock ARGUMENTS` like `subprocess.run`, one command at a time, or starts it like `subprocess.Popen`."""

    def __init__(self) -> None:
        self._codes = tempfile.TemporaryDirectory()
        self._started = 0
        self._parent = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def run(
        self, arguments: tuple[str, ...], folder: Path, environment: dict[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as written:
            out, err = Path(written) / "out", Path(written) / "err"
            request = {
                "arguments": arguments, "folder": str(folder), "environment": environment, "timeout": timeout,
                "out": str(out), "err": str(err),
            }  # fmt: skip
            code = self._ask(request)
            printed, errors = out.read_text(), err.read_text()
        if code is None:
            raise subprocess.TimeoutExpired(["paddock", *arguments], timeout, printed, errors)
        return subprocess.CompletedProcess(["paddock", *arguments], code, printed, errors)

    def start(
        self, arguments: Sequence[str], folder: Path, output: Path, environment: Mapping[str, str] | None = None
    ) -> WarmProcess:
        """Leader of a session of its own; what it prints is appended to `output`."""
        self._started += 1
        code = Path(self._codes.name) / str(self._started)
        request = {
            "arguments": list(arguments), "folder": str(folder), "environment": dict(environment or os.environ),
            "out": str(output), "err": str(output), "code": str(code),
        }  # fmt: skip
        return WarmProcess(self._ask(request), code)

    def close(self) -> None:
        self._parent.communicate(timeout=30)
        self._codes.cleanup()

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(json.dumps(request) + "\n")
        self._parent.stdin.flush()
        return json.loads(self._parent.stdout.readline())


def serve() -> None:
    for name in HEAVY:
        __import__(name)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    requests = os.fdopen(os.dup(0), "r")
    for line in requests:
        request = json.loads(line)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            requests.close()
            answers.close()
            os.close(read)
            if "code" in request:
                _keep(request, write)
            os.close(write)
            _be_paddock(request)
        os.close(write)
        found = int(os.read(read, 100)) if "code" in request else _code_of(child, request["timeout"])
        os.close(read)
        answers.write(json.dumps(found) + "\n")
        _reap()


def _reap() -> None:
    """Forget keepers whose commands have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _keep(request: dict[str, Any], write: int) -> None:
    """Fork the command, tell its process id, and write down how it ended."""
    child = os.fork()
    if child == 0:
        os.close(write)
        _be_paddock(request)
    os.write(write, str(child).encode())
    os.close(write)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nothing, number)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, status = os.waitpid(child, 0)
    code = Path(request["code"])
    if code.parent.exists():
        code.with_suffix(".new").write_text(str(os.waitstatus_to_exitcode(status)))
        code.with_suffix(".new").rename(code)
    os._exit(0)


def _code_of(child: int, timeout: float) -> int | None:
    """The exit code as `subprocess` gives it; None where the command took too long and was killed."""

    def kill(number: int, frame: Any) -> None:
        os.killpg(child, signal.SIGKILL)
        nonlocal is_late
        is_late = True

    is_late = False
    signal.signal(signal.SIGALRM, kill)
    signal.alarm(int(timeout))
    _, status = os.waitpid(child, 0)
    signal.alarm(0)
    return None if is_late else os.waitstatus_to_exitcode(status)


def _be_paddock(request: dict[str, Any]) -> None:
    code = 1
    try:
        os.setsid()
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        for number, place, flags in (
            (0, os.devnull, os.O_RDONLY),
            (1, request["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND),
            (2, request["err"], os.O_WRONLY | os.O_CREAT | os.O_APPEND),
        ):
            opened = os.open(place, flags)
            os.dup2(opened, number)
            os.close(opened)
        sys.argv = ["paddock", *request["arguments"]]
        # As `python -m paddock` has it.
        more = request["environment"].get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:1] = [request["folder"], *(place for place in more if place and place not in sys.path[1:])]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from paddock.cli.main import main

        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
