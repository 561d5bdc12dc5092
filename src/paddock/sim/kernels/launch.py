"""How a launch of a kernel is spread over threads: each takes the next few cars until none are left.

Kernels are compiled without numba's own threading: they release the interpreter lock, and plain Python threads call
them. A launch on one thread then costs nothing extra, two Python threads may each drive a world at once, and a forked
child starts threads of its own. A thread that wakes late costs nothing but its help. `progress` is int64 [2]: the next
car to be taken, and how many are done; it is read and written atomically, by any number of threads.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import numba
import numpy as np
from numba import extending
from numba.core import cgutils, types

from paddock.core.errors import InputError
from paddock.core.system import available_cores
from paddock.sim.kernels.compile import kernel

LEAST_SHARE = 64  # cars for which a second thread is worth waking
CHUNKS = 16  # that a thread takes, one after the other, in a large launch
LARGEST_CHUNK = 8  # blocks
LOOKS = 10_000  # at what is still being done, before other threads of the machine get a turn; some tens of microseconds


TAKEN, DONE = 0, 1
_intrinsic: Any = extending.intrinsic


@_intrinsic
def add_atomically(typing_context: Any, progress: Any, index: Any, amount: Any) -> Any:
    """Add to one entry of `progress`; its value before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = cgutils.get_item_pointer(context, builder, signature.args[0], array, [arguments[1]])
        return builder.atomic_rmw("add", place, arguments[2], "seq_cst")

    return types.int64(progress, types.intp, types.int64), generate


@kernel()
def all_done(progress: Any, count: int, tries: int) -> bool:
    """Whether all `count` cars are done, looked at up to `tries` times."""
    for _ in range(tries):  # noqa: SIM110 - numba knows no generators here
        if add_atomically(progress, DONE, 0) >= count:
            return True
    return False


class _Worker:
    """A thread that waits for one call at a time; lighter to wake than an executor's."""

    def __init__(self) -> None:
        self.tasks: SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...]]] = SimpleQueue()
        threading.Thread(target=self._serve, name="paddock-world", daemon=True).start()

    def _serve(self) -> None:
        while True:
            function, arguments = self.tasks.get()
            # What a kernel refuses it refuses before it takes a car, and the calling thread is told the same.
            with contextlib.suppress(Exception):
                function(*arguments)


class _Threads:
    """The workers of this process; forgotten by a forked child, in which they would not run."""

    def __init__(self) -> None:
        self.count = available_cores()
        self.available = self.count
        self.workers: list[_Worker] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.workers.clear)

    def worker(self, number: int) -> _Worker:
        while len(self.workers) <= number:
            self.workers.append(_Worker())
        return self.workers[number]


_threads = _Threads()


def set_threads(count: int) -> None:
    """Spread every launch from now on over up to `count` threads. Results do not depend on it."""
    if not 1 <= count <= _threads.available:
        raise InputError(f"{count} threads asked for; this process can use 1 to {_threads.available}.")
    _threads.count = count


def get_threads() -> int:
    """Over how many threads a launch is spread at most."""
    return _threads.count


def compiled(function: Any, *arguments: Any) -> Callable[..., None]:
    """The machine code of `function(progress, chunk, count, *arguments)` for arguments of these types.

    A call of it does not look at the types of its arguments again, which for records of arrays would take about as
    long as a step of one car. It must only be given arguments of the same types.
    """
    signature = tuple(numba.typeof(argument) for argument in (np.zeros(2, np.int64), 1, 1, *arguments))
    function.compile(signature)
    entry: Callable[..., None] = function.overloads[signature].entry_point
    return entry


def launch(function: Callable[..., Any], count: int, multiple: int, *arguments: Any) -> None:
    """Call `function(progress, chunk, count, *arguments)` on every thread; together they do all `count` cars.

    `chunk`, a multiple of `multiple`, is how many cars a thread takes at a time. The calling
    thread takes part and waits for the last chunks awake: they are short, and going to sleep is not.
    """
    threads = max(1, min(_threads.count, count // LEAST_SHARE))
    chunk = multiple * min(max(count // (multiple * threads * CHUNKS), 1), LARGEST_CHUNK)
    progress = np.zeros(2, np.int64)
    for number in range(threads - 1):
        _threads.worker(number).tasks.put((function, (progress, chunk, count, *arguments)))
    function(progress, chunk, count, *arguments)
    while threads > 1 and not all_done(progress, count, LOOKS):
        time.sleep(0.0)
