"""The one place that sets up numba: threading layer, number of threads, compiler options, kernel cache.

The `workqueue` layer is used because a forked child may run kernels after its parent did. It does not allow
launches from two Python threads at once, so kernels are launched under `LAUNCH_LOCK`.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

from paddock.core.errors import InputError

numba.config.THREADING_LAYER = "workqueue"

STALE_SECONDS = 7 * 24 * 3600.0
LAUNCH_LOCK = threading.RLock()
_FOLDER = Path(__file__).parent


def _sources_digest() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for path in [_FOLDER / "car.py", _FOLDER / "threads.py", *sorted(_FOLDER.glob("kernels*.py"))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _cache_folder() -> Path | None:
    """Compiled kernels, per state of all kernel sources; None where the source tree cannot be written.

    numba's own cache looks only at the file of the outermost function, so a changed helper in another file
    would go unnoticed and stale machine code would run.
    """
    parent = _FOLDER / "__pycache__"
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
    """Decorator: `numba.njit` with the options all kernels share. IEEE arithmetic, so results never depend on
    how the compiler groups cars."""

    def compile_lazily(function: Callable[..., Any]) -> Any:
        cached = options.pop("cache", True)
        before = numba.config.CACHE_DIR
        if _CACHE is not None:
            numba.config.CACHE_DIR = str(_CACHE)
        try:
            return numba.njit(error_model="numpy", cache=cached, **options)(function)
        finally:
            numba.config.CACHE_DIR = before

    return compile_lazily


def inline(function: Callable[..., Any]) -> Any:
    """Decorator for the small functions a kernel is made of: always inlined, so that loops over them vectorise."""
    return kernel(forceinline=True, cache=False)(function)


def set_threads(count: int) -> None:
    """Use `count` threads for every kernel from now on. Results do not depend on it."""
    available = numba.config.NUMBA_NUM_THREADS
    if not 1 <= count <= available:
        raise InputError(f"{count} threads asked for; this process can use 1 to {available}.")
    numba.set_num_threads(count)


def get_threads() -> int:
    """How many threads kernels use."""
    return int(numba.get_num_threads())
