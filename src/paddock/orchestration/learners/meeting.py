"""How ranks find each other: those that a run starts itself through a folder on this machine, those of torchrun through
the address that torchrun gives."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import psutil
import torch
from torch import distributed

MEETING = "PADDOCK_LEARNERS_MEETING"  # variable: the file through which ranks of one machine meet
RANK, COUNT, LOCAL_RANK = "RANK", "WORLD_SIZE", "LOCAL_RANK"
TORCHRUN = "TORCHELASTIC_RUN_ID"
INTERFACE = "GLOO_SOCKET_IFNAME"
LOOPBACK = "127.0.0.1"
# A run may pause, collect or evaluate for as long as it likes; a rank that is gone is known by its closed connection.
PATIENCE = timedelta(days=365)


def torchrun_rank(environment: Mapping[str, str] = os.environ) -> int | None:
    """The rank that torchrun gave to this process; None without torchrun."""
    return int(environment[RANK]) if TORCHRUN in environment and RANK in environment else None


def torchrun_count(environment: Mapping[str, str] = os.environ) -> int | None:
    """The ranks that torchrun started; None without torchrun."""
    return int(environment[COUNT]) if TORCHRUN in environment and COUNT in environment else None


def meet(rank: int, count: int, place: Path | None) -> None:
    """Return when all ranks are connected: through the file `place`, or by torchrun's address."""
    # Tensors of processors and of GPUs go their own ways.
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    if place is None:
        distributed.init_process_group(backend, timeout=PATIENCE)
        return
    before = os.environ.get(INTERFACE)
    os.environ.setdefault(INTERFACE, _loopback())  # Ranks of one machine listen to no other.
    try:
        store = distributed.FileStore(str(place), count)  # type: ignore[attr-defined]
        distributed.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=PATIENCE)
    finally:
        if before is None:
            os.environ.pop(INTERFACE, None)


def part() -> None:
    """Close the connections; the others may be gone already."""
    with suppress(RuntimeError, ValueError):
        distributed.destroy_process_group()


def _loopback() -> str:
    addresses = psutil.net_if_addrs()
    return next(name for name, found in addresses.items() if any(one.address == LOOPBACK for one in found))
