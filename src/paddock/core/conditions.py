"""Conditions over metrics, written as people write them: `eval/return >= 900 and train/entropy < 0.1`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from paddock.core.errors import InputError

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_TERM = re.compile(r"\s*([A-Za-z_][\w./-]*)\s*(>=|<=|==|!=|>|<)\s*([-+]?[\d._]+(?:[eE][-+]?\d+)?)\s*")


@dataclass(frozen=True)
class Comparison:
    """One metric against one number. False while the metric has no value."""

    metric: str
    symbol: str
    threshold: float

    def holds(self, metrics: Mapping[str, float]) -> bool:
        value = metrics.get(self.metric)
        return value is not None and COMPARISONS[self.symbol](value, self.threshold)


@dataclass(frozen=True)
class Condition:
    """Alternatives (`or`) of conjunctions (`and`) of comparisons."""

    text: str
    alternatives: tuple[tuple[Comparison, ...], ...]

    def holds(self, metrics: Mapping[str, float]) -> bool:
        return any(all(term.holds(metrics) for term in terms) for terms in self.alternatives)


@lru_cache(maxsize=256)
def parse_condition(text: str) -> Condition:
    """Parse `metric op number` terms joined by `and` / `or` (`and` binds tighter)."""
    alternatives = [re.split(r"\band\b", alternative) for alternative in re.split(r"\bor\b", text)]
    return Condition(text, tuple(tuple(_term(term, text) for term in terms) for terms in alternatives))


def _term(text: str, whole: str) -> Comparison:
    match = _TERM.fullmatch(text)
    if match is None:
        raise InputError(
            f"'{text.strip()}' in condition '{whole}' is not a comparison; write a metric, one of "
            f"{' '.join(COMPARISONS)}, and a number, for example: eval/return >= 900."
        )
    return Comparison(match[1], match[2], float(match[3]))
