"""`paddock` as a process of its own, forked from one in which the heavy imports are done: a command costs what it does,
and not two seconds of importing torch as well.

The tests that kill, signal or time processes start real ones; this is for the many that run a command and read what it
printed. Run as a script, this file is the process that is forked from: one JSON request a line on its standard input.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HEAVY = ("torch", "numba", "gymnasium", "hydra", "paddock.orchestration.launch", "paddock.cli.main")


class WarmProgram:
    """Runs `paddock ARGUMENTS` like `subprocess.run`, one command at a time."""

    def __init__(self) -> None:
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
            assert self._parent.stdin is not None
            assert self._parent.stdout is not None
            self._parent.stdin.write(json.dumps(request) + "\n")
            self._parent.stdin.flush()
            code = json.loads(self._parent.stdout.readline())
            printed, errors = out.read_text(), err.read_text()
        if code is None:
            raise subprocess.TimeoutExpired(["paddock", *arguments], timeout, printed, errors)
        return subprocess.CompletedProcess(["paddock", *arguments], code, printed, errors)

    def close(self) -> None:
        self._parent.communicate(timeout=30)


def serve() -> None:
    for name in HEAVY:
        __import__(name)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    requests = os.fdopen(os.dup(0), "r")
    for line in requests:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            requests.close()
            answers.close()
            _be_paddock(request)
        answers.write(json.dumps(_code_of(child, request["timeout"])) + "\n")


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
        os.setpgid(0, 0)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        for number, place, flags in (
            (0, os.devnull, os.O_RDONLY),
            (1, request["out"], os.O_WRONLY | os.O_CREAT),
            (2, request["err"], os.O_WRONLY | os.O_CREAT),
        ):
            opened = os.open(place, flags)
            os.dup2(opened, number)
            os.close(opened)
        sys.argv = ["paddock", *request["arguments"]]
        sys.path[0] = request["folder"]  # As `python -m paddock` has it.
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
