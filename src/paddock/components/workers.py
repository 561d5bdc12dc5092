"""Threads that share the work on one batch: each takes whole pieces, and no operation inside a piece is split.

For networks this small, splitting every operation over cores (what `torch.set_num_threads` does) makes threads wait for
each other dozens of times per update, and stalls when another program holds a core; a piece is waited for once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import TypeVar

import torch

Piece = TypeVar("Piece")
Result = TypeVar("Result")


class Workers:
    """`count` threads with one thread of torch each. Results come in the order of the pieces, whatever the count.

    Where the calling thread has one thread of torch as well, it is one of them: a helper that wakes late, because other
    programs hold its core, costs nothing but its help.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None

    def map(self, function: Callable[[Piece], Result], pieces: Sequence[Piece]) -> list[Result]:
        if self.count == 1 or len(pieces) == 1:
            return [function(piece) for piece in pieces]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.count, "paddock-learn", partial(torch.set_num_threads, 1))
        if torch.get_num_threads() > 1:
            return list(self._pool.map(function, pieces))
        results: dict[int, Result] = {}
        numbers = iter(range(len(pieces)))  # `next` of it is atomic: every piece is taken once.

        def work() -> None:
            for number in numbers:
                results[number] = function(pieces[number])

        helpers = [self._pool.submit(work) for _ in range(min(self.count, len(pieces)) - 1)]
        try:
            work()
        finally:
            begun = [helper for helper in helpers if not helper.cancel()]
            wait(begun)
        for helper in begun:
            helper.result()
        return [results[number] for number in range(len(pieces))]
