"""The statistics against rliable's numbers (see fixtures/make_rliable.py) and against naive versions."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, trim_mean

from paddock.experiments.compare import statistics

REFERENCE = json.loads((Path(__file__).parent / "fixtures" / "rliable.json").read_text())["cases"]


def tasks(scores):
    """rliable has [runs, tasks]."""
    return list(np.array(scores).T)


@pytest.mark.parametrize("case", REFERENCE)
def test_aggregates_are_those_of_rliable(case):
    reference = REFERENCE[case]
    for name, value, low, high in zip(reference["names"], reference["values"], *reference["intervals"], strict=True):
        found = statistics.estimate(tasks(reference["ours"]), statistics.AGGREGATES[name], resamples=50_000)
        assert found.value == pytest.approx(value, rel=1e-12), name
        # Two bootstraps of 50,000 draws each: their ends differ by chance, by about a hundredth of the width.
        assert [found.low, found.high] == pytest.approx([low, high], abs=0.02 * (high - low)), name


@pytest.mark.parametrize("case", REFERENCE)
def test_performance_profiles_are_those_of_rliable(case):
    reference = REFERENCE[case]
    share, low, high = statistics.performance_profile(
        tasks(reference["ours"]), np.array(reference["thresholds"]), resamples=50_000
    )
    assert share == pytest.approx(np.array(reference["profile"]), abs=1e-12)
    assert np.stack([low, high]) == pytest.approx(np.array(reference["profile_intervals"]), abs=0.03)


@pytest.mark.parametrize("case", REFERENCE)
def test_the_probability_of_improvement_is_that_of_rliable(case):
    reference = REFERENCE[case]
    found = statistics.probability_of_improvement(
        tasks(reference["ours"]), tasks(reference["theirs"]), resamples=20_000
    )
    assert found.value == pytest.approx(reference["improvement"], abs=1e-12)
    assert [found.low, found.high] == pytest.approx(reference["improvement_interval"], abs=0.02)


def test_against_naive_versions_with_tasks_of_different_size():
    random = np.random.default_rng(3)
    scores = [random.normal(size=n) for n in (4, 7, 9)]
    single = [task[None] for task in scores]
    pooled = np.concatenate(scores)
    assert statistics.interquartile_mean(single)[0] == pytest.approx(trim_mean(pooled, 0.25))
    assert statistics.mean(single)[0] == pytest.approx(np.mean([task.mean() for task in scores]))
    assert statistics.median(single)[0] == pytest.approx(np.median([task.mean() for task in scores]))
    assert statistics.optimality_gap(single)[0] == pytest.approx(np.mean([1 - min(x, 1) for x in pooled]))
    others = [random.normal(size=n) for n in (5, 3, 6)]
    naive = np.mean([mannwhitneyu(x, y).statistic / x.size / y.size for x, y in zip(scores, others, strict=True)])
    assert statistics.probability_of_improvement(scores, others).value == pytest.approx(naive)


def test_resampling_draws_within_each_task():
    scores = [np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0])]
    drawn = statistics.resample(scores, 200, seed=1)
    assert [set(np.unique(one)) for one in drawn] == [{1.0, 2.0, 3.0}, {10.0, 20.0}]
    assert [one.shape for one in drawn] == [(200, 3), (200, 2)]


def test_a_band_is_the_interquartile_mean_of_what_is_there():
    curves = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, np.nan], [3.0, 6.0, np.nan], [100.0, 8.0, np.nan]])
    centre, low, high = statistics.band(curves)
    assert centre == pytest.approx([trim_mean(curves[:, 0], 0.25), trim_mean(curves[:, 1], 0.25), 3.0])
    assert (low <= centre).all()
    assert (centre <= high).all()
    assert low[2] == high[2] == 3.0
    alone = statistics.band(curves[:1])
    assert all((part == curves[0]).all() for part in alone)


def test_the_same_numbers_every_time():
    scores = [np.arange(5.0)]
    assert statistics.estimate(scores, statistics.mean) == statistics.estimate(scores, statistics.mean)
