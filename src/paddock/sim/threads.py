"""The one place that sets up numba and threads: compiler options, kernel cache, how a launch is spread over cores.

Kernels are compiled without numba's own threading: they release the interpreter lock and take a range of cars, and
plain Python threads call them on parts of the batch. A launch on one thread then costs nothing extra, two Python
threads may each drive a world at once, and a forked child starts threads of its own. The `workqueue` layer is named
for any kernel elsewhere that does use numba's threads, because it survives a fork as well.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numba

from paddock.core.errors import InputError

_config: Any = numba.config
_njit: Any = numba.njit
_config.THREADING_LAYER = "workqueue"

LEAST_SHARE = 64  # cars for which a second thread is worth waking
WAKING_CARS = 48  # cars the calling thread gets through while the others wake
STALE_SECONDS = 7 * 24 * 3600.0
_FOLDER = Path(__file__).parent


class _Worker:
    """A thread that waits for one call at a time; lighter to wake than an executor's."""

    def __init__(self) -> None:
        self.tasks: SimpleQueue[tuple[SimpleQueue[BaseException | None], Callable[..., Any], tuple[Any, ...]]]
        self.tasks = SimpleQueue()
        threading.Thread(target=self._serve, name="paddock-world", daemon=True).start()

    def _serve(self) -> None:
        while True:
            done, function, arguments = self.tasks.get()
            try:
                function(*arguments)
                done.put(None)
            except BaseException as error:
                done.put(error)


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
    """Call `function(first, last, *arguments)` on parts of `count` cars that begin at multiples of `multiple`.

    The calling thread takes a larger part, because the others have to wake first.
    """
    parts = max(1, min(_threads.count, count // LEAST_SHARE))
    if parts == 1:
        function(0, count, *arguments)
        return
    blocks, head = -(-count // multiple), min(WAKING_CARS, count // 4) / multiple
    share = (blocks - head) / parts
    bounds = [0, *(min(round(head + share * part) * multiple, count) for part in range(1, parts + 1))]
    done: SimpleQueue[BaseException | None] = SimpleQueue()
    for number, (first, last) in enumerate(itertools.pairwise(bounds[1:])):
        _threads.worker(number).tasks.put((done, function, (first, last, *arguments)))
    function(0, bounds[1], *arguments)
    for error in [done.get() for _ in range(parts - 1)]:
        if error is not None:
            raise error


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
