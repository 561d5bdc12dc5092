"""Where a time-step's milliseconds go: rtgym's six figures over the newest time-steps, and which part is too slow."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

FIGURES = {
    "time_step_duration": "from one control to the next",
    "step_duration": "a whole call of step",
    "join_duration": "in it, waiting for the time-step to end",
    "inference_duration": "between two calls of step: policy and learning",
    "send_control_duration": "send_control",
    "get_obs_duration": "get_obs_rew_terminated_info",
}
KEPT = 20_000  # time-steps
LATE = 0.1  # of a time-step by which controls may be late before it is said
POLYAK = 0.1


class StepDurations:
    """The figures of every time-step since `clear`, s, the newest `KEPT` of them; not those that a reset begins."""

    def __init__(self) -> None:
        self.values: dict[str, deque[float]] = {name: deque(maxlen=KEPT) for name in FIGURES}
        self.timed_out = 0

    def add(self, **durations: float) -> None:
        for name, seconds in durations.items():
            self.values[name].append(seconds)

    def clear(self) -> None:
        for values in self.values.values():
            values.clear()
        self.timed_out = 0

    def polyak(self) -> dict[str, tuple[float, float]]:
        """rtgym's form: (mean, mean deviation) of each figure, exponentially weighted."""
        found = {}
        for name, values in self.values.items():
            mean, deviation = (values[0] if values else 0.0), 0.0
            for value in list(values)[1:]:
                mean += POLYAK * (value - mean)
                deviation += POLYAK * (abs(value - mean) - deviation)
            found[name] = (mean, deviation)
        return found


@dataclass(frozen=True)
class Figures:
    """What a benchmark found; durations in s. figures: median, p99 and worst by name."""

    time_step: float
    steps: int
    timed_out: int
    figures: dict[str, dict[str, float]]

    @property
    def too_slow(self) -> str | None:
        """The part that makes controls late; None where they are in time."""
        late = self.figures["time_step_duration"]["p99"] - self.time_step
        if self.timed_out == 0 and late <= LATE * self.time_step:
            return None
        parts = ("inference_duration", "get_obs_duration", "send_control_duration")
        slowest = max(parts, key=lambda name: self.figures[name]["p99"])
        # Where no part takes long, the machine itself did not wake the process in time.
        return slowest if self.figures[slowest]["p99"] > LATE * self.time_step else "machine"

    def sentence(self) -> str:
        """What a person should know of it."""
        milliseconds = 1000.0 * self.time_step
        missed = f"{self.timed_out} of {self.steps} time-steps timed out"
        if self.too_slow is None:
            return f"Every part fits into the time-step of {milliseconds:g} ms; {missed}."
        if self.too_slow == "machine":
            return (
                f"Controls come late ({missed}) although every part is fast: this machine is too busy for time-steps "
                f"of {milliseconds:g} ms."
            )
        worst = 1000.0 * self.figures[self.too_slow]["p99"]
        share = f"{worst:.1f} ms in one of a hundred time-steps of {milliseconds:g} ms"
        return f"{self.too_slow} is too slow: {share}; {missed}."

    def to_dict(self) -> dict[str, object]:
        return {
            "time_step": self.time_step,
            "steps": self.steps,
            "timed_out": self.timed_out,
            "figures": self.figures,
            "too_slow": self.too_slow,
            "sentence": self.sentence(),
        }


def summed_up(durations: StepDurations, time_step: float) -> Figures:
    """Median, p99 and worst of what was measured."""
    figures = {}
    for name, values in durations.values.items():
        found = np.array(values or [np.nan])
        median, p99, worst = (float(np.quantile(found, share)) for share in (0.5, 0.99, 1.0))
        figures[name] = {"median": median, "p99": p99, "worst": worst}
    return Figures(time_step, len(durations.values["step_duration"]), durations.timed_out, figures)
