"""The one place that sets up numba and threads: compiler options, kernel cache, how a launch is spread over cores.

Kernels are compiled without numba's own threading: they release the interpreter lock, and plain Python threads call
them, each of which takes the next few cars until all are done. A launch on one thread then costs nothing extra, two
Python threads may each drive a world at once, and a forked child starts threads of its own. The `workqueue` layer is
named for any kernel elsewhere that does use numba's threads, because it survives a fork as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numba
import numpy as np

from paddock.core.errors import InputError

_config: Any = numba.config
_njit: Any = numba.njit
_config.THREADING_LAYER = "workqueue"

LEAST_SHARE = 64  # cars for which a second thread is worth waking
CHUNKS = 16  # that a thread takes, one after the other, in a large launch
LARGEST_CHUNK = 8  # blocks
LOOKS = 10_000  # at what is still being done, before other threads of the machine get a turn; some tens of microseconds
STALE_SECONDS = 7 * 24 * 3600.0
_FOLDER = Path(__file__).parent


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
        self.count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
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


def launch(function: Callable[..., Any], count: int, multiple: int, *arguments: Any) -> None:
    """Call `function(progress, chunk, count, *arguments)` on every thread; together they do all `count` cars.

    `chunk`, a multiple of `multiple`, is how many cars a thread takes at a time; see `kernels_shares`. The calling
    thread takes part and waits for the last chunks awake: they are short, and going to sleep is not.
    """
    from paddock.sim.kernels_shares import all_done

    threads = max(1, min(_threads.count, count // LEAST_SHARE))
    chunk = multiple * min(max(count // (multiple * threads * CHUNKS), 1), LARGEST_CHUNK)
    progress = np.zeros(2, np.int64)
    for number in range(threads - 1):
        _threads.worker(number).tasks.put((function, (progress, chunk, count, *arguments)))
    function(progress, chunk, count, *arguments)
    while threads > 1 and not all_done(progress, count, LOOKS):
        time.sleep(0.0)


def _sources_digest() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for path in [_FOLDER / "car.py", _FOLDER / "layout.py", *sorted(_FOLDER.glob("kernels*.py"))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _cache_folder() -> Path | None:
    """Compiled kernels, per state of all kernel sources; None where nothing can be written.

    numba's own cache looks only at the file of the outermost function, so a changed helper in another file
    would go unnoticed and stale machine code would run.
    """
    parent = Path(_config.CACHE_DIR) if _config.CACHE_DIR else _FOLDER / "__pycache__"
    folder = parent / f"kernels-{_sources_digest()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    for other in parent.glob("kernels-*"):  # young ones may belong to a run that is still going
        if other != folder and time.time() - other.stat().st_mtime > STALE_SECONDS:
            shutil.rmtree(other, ignore_errors=True)
    return folder


_CACHE = _cache_folder()


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorator: `numba.njit` with the options all kernels share, cached on disk.

    IEEE arithmetic, never fast maths, so that results do not depend on how the compiler groups cars.
    """

    def compile_lazily(function: Callable[..., Any]) -> Any:
        before = _config.CACHE_DIR
        if _CACHE is not None:
            _config.CACHE_DIR = str(_CACHE)
        try:
            return _njit(error_model="numpy", cache=True, nogil=True, **options)(function)
        finally:
            _config.CACHE_DIR = before

    return compile_lazily


# Functions inside a kernel do not count references to the arrays they are handed: they outlive the call, and the
# atomic counting of twenty arrays at every call would cost more than the physics.
_INNER: dict[str, Any] = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}


def part(function: Callable[..., Any]) -> Any:
    """Decorator for a function that only other kernels call: compiled into them; it cannot allocate arrays."""
    return _njit(**_INNER)(function)


def inline(function: Callable[..., Any]) -> Any:
    """Decorator for the small functions a kernel is made of: always inlined, so that loops over them vectorise."""
    return _njit(forceinline=True, **_INNER)(function)
