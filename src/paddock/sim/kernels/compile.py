"""How kernels are compiled: numba's options, and a cache on disk that notices a change in any kernel's source."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

_config: Any = numba.config
_njit: Any = numba.njit
_config.THREADING_LAYER = "workqueue"  # for any kernel elsewhere that uses numba's own threads: it survives a fork

STALE_SECONDS = 7 * 24 * 3600.0
_FOLDER = Path(__file__).parent
_SIM = _FOLDER.parent


def _sources_digest() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for path in [_SIM / "cars/car.py", _SIM / "layout.py", *sorted(_FOLDER.glob("*.py"))]:
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
