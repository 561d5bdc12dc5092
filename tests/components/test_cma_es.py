"""CMA-ES against pycma and against the tutorial's constants, what it finds, and that its state is all of it."""

import json

import numpy as np
import pytest

from paddock.components.controllers.cma_es import CMAES, CMAESConfig
from paddock.core.trees import load_tree, save_tree

TARGET = "paddock.components.controllers.cma_es.CMAES"


def search(size=10, population=12, covariance="full", std=0.3, seed=1):
    config = CMAESConfig(_target_=TARGET, population=population, covariance=covariance, std=std)
    return CMAES(config, np.linspace(-1, 1, size), seed=seed)


def ellipsoid(x):
    scales = 10 ** (2 * np.arange(x.shape[-1]) / (x.shape[-1] - 1))
    return -(scales * x**2).sum(-1)


SYMBOLS = ("mu_eff", "c_1", "c_mu", "c_sigma", "d_sigma", "c_c", "expected_norm")
RATES = {
    (867, 64): (17.62, 2.653e-6, 4.152e-5, 0.0221, 1.0221, 0.00462, 29.436),
    (98, 24): (7.026, 2.03e-4, 1.03e-3, 0.0820, 1.0820, 0.0399, 9.874),
}


@pytest.mark.parametrize("sizes", RATES)
def test_cma_es_has_the_constants_of_the_tutorial(sizes):
    assert search(*sizes).rates == pytest.approx(dict(zip(SYMBOLS, RATES[sizes], strict=True)), rel=3e-3)


def test_separable_cma_es_learns_variances_faster_by_a_third_of_the_dimension():
    full, diagonal = search(100, 20).rates, search(100, 20, "diagonal").rates
    assert diagonal["c_1"] == pytest.approx(full["c_1"] * 34)
    assert diagonal["c_mu"] == pytest.approx(full["c_mu"] * 34)


