"""When something is due: every so many steps, or so many times per step. Both survive a checkpoint."""

from __future__ import annotations


class Every:
    """True once each time a counter passes a multiple of `period`, however large the counter's jumps."""

    def __init__(self, period: int) -> None:
        assert period > 0, period
        self.period = period
        self.passed = 0

    def __call__(self, counter: int) -> bool:
        multiple = counter // self.period
        is_due = multiple > self.passed
        self.passed = max(self.passed, multiple)
        return is_due

    def get_state(self) -> int:
        return self.passed

    def set_state(self, state: int) -> None:
        self.passed = state


class Ratio:
    """Owes `ratio` updates per step; fractions are kept, so 0.3 gives exactly 3 updates in 10 steps."""

    def __init__(self, ratio: float) -> None:
        assert ratio > 0, ratio
        self.ratio = ratio
        self.steps = 0
        self.paid = 0

    def add(self, steps: int) -> None:
        self.steps += steps

    @property
    def owed(self) -> int:
        # Counted from whole numbers, so that no rounding error piles up. The nudge is for ratios like 0.1,
        # whose tenfold is a hair under one.
        return int(self.steps * self.ratio + 1e-6) - self.paid

    def pay(self) -> None:
        self.paid += 1

    def get_state(self) -> list[int]:
        return [self.steps, self.paid]

    def set_state(self, state: list[int]) -> None:
        self.steps, self.paid = state
