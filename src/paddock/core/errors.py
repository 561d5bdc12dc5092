"""Errors that are meant for people: one readable message, no traceback at the command line."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class PaddockError(Exception):
    """Something went wrong that a sentence can explain. The command line prints it and exits with `exit_code`."""

    exit_code = 1


class InputError(PaddockError, ValueError):
    """What a person gave cannot be used: says what was given, what is allowed, what to do."""

    exit_code = 2


def did_you_mean(given: str, allowed: Iterable[str]) -> str:
    """` Did you mean 'x'?` when something close is allowed, else an empty string."""
    close = get_close_matches(given, list(allowed), n=1, cutoff=0.6)
    return f" Did you mean '{close[0]}'?" if close else ""


def unknown_choice(kind: str, given: str, allowed: Iterable[str]) -> InputError:
    """The error for a name that is not among the allowed ones."""
    allowed = sorted(allowed)
    listed = ", ".join(allowed) if allowed else "none"
    return InputError(f"unknown {kind} '{given}'.{did_you_mean(given, allowed)} Allowed: {listed}.")


class NonFiniteError(PaddockError):
    """A NaN or Inf where there must be none; `tensor` names it."""

    def __init__(self, tensor: str) -> None:
        super().__init__(f"NaN or Inf in {tensor}")
        self.tensor = tensor
