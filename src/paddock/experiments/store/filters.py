"""Conditions that people write to find runs: `algorithm=ppo`, `eval/return>400`, `config.workflow.clip_ratio=0.2`."""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from paddock.core.conditions import COMPARISONS
from paddock.core.errors import InputError, did_you_mean
from paddock.experiments.store.store import Store
from paddock.experiments.store.summaries import RunSummary

FIELDS: dict[str, Callable[[RunSummary], Any]] = {
    "run": lambda summary: summary.folder,
    "id": lambda summary: summary.id,
    "name": lambda summary: summary.name,
    "status": lambda summary: summary.status,
    "algorithm": lambda summary: summary.algorithm,
    "environment": lambda summary: summary.environment,
    "seed": lambda summary: summary.seed,
    "agent_steps": lambda summary: summary.agent_steps,
    "seconds": lambda summary: summary.seconds,
    "created": lambda summary: summary.created,
    "commit": lambda summary: summary.git_commit,
    "dirty": lambda summary: summary.is_dirty,
    "config_hash": lambda summary: summary.config_hash,
    "pinned": lambda summary: summary.is_pinned,
    "tag": lambda summary: summary.tags,
}
CONFIG = "config."
AGGREGATES = {".max": "high", ".min": "low", ".last": "last"}
_FILTER = re.compile(r"\s*([A-Za-z_][\w./-]*?)\s*(>=|<=|==|!=|=|>|<)\s*(.*?)\s*")


@dataclass(frozen=True)
class Key:
    """Something that every run can be asked for: a field, a metric (its last, lowest or highest value), an option."""

    text: str
    metric: str | None = None
    aggregate: str = "last"
    option: str | None = None

    def of(self, summary: RunSummary) -> Any:
        """The value, None where the run has none."""
        if self.metric is not None:
            values = summary.metrics.get(self.metric)
            return None if values is None else getattr(values, self.aggregate)
        if self.option is not None:
            return summary.config.get(self.option)
        return FIELDS[self.text](summary)


@dataclass(frozen=True)
class Filter:
    """One condition. Text is compared with glob patterns; `created` as text, so that 2026-11 begins a month."""

    key: Key
    symbol: str
    value: str

    def holds(self, summary: RunSummary) -> bool:
        found = self.key.of(summary)
        if isinstance(found, tuple):
            is_in = any(fnmatch.fnmatchcase(str(one), self.value) for one in found)
            return is_in == (self.symbol != "!=")
        if found is None:
            return self.symbol == "!="
        number = _number(self.value)
        if number is not None and isinstance(found, int | float) and not isinstance(found, bool):
            return COMPARISONS["==" if self.symbol == "=" else self.symbol](found, number)
        text = str(found).lower() if isinstance(found, bool) else str(found)
        if self.symbol in ("=", "==", "!="):
            return fnmatch.fnmatchcase(text, self.value) == (self.symbol != "!=")
        return COMPARISONS[self.symbol](text, self.value)  # type: ignore[arg-type]


def parse_key(text: str, store: Store) -> Key:
    """The key that `text` names, or an error that suggests one."""
    if text in FIELDS:
        return Key(text)
    metrics = store.metric_names()
    if text in metrics:
        return Key(text, metric=text)
    for suffix, aggregate in AGGREGATES.items():
        if text.removesuffix(suffix) in metrics:
            return Key(text, metric=text.removesuffix(suffix), aggregate=aggregate)
    options = store.config_keys()
    if text.removeprefix(CONFIG) in options:
        return Key(text, option=text.removeprefix(CONFIG))
    known = [*FIELDS, *metrics, *options, *(CONFIG + option for option in options)]
    raise InputError(
        f"no run has anything called '{text}'.{did_you_mean(text, known)} There are the fields {', '.join(FIELDS)}, "
        "metrics such as eval/return (also eval/return.max and .min), and options such as workflow.gamma."
    )


def parse_filter(text: str, store: Store) -> Filter:
    """A condition as it is written at the command line."""
    match = _FILTER.fullmatch(text)
    if match is None or not match[3]:
        raise InputError(
            f"--filter '{text}' is not a condition; write a key, one of = != < <= > >=, and a value, "
            "for example algorithm=ppo or 'eval/return>400' (in quotes, for the shell's sake)."
        )
    found = Filter(parse_key(match[1], store), match[2], match[3])
    is_ordering = found.symbol not in ("=", "==", "!=")
    if is_ordering and found.key.metric is not None and _number(found.value) is None:
        raise InputError(f"--filter '{text}' compares a metric with '{found.value}', which is not a number.")
    return found


def find_runs(
    store: Store,
    *,
    filters: Sequence[str] = (),
    tags: Sequence[str] = (),
    sort: str | None = None,
    is_ascending: bool = False,
    limit: int | None = None,
    keys: Iterable[Key] = (),
) -> list[RunSummary]:
    """Runs that fulfil every condition: oldest first, or sorted by a key, the highest first; runs without it last.

    keys: what else the summaries have to know.
    """
    conditions = [parse_filter(text, store) for text in filters]
    key = parse_key(sort, store) if sort else None
    needed = [*keys, *(condition.key for condition in conditions), *([key] if key else [])]
    summaries = store.summaries(
        metrics=[one.metric for one in needed if one.metric],
        with_config=any(one.option for one in needed),
    )
    found = [
        summary
        for summary in summaries
        if all(condition.holds(summary) for condition in conditions) and set(tags) <= set(summary.tags)
    ]
    if key is not None:
        found = _sorted(found, key, is_ascending)
    if limit is not None:
        found = found[:limit] if key is not None else found[-limit:]
    return found


def _sorted(summaries: Sequence[RunSummary], key: Key, is_ascending: bool) -> list[RunSummary]:
    having = [summary for summary in summaries if not _is_empty(key.of(summary))]
    lacking = [summary for summary in summaries if _is_empty(key.of(summary))]
    return sorted(having, key=lambda summary: _order(key.of(summary)), reverse=not is_ascending) + lacking


def _order(value: Any) -> tuple[int, float, str]:
    """Numbers before text, so that an option with both can be sorted."""
    is_number = isinstance(value, int | float)
    return (0, float(value), "") if is_number else (1, 0.0, str(value))


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
