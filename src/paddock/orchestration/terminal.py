"""How a run shows itself while it trains: two lines that live on a terminal, plain lines in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from paddock.core.pace import Pace
from paddock.experiments.display import duration

if TYPE_CHECKING:
    from paddock.orchestration.loggers import Row

REFRESHES_PER_SECOND = 4
NARROWEST_BAR = 8  # characters
LONGEST_PHASE, SHORTEST_PHASE = 16, 6  # characters, where there is room and where there is little
EVALUATE = "evaluate"
STOPPING = "stopping"
SAVING = "saving, then exiting; Ctrl-C again exits immediately"


@dataclass(frozen=True)
class Standing:
    """Where a run stands at this moment. doing: the kind of work that is under way, by the stopwatch's word."""

    agent_steps: int
    seconds: float
    phase: str
    doing: str | None = None


@dataclass(frozen=True)
class Limits:
    """What ends a run; None where nothing of the kind does."""

    total_steps: int | None = None
    max_seconds: float | None = None

    def share(self, standing: Standing) -> float | None:
        """How much of the run is done, 0 to 1, by the limit that is nearer."""
        shares = [standing.agent_steps / self.total_steps] if self.total_steps else []
        shares += [standing.seconds / self.max_seconds] if self.max_seconds else []
        return min(max(shares), 1.0) if shares else None

    def left(self, standing: Standing, steps_per_second: float) -> float | None:
        """Seconds to the end; None where they cannot be known yet."""
        ends = []
        if self.total_steps and steps_per_second > 0:
            ends.append((self.total_steps - standing.agent_steps) / steps_per_second)
        if self.max_seconds:
            ends.append(self.max_seconds - standing.seconds)
        return max(min(ends), 0.0) if ends else None


class Terminal:
    """A logger for people. `shown`: names of the metrics that are part of it."""

    def __init__(self, console: Console, shown: Sequence[str], limits: Limits, agent_steps: int) -> None:
        self._console, self._shown, self._limits = console, shown, limits
        self._before = (time.perf_counter(), agent_steps)
        self._metrics: dict[str, float] = {}
        self._live: Live | None = None
        self._lines: ProgressLines | None = None

    def follow(self, look: Callable[[], Standing]) -> None:
        """Show from here on what `look` tells, several times a second."""
        if self._console.is_terminal:
            self._lines = ProgressLines(look, self._limits, self._texts)
            self._live = Live(self._lines, console=self._console, refresh_per_second=REFRESHES_PER_SECOND)
            self._live.start(refresh=True)

    def log(self, row: Row) -> None:
        self._metrics.update(row.metrics)
        if self._live is None:
            self._console.print(self._line(row), markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        if self._live is not None and self._lines is not None:
            self._lines.is_over = True
            self._live.stop()

    def _line(self, row: Row) -> str:
        moment, steps = time.perf_counter(), row.counters["agent_steps"]
        rate = (steps - self._before[1]) / max(moment - self._before[0], 1e-9)
        parts = [f"{row.phase}  step {steps:,}"]
        if self._limits.total_steps:
            parts[0] += f" ({100 * steps / self._limits.total_steps:.0f} %)"
        if rate > 0:  # The final evaluation adds no steps.
            self._before = (moment, steps)
            parts.append(f"{rate:,.0f} steps/s")
            left = self._limits.left(Standing(steps, row.seconds, row.phase), rate)
            parts += [f"{duration(left)} left"] if left is not None else []
        return "  ".join([*parts, *self._texts()])

    def _texts(self) -> list[str]:
        return [f"{_label(name)} {self._metrics[name]:.4g}" for name in self._shown if name in self._metrics]


class ProgressLines:
    """Phase, bar, steps, time and remaining time in one line of any width; metrics in the lines below."""

    def __init__(self, look: Callable[[], Standing], limits: Limits, texts: Callable[[], Sequence[str]]) -> None:
        self._look, self._limits, self._texts = look, limits, texts
        self._pace = Pace()
        self._first = look()
        self._most_steps = 0
        self.is_over = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table | Text]:
        standing, width = self._look(), options.max_width
        self._most_steps = max(self._most_steps, standing.agent_steps)  # Steps under way may be counted a moment later.
        pace = self._pace(self._most_steps)
        steps, others = self._steps(), self._others(standing)
        word = "evaluating" if standing.doing == EVALUATE else standing.phase
        beside = [*others[:-2], steps, *others[-2:]]
        is_tight = _room(word[:LONGEST_PHASE], beside, width) < NARROWEST_BAR  # Then the count goes below.
        yield self._first_line(standing, word, others if is_tight else beside, width)
        rate = [f"{pace:,.0f} steps/s"] if self._is_learning(standing) else []
        rate = [SAVING] if standing.phase == STOPPING and not self.is_over else rate
        for line in _lines([*([steps] if is_tight else []), *rate, *self._texts()], width):
            yield Text(line, style="dim", no_wrap=True, overflow="ellipsis")

    def _steps(self) -> str:
        total = self._limits.total_steps
        return f"{self._most_steps:>{len(f'{total:,}')},}/{total:,} steps" if total else f"{self._most_steps:,} steps"

    def _others(self, standing: Standing) -> list[str]:
        """The share that is done, where there is an end, then the time, then what is left of it."""
        share = self._limits.share(standing)
        left = self._limits.left(standing, self._overall(standing))
        times = [f"{duration(standing.seconds)} elapsed", f"{duration(left)} left" if left is not None else "– left"]
        return [*([f"{100 * share:3.0f} %"] if share is not None else []), *times]

    def _first_line(self, standing: Standing, word: str, beside: Sequence[str], width: int) -> Table:
        longest = max(LONGEST_PHASE + min(_room("x" * LONGEST_PHASE, beside, width) - NARROWEST_BAR, 0), SHORTEST_PHASE)
        phase = word if len(word) <= longest else word[: longest - 1] + "…"
        room = max(_room(phase, beside, width), NARROWEST_BAR)
        share = self._limits.share(standing)
        bar = ProgressBar(total=1.0, completed=share or 0.0, width=room, pulse=share is None)
        line = Table.grid(padding=(0, 2, 0, 0))
        line.add_row(Text(phase, style="bold", no_wrap=True), bar, *(Text(text, no_wrap=True) for text in beside))
        return line

    def _is_learning(self, standing: Standing) -> bool:
        """Whether steps are being taken; a pace of zero says nothing before, during an evaluation and after."""
        has_begun = self._most_steps > self._first.agent_steps
        return has_begun and not self.is_over and standing.doing != EVALUATE

    def _overall(self, standing: Standing) -> float:
        """Steps per second since this process began to train."""
        spent = standing.seconds - self._first.seconds
        return (self._most_steps - self._first.agent_steps) / spent if spent > 0 else 0.0


def _room(phase: str, beside: Sequence[str], width: int) -> int:
    """Characters that are left for the bar."""
    return width - len(phase) - 2 - sum(2 + len(text) for text in beside)


def _lines(texts: Sequence[str], width: int) -> Iterator[str]:
    """The texts side by side, in as many lines as they need; none is torn."""
    line = ""
    for text in texts:
        if line and len(line) + 2 + len(text) > width:
            yield line
            line = ""
        line = f"{line}  {text}" if line else text
    if line:
        yield line


def _label(name: str) -> str:
    """`collect/return` as `return`, `eval/best_lap` as `eval best lap`."""
    return name.removeprefix("collect/").replace("/", " ").replace("_", " ")
