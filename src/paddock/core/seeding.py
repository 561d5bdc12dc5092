"""Seeds derived by name from one number, so that adding a consumer never shifts another's stream."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


def derive_seed(seed: int, *names: str | int) -> int:
    """A 31-bit seed for a named purpose: the same on every machine, different for every name."""
    words = [zlib.crc32(str(name).encode()) for name in names]
    return int(np.random.SeedSequence([seed, *words]).generate_state(1)[0] & 0x7FFFFFFF)


def generator(seed: int, *names: str | int) -> np.random.Generator:
    return np.random.default_rng(derive_seed(seed, *names))


def seed_everything(seed: int) -> None:
    """Seed the global generators of Python, NumPy and torch."""
    import torch

    random.seed(derive_seed(seed, "python"))
    np.random.seed(derive_seed(seed, "numpy"))  # noqa: NPY002 - third-party code draws from the global generator
    torch.manual_seed(derive_seed(seed, "torch"))


def get_random_state() -> dict[str, Any]:
    """The state of every global generator, as plain values and arrays."""
    import torch

    version, words, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()  # noqa: NPY002
    state: dict[str, Any] = {
        "python": {"version": version, "words": np.asarray(words, np.uint64), "gauss": gauss},
        "numpy": {"name": name, "keys": keys, "position": position, "has_gauss": has_gauss, "cached": cached},
        "torch": torch.get_rng_state(),
    }
    return state | {name: get() for name, (get, _) in _accelerators().items()}


def set_random_state(state: dict[str, Any]) -> None:
    """Put every global generator back to where `get_random_state` saw it."""
    import torch

    python, legacy = state["python"], state["numpy"]
    random.setstate((python["version"], tuple(int(word) for word in python["words"]), python["gauss"]))
    np.random.set_state(  # noqa: NPY002
        (legacy["name"], legacy["keys"], legacy["position"], legacy["has_gauss"], legacy["cached"])
    )
    torch.set_rng_state(state["torch"])
    for name, (_, put_back) in _accelerators().items():
        if name in state:
            put_back(state[name])


@contextmanager
def forked_random(seed: int) -> Iterator[None]:
    """Inside, torch draws from `seed`, on every device; afterwards all global generators are where they were. In a
    thread that draws from a generator of its own (`core.own_random`), that one is seeded and put back instead."""
    import torch

    from paddock.core.own_random import own_generator

    if (own := own_generator()) is not None:
        before = own.get_state()
        own.manual_seed(seed)
        try:
            yield
        finally:
            own.set_state(before)
        return
    state = get_random_state()
    torch.manual_seed(seed)
    try:
        yield
    finally:
        set_random_state(state)


def _accelerators() -> dict[str, tuple[Callable[[], Any], Callable[[Any], None]]]:
    """How to read and to put back the generators of each kind of device here; `torch.manual_seed` seeds them all."""
    import torch

    found: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {}
    for name in ("cuda", "xpu"):
        device = getattr(torch, name)
        if device.is_available():
            found[name] = (device.get_rng_state_all, device.set_rng_state_all)
    if torch.backends.mps.is_available():
        found["mps"] = (torch.mps.get_rng_state, torch.mps.set_rng_state)
    return found
