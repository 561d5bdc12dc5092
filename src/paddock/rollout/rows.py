"""An actor for some rows of a larger batch: it gives each row the very action that the whole batch would give it.

Two things could make an action depend on who else is in the batch. Random numbers are drawn for all rows and each takes
its own. And a matrix product may sum in another order where there are few rows, or by a row's place, so a small batch
is padded, if need be to all rows.

Shapes: N rows in all; n of them are here, from row `first` on; P >= n after padding.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from paddock.core.errors import InputError
from paddock.core.seeding import forked_random
from paddock.core.specs import Spec
from paddock.rollout.actor import ActorModule, ActorState, Observation

TRIES = 3
SMALL_BATCH = 16  # rows from which on products of matrices were the same for every number of rows, where measured

LIKE: Mapping[Any, Callable[..., Tensor]] = {
    torch.randn_like: torch.randn,
    torch.rand_like: torch.rand,
}
SIZED = (torch.randn, torch.rand, torch.randint)
IN_PLACE = (
    torch.Tensor.exponential_,
    torch.Tensor.normal_,
    torch.Tensor.uniform_,
    torch.Tensor.bernoulli_,
    torch.Tensor.random_,
)
REFUSED = (
    torch.normal,
    torch.bernoulli,
    torch.Tensor.bernoulli,
    torch.multinomial,
    torch.Tensor.multinomial,
    torch.poisson,
    torch.randperm,
    torch.randint_like,
)


class RowDraws(TorchFunctionMode):
    """Inside, what torch draws for a batch of P rows is drawn for all N, and these rows' numbers are taken."""

    def __init__(self, rows: Tensor, total: int) -> None:
        super().__init__()
        self._rows, self._total = rows, total

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in LIKE:
            like, rest = args[0], {"dtype": args[0].dtype, "device": args[0].device, **kwargs}
            return self._taken(LIKE[func](self._widened(like.shape, func), **rest))
        if func in SIZED:
            before, size, keywords = _size_of(func, args, kwargs)
            return self._taken(func(*before, self._widened(size, func), **keywords))
        if func in IN_PLACE:
            target, *rest = args
            drawn = func(target.new_empty(self._widened(target.shape, func)), *rest, **kwargs)
            return target.copy_(self._taken(drawn))
        if func in REFUSED:
            raise _not_by_rows(func)
        return func(*args, **kwargs)

    def _widened(self, shape: Sequence[int], func: Any) -> tuple[int, ...]:
        if not shape or shape[0] != len(self._rows):
            raise _not_by_rows(func)
        return (self._total, *shape[1:])

    def _taken(self, drawn: Tensor) -> Tensor:
        return drawn[self._rows.to(drawn.device)]


class RowActor:
    """An `ActorModule` as seen by a collector of n of N rows."""

    def __init__(self, actor: ActorModule, *, first: int, count: int, total: int, padding: int) -> None:
        self._actor = actor
        size = max(count, min(padding, total))
        # Among all N a row stands where it stands in the whole batch: a product may depend on the place, too.
        start = first if size == total else 0
        self._index = (torch.arange(size) - start).clamp(0, count - 1)  # Rows of padding repeat the nearest one.
        self._here = slice(start, start + count)
        self._is_padded = size > count
        is_all = count == total
        self._draws = None if is_all else RowDraws(torch.arange(size) if size == total else first + self._index, total)

    def act(self, observation: Observation, state: ActorState, *, deterministic: bool) -> tuple[Tensor, ActorState]:
        """As of the actor: observation parts [n, ...] to actions [n, ...] and the next state."""
        if self._draws is None:
            return self._actor.act(observation, state, deterministic=deterministic)
        if self._is_padded:
            index = self._index
            observation = {name: part[index] for name, part in observation.items()}
            state = state and {name: part[index] for name, part in state.items()}
        with self._draws:
            action, state = self._actor.act(observation, state, deterministic=deterministic)
        if self._is_padded:
            action = action[self._here]
            state = state and {name: part[self._here] for name, part in state.items()}
        return action, state

    def __getattr__(self, name: str) -> Any:
        return getattr(self._actor, name)


def padding_for(actor: ActorModule, spec: Spec, *, counts: Sequence[int], total: int) -> int:
    """Rows to which batches of these sizes are padded so that every row's action has the bits that it has among all N:
    a small batch, or all N where that is not enough. Which order a product sums in depends on its shape alone, but not
    all numbers show it; so it is tried with random weights and several random batches."""
    random = torch.Generator().manual_seed(0)
    tried = copy.deepcopy(actor)
    with torch.inference_mode():
        for parameter in tried.parameters():
            scale = max(parameter[0].numel(), 1) ** -0.5 if parameter.dim() > 1 else 1.0
            parameter.copy_(scale * torch.randn(parameter.shape, generator=random))
        for _ in range(TRIES):
            observation = {name: _example(part, total, random) for name, part in spec.observation.items()}
            if not _is_same_split(tried, observation, counts, total):
                return total
    return min(SMALL_BATCH, total)


def _is_same_split(actor: ActorModule, observation: Observation, counts: Sequence[int], total: int) -> bool:
    with forked_random(0):  # Some draw even where they are asked not to.
        together, _ = actor.act(observation, actor.initial_state(total), deterministic=True)
    first = 0
    for count in counts:
        one = RowActor(actor, first=first, count=count, total=total, padding=SMALL_BATCH)
        rows = {name: part[first : first + count] for name, part in observation.items()}
        with forked_random(0):
            action, _ = one.act(rows, actor.initial_state(count), deterministic=True)
        if not torch.equal(action, together[first : first + count]):
            return False
        first += count
    return True


def _example(part: Any, total: int, random: torch.Generator) -> Tensor:
    shape = (total, *part.shape)
    if part.dtype == "uint8":
        return torch.randint(256, shape, generator=random, dtype=torch.uint8)
    return torch.randn(shape, generator=random).to(getattr(torch, part.dtype))


def _size_of(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[list[Any], Sequence[int], dict]:
    """What stands before the size among the arguments, the size, and the keywords without it."""
    keywords = dict(kwargs)
    if "size" in keywords:
        return list(args), keywords.pop("size"), keywords
    if isinstance(args[-1], Sequence):
        return list(args[:-1]), args[-1], keywords
    if func is torch.randint:
        raise _not_by_rows(func)
    return [], args, keywords


def _not_by_rows(func: Any) -> InputError:
    return InputError(
        f"the controller draws random numbers by {getattr(func, '__name__', func)}, and not one row for each "
        "environment, so its environments cannot be spread over processes that give the same result. Use "
        "experience=local, or experience.mode=async."
    )
