"""Statistics over few runs, after Agarwal et al., "Deep RL at the edge of the statistical precipice", arXiv:2108.13264.

Scores are a list with one array [n] a task: the final scores of that task's runs. Intervals are percentiles of a
stratified bootstrap: every task's runs are drawn again with replacement, tasks stay as they are.
Shapes: R resamples, n runs of a task, P thresholds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Scores = Sequence[Floats]
RESAMPLES = 10_000
PROFILE_RESAMPLES = 2_000
CONFIDENCE = 0.95
TRIMMED = 0.25  # share of the runs that the interquartile mean leaves out at either end


@dataclass(frozen=True)
class Estimate:
    """A value and the interval that holds it with 95 % confidence; no interval where no task has a second run."""

    value: float
    low: float | None
    high: float | None


def mean(samples: Sequence[Floats]) -> Floats:
    """[R] the mean over tasks of the mean over runs; samples: [R, n] a task."""
    return np.mean([one.mean(axis=1) for one in samples], axis=0)


def median(samples: Sequence[Floats]) -> Floats:
    """[R] the median over tasks of the mean over runs."""
    return np.median([one.mean(axis=1) for one in samples], axis=0)


def interquartile_mean(samples: Sequence[Floats]) -> Floats:
    """[R] the mean of the middle half of all runs of all tasks."""
    pooled = np.sort(np.concatenate(samples, axis=1), axis=1)
    cut = int(TRIMMED * pooled.shape[1])
    return pooled[:, cut : pooled.shape[1] - cut].mean(axis=1)


def optimality_gap(samples: Sequence[Floats], target: float = 1.0) -> Floats:
    """[R] by how much runs miss a target on average; what exceeds it does not make up for others."""
    return target - np.minimum(np.concatenate(samples, axis=1), target).mean(axis=1)


AGGREGATES: dict[str, Callable[[Sequence[Floats]], Floats]] = {
    "iqm": interquartile_mean,
    "median": median,
    "mean": mean,
    "optimality_gap": optimality_gap,
}


def estimate(
    scores: Scores, aggregate: Callable[[Sequence[Floats]], Floats], *, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """An aggregate of the scores with its interval."""
    value = float(aggregate([task[None] for task in scores])[0])
    if not has_spread(scores):
        return Estimate(value, None, None)
    low, high = _interval(aggregate(resample(scores, resamples, seed)))
    return Estimate(value, float(low), float(high))


def has_spread(scores: Scores) -> bool:
    """Whether any task has more than one run; drawing single runs again says nothing of how much they vary."""
    return any(len(task) > 1 for task in scores)


def resample(scores: Scores, resamples: int, seed: int) -> list[Floats]:
    """[R, n] a task: its runs drawn again with replacement."""
    random = np.random.default_rng(seed)
    return [task[random.integers(len(task), size=(resamples, len(task)))] for task in scores]


def performance_profile(
    scores: Scores, thresholds: Floats, *, resamples: int = PROFILE_RESAMPLES, seed: int = 0
) -> tuple[Floats, Floats, Floats]:
    """[P] the share of runs above each threshold, with the interval's ends, which are NaN where no task has a second
    run."""
    above = [task[:, None] > thresholds for task in scores]
    share = np.mean([one.mean(axis=0) for one in above], axis=0)
    if not has_spread(scores):
        nothing = np.full_like(share, np.nan)
        return share, nothing, nothing
    random = np.random.default_rng(seed)
    drawn = np.zeros((resamples, len(thresholds)))
    for one in above:
        counts = random.multinomial(len(one), np.full(len(one), 1 / len(one)), size=resamples)
        drawn += counts @ one.astype(np.float64) / len(one)
    low, high = _interval(drawn / len(above))
    return share, low, high


def probability_of_improvement(
    ours: Scores, theirs: Scores, *, resamples: int = PROFILE_RESAMPLES, seed: int = 0
) -> Estimate:
    """How likely a run of ours beats one of theirs on a task drawn at random; a tie counts one half."""
    assert len(ours) == len(theirs), "both need the same tasks"
    random = np.random.default_rng(seed)
    values, drawn = [], np.zeros(resamples)
    for x, y in zip(ours, theirs, strict=True):
        wins = (x[:, None] > y) + 0.5 * (x[:, None] == y)
        values.append(wins.mean())
        counts_x = random.multinomial(len(x), np.full(len(x), 1 / len(x)), size=resamples)
        counts_y = random.multinomial(len(y), np.full(len(y), 1 / len(y)), size=resamples)
        drawn += ((counts_x @ wins) * counts_y).sum(axis=1) / wins.size
    value = float(np.mean(values))
    if not (has_spread(ours) and has_spread(theirs)):
        return Estimate(value, None, None)
    low, high = _interval(drawn / len(values))
    return Estimate(value, float(low), float(high))


def band(curves: Floats, *, resamples: int = 500, seed: int = 0) -> tuple[Floats, Floats, Floats]:
    """The interquartile mean of curves [n, P] at each point with its interval, each [P]; NaN where a curve has none."""
    random = np.random.default_rng(seed)
    centre = _trimmed(curves[None])[0]
    if len(curves) == 1:
        return centre, centre, centre
    chosen = random.integers(len(curves), size=(resamples, len(curves)))
    low, high = _interval(_trimmed(curves[chosen]))
    return centre, low, high


def _trimmed(samples: Floats) -> Floats:
    """[R, P] interquartile means of [R, n, P] over n; values that are not there sort to the end and are not counted."""
    ordered = np.sort(samples, axis=1)
    count = np.isfinite(ordered).sum(axis=1, keepdims=True)
    cut = (TRIMMED * count).astype(np.int64)
    place = np.arange(samples.shape[1])[None, :, None]
    kept = (place >= cut) & (place < count - cut)
    total = np.where(kept, ordered, 0.0).sum(axis=1)
    number = kept.sum(axis=1)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def _interval(drawn: Floats) -> tuple[Floats, Floats]:
    """The ends of the middle 95 % along the first axis."""
    tail = 50.0 * (1.0 - CONFIDENCE)
    if np.isfinite(drawn).all():
        low, high = np.percentile(drawn, [tail, 100.0 - tail], axis=0)
        return low, high
    with np.errstate(all="ignore"):
        empty = ~np.isfinite(drawn).any(axis=0)
        low, high = np.nanpercentile(np.where(empty, 0.0, drawn), [tail, 100.0 - tail], axis=0)
    return np.where(empty, np.nan, low), np.where(empty, np.nan, high)
