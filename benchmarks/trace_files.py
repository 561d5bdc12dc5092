"""How many files one has to open to follow the work: a trace of one vector step, of one update, and of the way to it.

    python benchmarks/trace_files.py [--list] [--case NAME ...]

Trains through the command line with a profiler that notes which Python files of Paddock run (kernels are compiled and
not seen): in one vector step of PPO on racing that ends no episode, in one update of Dreamer, and on the stack between
the command line and `backward()`. --list also names the files.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import paddock
from paddock.cli.main import main as paddock_main

SOURCE = f"{Path(paddock.__file__).parent}{os.sep}"
QUIET = ["--name", "traced", "logging.terminal=false", "logging.tensorboard=false", "training.total_steps=4096"]
RACING = ["train", "racing", "environment.num_envs=16", *QUIET]
AUTOGRAD = ["workflow.fused=off"]  # The kernel has no backward().
CARTPOLE = ["train", "ppo_cartpole", *QUIET, *AUTOGRAD]  # A minibatch is one shard there.
DREAMER = ["train", "dreamer_cartpole", *QUIET]
WINDOWS = 8  # vector steps or updates that are looked at; the one with the fewest files counts: it ends no episode
Files = list[str]


class EnoughSeen(BaseException):
    """Ends the run once everything is known; no handler of errors may take it for one."""


def own_file(frame: FrameType) -> str | None:
    """The file of a frame, seen from the package; None outside of it."""
    name = frame.f_code.co_filename
    return name.removeprefix(SOURCE) if name.startswith(SOURCE) else None


class WindowTrace:
    """Notes the files that run within each call of one function."""

    def __init__(self, is_entry: Callable[[str, str], bool], windows: int = WINDOWS) -> None:
        self._is_entry, self._windows = is_entry, windows
        self._entry: FrameType | None = None
        self._files: dict[str, None] = {}
        self.found: list[Files] = []

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        file = own_file(frame)
        if file is None or event not in ("call", "return"):
            return
        if self._entry is None and event == "call" and self._is_entry(file, frame.f_code.co_name):
            self._entry, self._files = frame, {}
        if self._entry is not None:
            self._files[file] = None
        if frame is self._entry and event == "return":
            self._entry = None
            self.found.append(list(self._files))
            if len(self.found) == self._windows:
                raise EnoughSeen


class BackwardTrace:
    """Notes the files on the stack when gradients are first asked for."""

    def __init__(self) -> None:
        self.found: list[Files] = []

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        is_of_torch = f"{os.sep}torch{os.sep}" in code.co_filename
        if event != "call" or not is_of_torch or code.co_name not in ("backward", "grad"):
            return
        files: dict[str, None] = {}
        above: FrameType | None = frame
        while above is not None:
            if (file := own_file(above)) is not None:
                files[file] = None
            above = above.f_back
        self.found.append(list(files)[::-1])
        raise EnoughSeen


def traced(command: list[str], trace: WindowTrace | BackwardTrace) -> Files:
    """The fewest files that the trace found in a run of the command."""
    with tempfile.TemporaryDirectory() as folder:
        before, sys.argv = os.getcwd(), ["paddock", *command]
        os.chdir(folder)
        sys.setprofile(trace)
        try:
            paddock_main()
        except (EnoughSeen, SystemExit):
            pass
        finally:
            sys.setprofile(None)
            os.chdir(before)
    if not trace.found:
        raise SystemExit(f"nothing was traced in: paddock {' '.join(command)}")
    return min(trace.found, key=len)


def is_vector_step(file: str, function: str) -> bool:
    return file == "rollout/collector.py" and function == "_step"


def is_dreamer_update(file: str, function: str) -> bool:
    return file == "workflows/dreamer.py" and function.startswith("update")


CASES: dict[str, Callable[[], Files]] = {
    "one vector step of PPO on racing": lambda: traced(RACING, WindowTrace(is_vector_step)),
    "one update of Dreamer": lambda: traced(DREAMER, WindowTrace(is_dreamer_update, 2)),
    "command line to backward(), PPO": lambda: traced(CARTPOLE, BackwardTrace()),
    "command line to backward(), PPO on racing": lambda: traced([*RACING, *AUTOGRAD], BackwardTrace()),
    "command line to backward(), Dreamer": lambda: traced(DREAMER, BackwardTrace()),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="name the files")
    parser.add_argument("--case", action="append", metavar="TEXT", help="only cases whose names contain this")
    options = parser.parse_args()
    for name, count in CASES.items():
        if options.case and not any(text in name for text in options.case):
            continue
        files = count()
        print(f"{name:<44} {len(files):>3} files", flush=True)
        if options.list:
            print("".join(f"    {file}\n" for file in files), end="")


if __name__ == "__main__":
    main()