def test_cma_es_updates_are_those_of_pycma():
    """Both are told the same candidates for thirty generations; pycma is given our rates, which are the tutorial's."""
    cma = pytest.importorskip("cma")
    ours = search()
    options = {
        "popsize": ours.population,
        "CMA_active": False,
        "AdaptSigma": cma.sigma_adaptation.CMAAdaptSigmaCSA,
        "updatecovwait": 0,
        "verbose": -9,
        "seed": 1,
    }
    theirs = cma.CMAEvolutionStrategy(ours.mean.copy(), ours.sigma, options)
    rates = [ours.rates[name] for name in ("c_1", "c_mu", "c_c")]
    theirs.sp.c1, theirs.sp.cmu, theirs.sp.cc = rates
    theirs.sm.parameters = lambda *_, **__: dict(zip(("c1", "cmu"), rates, strict=False))
    theirs.adapt_sigma.cs, theirs.adapt_sigma.damps = ours.rates["c_sigma"], ours.rates["d_sigma"]
    ours._C = np.array(theirs.sm.C)  # Theirs begins a little off the unit matrix.
    values, ours._B = np.linalg.eigh(ours._C)
    ours._D = np.sqrt(values)
    for _ in range(30):
        asked = np.array(theirs.ask())
        ours.ask()  # Decomposes the covariance, as theirs did.
        ours._drawn = (asked - ours.mean) / ours.sigma
        fitness = ellipsoid(asked)
        ours.tell(fitness)
        theirs.tell(list(asked), list(-fitness))
        assert ours.mean == pytest.approx(theirs.mean, rel=1e-9, abs=1e-12)
        assert ours.sigma == pytest.approx(theirs.sigma, rel=1e-9)
        assert ours._p_c == pytest.approx(theirs.pc, rel=1e-9, abs=1e-12)
        assert ours.covariance == pytest.approx(np.array(theirs.sm.C), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_cma_es_update_is_the_naive_one(covariance):
    """A generation written out number by number."""
    ours = search(4, 6, covariance)
    for _ in range(5):
        mean, sigma, C = ours.mean.copy(), ours.sigma, np.array(ours.covariance)
        p_sigma, p_c, rates = ours._p_sigma.copy(), ours._p_c.copy(), ours.rates
        x = ours.ask()
        fitness = ellipsoid(x)
        ours.tell(fitness)
        order = sorted(range(6), key=lambda k: -fitness[k])[:3]
        raw = [np.log(3.5) - np.log(rank + 1) for rank in range(3)]
        weights = [one / sum(raw) for one in raw]
        y = [(x[k] - mean) / sigma for k in order]
        step = sum(w * one for w, one in zip(weights, y, strict=True))
        matrix = C if covariance == "full" else np.diag(C)
        values, vectors = np.linalg.eigh(matrix)
        root = vectors @ np.diag(values**-0.5) @ vectors.T
        cs, cc, mu = rates["c_sigma"], rates["c_c"], rates["mu_eff"]
        p_sigma = (1 - cs) * p_sigma + np.sqrt(cs * (2 - cs) * mu) * (root @ step)
        assert ours._p_sigma == pytest.approx(p_sigma, rel=1e-6, abs=1e-12)
        length = np.linalg.norm(p_sigma)
        h = float(length / np.sqrt(1 - (1 - cs) ** (2 * ours.generation)) < (1.4 + 2 / 5) * rates["expected_norm"])
        p_c = (1 - cc) * p_c + h * np.sqrt(cc * (2 - cc) * mu) * step
        spread = sum(w * np.outer(one, one) for w, one in zip(weights, y, strict=True))
        keep = 1 - rates["c_1"] * (1 - (1 - h) * cc * (2 - cc)) - rates["c_mu"]
        expected = keep * matrix + rates["c_1"] * np.outer(p_c, p_c) + rates["c_mu"] * spread
        expected = expected if covariance == "full" else np.diag(expected)
        assert ours.covariance == pytest.approx(expected, rel=1e-6, abs=1e-12)
        assert ours.mean == pytest.approx(mean + sigma * step)
        assert ours.sigma == pytest.approx(
            sigma * np.exp(cs / rates["d_sigma"] * (length / rates["expected_norm"] - 1))
        )


@pytest.mark.parametrize(("covariance", "generations"), [("none", 300), ("diagonal", 200), ("full", 200)])
def test_cma_es_finds_the_optimum(covariance, generations):
    found = search(covariance=covariance)
    begun = ellipsoid(found.mean)
    for _ in range(generations):
        found.tell(ellipsoid(found.ask()))
    assert ellipsoid(found.mean) > (0.01 if covariance == "none" else 1e-8) * begun


@pytest.mark.parametrize("covariance", ["none", "diagonal", "full"])
def test_cma_es_goes_on_to_the_bit_from_its_saved_state(covariance, tmp_path):
    whole = search(covariance=covariance)
    for _ in range(7):
        whole.tell(ellipsoid(whole.ask()))
    asked = whole.ask()  # Also between asking and telling.
    save_tree(tmp_path, "state", whole.get_state())
    resumed = search(covariance=covariance, seed=99)
    resumed.set_state(load_tree(tmp_path, "state"))
    for one in (whole, resumed):
        one.tell(ellipsoid(asked))
        for _ in range(10):
            one.tell(ellipsoid(one.ask()))
    assert np.array_equal(whole.mean, resumed.mean)
    assert whole.sigma == resumed.sigma
    assert np.array_equal(whole.covariance, resumed.covariance)
    assert json.dumps(whole.get_state()["random"]) == json.dumps(resumed.get_state()["random"])


def test_cma_es_ranks_what_is_not_a_number_last_and_survives_a_flat_generation():
    found = search(covariance="diagonal")
    fitness = ellipsoid(found.ask())
    fitness[3] = np.nan
    found.tell(fitness)
    found.ask()
    found.tell(np.zeros(found.population))
    assert np.isfinite(found.mean).all()
    assert np.isfinite(found.sigma)
