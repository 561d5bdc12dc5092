"""Whether code of a person's own may run here and now, and from where; asked by everything that could run it.

`paddock.core.trust` decides, this module remembers the decision for as long as it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from paddock.core.errors import InputError

P = ParamSpec("P")
R = TypeVar("R")


class UntrustedError(InputError):
    """A file that came from elsewhere would run code, send something or reach outside its folder."""


@dataclass(frozen=True)
class Permission:
    """is_data_only: nothing of a person's own may run. copies: a file as written in the configuration -> the copy that
    is run in its place. packages: names that a `_target_` may begin with, beside `paddock`."""

    is_data_only: bool = False
    copies: Mapping[str, Path] = field(default_factory=dict)
    packages: tuple[str, ...] = ()


_current: ContextVar[Permission] = ContextVar("paddock_permission")
_DEFAULT = Permission()


def current() -> Permission:
    """What holds here."""
    return _current.get(_DEFAULT)


def is_data_only() -> bool:
    return current().is_data_only


@contextmanager
def permitting(permission: Permission) -> Iterator[None]:
    """Let `permission` hold inside."""
    token = _current.set(permission)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def data_only() -> Iterator[None]:
    """Read what came from elsewhere: inside, everything that would run code refuses to."""
    with permitting(replace(current(), is_data_only=True)):
        yield


def demand(what: str) -> None:
    """Refuse where files are only data. what: what would run, as in `the Python file 'x.py'`."""
    if is_data_only():
        raise UntrustedError(
            f"{what} is named by a file that came from elsewhere, and such files run nothing. "
            "See docs/security.md; --trust on the command line allows it for one folder."
        )


def keep(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, called whenever and in whichever thread with the permission that holds now."""
    permission = current()

    @wraps(function)
    def kept(*args: P.args, **kwargs: P.kwargs) -> R:
        with permitting(permission):
            return function(*args, **kwargs)

    return kept
