"""Learners that share the work on a batch: ranks side by side, and pieces of a rank's rows one after the other.

Every rank has the whole batch and the same random numbers and does the same work, except inside `Learners.mean`: there
it works on its own rows, and one sum over all ranks makes the result everybody's. So all ranks hold the same parameters
at any time, and they equal those of a single rank up to rounding. Accumulation is the same in time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, distributed

from paddock.components.actions import only_rows
from paddock.core.errors import PaddockError
from paddock.core.trees import map_tree

Bounds = tuple[int, int]
Tree = Any
Function = Callable[..., tuple[Any, ...]]
RandomState = tuple[Tensor, tuple[torch.device, Tensor] | None]
log = logging.getLogger(__name__)


class LearnerLostError(PaddockError):
    """Another rank does not answer any more."""


class _Recorded(Exception):
    """Ends a pass that only had to find out what `whole_of` needs."""


class Learners:
    """This process as one of `count` ranks, whose rows are worked on in `accumulate` pieces.

    Where a device runs out of memory, the pieces are halved and the work is done again; they stay that small.
    """

    def __init__(self, rank: int = 0, count: int = 1, accumulate: int = 1) -> None:
        self.rank = rank
        self.count = count
        self.accumulate = accumulate
        self._bounds: list[Bounds] = []  # of the pieces under way
        self._size = 0
        self._seen: Any = None
        self._recording: list[tuple[Tensor, int, Callable[[Tensor], Any]]] | None = None

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that collects, evaluates and writes."""
        return self.rank == 0

    def mean(
        self,
        function: Function,
        *trees: Tree,
        axis: int = 0,
        weigh: Callable[..., float] | None = None,
        sees_whole: bool = False,
    ) -> tuple[Any, ...]:
        """What `function(*trees)` would give for whole trees, of which each rank works on its rows along `axis`.

        It gives a tuple: a dict of means over the rows first, then any of gradients of such means (a sequence) and of
        tensors by row (a tensor, or a dict of them, with rows along `axis`). `weigh` says how much rows count, by
        default their number. A function that uses `whole_of` `sees_whole`.
        """
        self._seen, self._size = None, _rows_of(trees[0], axis)
        state = _random_state(trees[0])
        while True:
            try:
                return self._mean(function, trees, axis, weigh, sees_whole, state)
            except torch.OutOfMemoryError as error:
                if self.accumulate >= -(-self._size // self.count):
                    raise PaddockError(
                        f"a single row of a batch does not fit into memory: {_first_line(error)}"
                    ) from error
            # Outside of the handler, so that the traceback no longer holds what has to be freed.
            self._halve()
            _set_random_state(state)

    def mean_of(
        self,
        function: Function,
        *,
        axis: int = 0,
        weigh: Callable[..., float] | None = None,
        sees_whole: bool = False,
    ) -> Function:
        """`mean` of this function, for whole trees; the function itself where nothing can ever be shared."""
        if self._is_alone:
            return function
        return partial(self.mean, function, axis=axis, weigh=weigh, sees_whole=sees_whole)

    def whole_of(self, function: Callable[[Tensor], Any], axis: int) -> Callable[[Tensor], Any]:
        """For use inside of `mean`: called with a piece's values (rows along `axis`, without a gradient), it gives
        `function` of the whole batch's; the function itself where nothing can ever be shared.

        It is called once for all pieces. A function of `mean` may call one such once.
        """
        return function if self._is_alone else partial(self._whole, function, axis)

    def _whole(self, function: Callable[[Tensor], Any], axis: int, values: Tensor) -> Any:
        if self._seen is None:
            if self._recording is not None:
                self._recording.append((values, axis, function))
                raise _Recorded
            self._seen = function(values if self.count == 1 else self._joined([values], axis))
        return self._seen

    def copy_from_first(self, tensors: Sequence[Tensor]) -> None:
        """Make these tensors what they are on the first rank."""
        if self.count > 1:
            for tensor in tensors:
                answered(distributed.broadcast, tensor, 0)

    def _mean(
        self,
        function: Function,
        trees: tuple[Tree, ...],
        axis: int,
        weigh: Callable[..., float] | None,
        sees_whole: bool,
        state: RandomState,
    ) -> tuple[Any, ...]:
        self._bounds = self._pieces()
        if self.count == 1 and len(self._bounds) == 1:
            return function(*trees)
        taken = [[map_tree(partial(_taken, bounds, axis), tree) for tree in trees] for bounds in self._bounds]
        if sees_whole and len(self._bounds) > 1 and self._seen is None:
            self._look(function, taken, state)
        sum_ = _Sum()
        for bounds, piece in zip(self._bounds, taken, strict=True):
            _set_random_state(state)
            with only_rows(*bounds, self._size):
                result = function(*piece)
            share = weigh(*piece) / weigh(*trees) if weigh else (bounds[1] - bounds[0]) / self._size
            sum_.add(result, share if self._counts else 0.0)
        if self.count > 1:
            sum_.reduce()
        return sum_.result(partial(self._joined, axis=axis))

    def _look(self, function: Function, taken: list[list[Tree]], state: RandomState) -> None:
        """Let every piece come to where it needs the whole, keeping nothing for gradients."""
        recorded: list[tuple[Tensor, int, Callable[[Tensor], Any]]] = []
        self._recording = recorded
        try:
            for bounds, piece in zip(self._bounds, taken, strict=True):
                _set_random_state(state)
                with only_rows(*bounds, self._size), torch.no_grad(), suppress(_Recorded):
                    function(*piece)
        finally:
            self._recording = None
        if recorded:
            _, axis, then = recorded[0]
            self._seen = then(self._joined([values for values, _, _ in recorded], axis))

    @property
    def _is_alone(self) -> bool:
        """Whether this rank works on whole batches as long as it lives: only a GPU's memory runs out on the way."""
        return self.count == 1 and self.accumulate == 1 and not gpu_may_run_out()

    @property
    def _counts(self) -> bool:
        """Whether this rank has rows of its own; a batch smaller than the number of ranks leaves some without."""
        return self.rank < self._size

    def _pieces(self) -> list[Bounds]:
        """The rows of this rank, cut into pieces."""
        if not self._counts:
            return [(0, 1)]
        start, stop = _share(0, self._size, self.rank, self.count)
        count = min(self.accumulate, stop - start)
        return [_share(start, stop, place, count) for place in range(count)]

    def _joined(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        """Pieces of all ranks as one tensor. Sums with zeros are exact, and rows need not be shared evenly."""
        mine = torch.cat(list(parts), axis) if len(parts) > 1 else parts[0]
        if self.count == 1:
            return mine
        shape = list(mine.shape)
        shape[axis] = self._size
        whole = torch.zeros(shape, dtype=mine.dtype, device=mine.device)
        if self._counts:
            whole.narrow(axis, self._bounds[0][0], mine.shape[axis]).copy_(mine)
        answered(distributed.all_reduce, whole)
        return whole

    def _halve(self) -> None:
        self.accumulate = min(2 * self.accumulate, -(-self._size // self.count))
        log.warning(
            "a device ran out of memory; from here on a batch is worked on in %d pieces (updates.accumulate).",
            self.accumulate * self.count,
        )
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


class _Sum:
    """A weighted sum of what a function gave for pieces; rows are kept side by side."""

    def __init__(self) -> None:
        self.means: dict[str, Tensor] = {}
        self.gradients: dict[int, list[Tensor | None]] = {}
        self.rows: dict[int, list[Any]] = {}
        self.length = 0

    def add(self, result: tuple[Any, ...], share: float) -> None:
        self.length = len(result)
        for name, value in result[0].items():
            part = torch.as_tensor(value).detach() * share
            self.means[name] = self.means[name] + part if name in self.means else part
        for place, value in enumerate(result[1:], 1):
            if isinstance(value, Tensor | Mapping):
                self.rows.setdefault(place, []).append(value)
            else:
                scaled = [one if one is None else one * share for one in value]
                before = self.gradients.get(place)
                self.gradients[place] = scaled if before is None else list(map(_added, before, scaled))

    def reduce(self) -> None:
        """Add up over all ranks, everything in one tensor."""
        means = list(self.means.values())
        gradients = [one for found in self.gradients.values() for one in found if one is not None]
        device = gradients[0].device if gradients else means[0].device
        parts = [value.to(device, torch.float32).reshape(-1) for value in means] + [
            one.reshape(-1) for one in gradients
        ]
        flat = torch.cat(parts)
        answered(distributed.all_reduce, flat)
        pieces = iter(flat.split([part.numel() for part in parts]))
        self.means = {name: next(pieces).view(value.shape) for name, value in self.means.items()}
        self.gradients = {
            place: [one if one is None else next(pieces).view(one.shape) for one in found]
            for place, found in self.gradients.items()
        }

    def result(self, join: Callable[[Sequence[Tensor]], Tensor]) -> tuple[Any, ...]:
        return self.means, *(self._at(place, join) for place in range(1, self.length))

    def _at(self, place: int, join: Callable[[Sequence[Tensor]], Tensor]) -> Any:
        if place in self.gradients:
            return self.gradients[place]
        found = self.rows[place]
        if isinstance(found[0], Tensor):
            return join(found)
        return {name: join([one[name] for one in found]) for name in found[0]}


def answered(operation: Callable[..., Any], *arguments: Any) -> None:
    """A collective operation; a sentence where another rank is gone."""
    try:
        operation(*arguments)
    except RuntimeError as error:
        raise LearnerLostError(f"another learner does not answer any more: {_first_line(error)}") from error


def gpu_may_run_out() -> bool:
    """Whether there is a GPU, on which a batch that is too large for its memory can be worked on in pieces."""
    return torch.cuda.is_available()


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _share(start: int, stop: int, place: int, count: int) -> Bounds:
    """One of `count` shares that differ by one row at most."""
    size = stop - start
    return start + size * place // count, start + size * (place + 1) // count


def _taken(bounds: Bounds, axis: int, tensor: Tensor) -> Tensor:
    return tensor.narrow(axis, bounds[0], bounds[1] - bounds[0])


def _added(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    return second if first is None else first if second is None else first + second


def _rows_of(tree: Tree, axis: int) -> int:
    return next(_leaves(tree)).shape[axis]


def _leaves(tree: Tree) -> Iterator[Tensor]:
    if isinstance(tree, Mapping):
        for value in tree.values():
            yield from _leaves(value)
    else:
        yield tree


def _random_state(tree: Tree) -> RandomState:
    """Of the processor, and of the device that a tree is on."""
    device = next(_leaves(tree)).device
    return torch.get_rng_state(), (device, torch.cuda.get_rng_state(device)) if device.type == "cuda" else None


def _set_random_state(state: RandomState) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1][1], state[1][0])
