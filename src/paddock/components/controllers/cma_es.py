"""The covariance matrix adaptation evolution strategy (N. Hansen, arXiv:1604.00772), asked for candidates and told how
well they did. Everything that changes is arrays and one generator of its own, so that a resumed search is the same to
the bit.

Shapes: P candidates, M parents, W numbers in a candidate. Symbols are the tutorial's.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import linalg

from paddock.config.schema import TargetSchema

Array = NDArray[np.float64]
Covariance = Literal["none", "diagonal", "full"]
MAX_EXPONENT = 1.0  # of a generation's change of sigma


class CMAESConfig(TargetSchema):
    """Options of CMA-ES. std: the first step size; population: null is 4 + 3 ln W.

    covariance: `full` adapts the whole matrix, `diagonal` one variance for each number (separable CMA-ES, whose rates
    are (W + 2) / 3 times larger), `none` the step size alone.
    """

    population: int | None = Field(default=None, ge=4)
    std: float = Field(default=0.1, gt=0)
    covariance: Covariance = "diagonal"


class CMAES:
    """`ask` for candidates [P, W], then `tell` their fitness [P]; higher is better."""

    def __init__(self, config: CMAESConfig, mean: Array, *, seed: int) -> None:
        self.config = config
        self.size = len(mean)
        self.population = config.population or 4 + int(3 * math.log(self.size))
        self._set_rates()
        self.mean = np.array(mean, np.float64)
        self.sigma = config.std
        self.generation = 0
        self._random = np.random.default_rng(seed)
        self._p_sigma, self._p_c = np.zeros(self.size), np.zeros(self.size)
        self._drawn = np.zeros((0, self.size))  # y of the candidates that were asked for last
        self._decomposed = 0  # the generation of the eigendecomposition
        is_full = config.covariance == "full"
        self._C: Array = np.eye(self.size) if is_full else np.ones(self.size)
        self._B: Array = np.eye(self.size) if is_full else np.zeros(0)
        self._D = np.ones(self.size)

    def ask(self) -> Array:
        """Candidates [P, W] of a new generation."""
        z = self._random.standard_normal((self.population, self.size))
        if self.config.covariance == "full":
            self._decompose()
            self._drawn = (z * self._D) @ self._B.T
        else:
            self._drawn = z * self._D
        return self.mean + self.sigma * self._drawn

    def tell(self, fitness: Array) -> None:
        """Move towards the better half; what is not a number ranks last."""
        assert fitness.shape == (self.population,), f"{fitness.shape} fitnesses for {self.population} candidates"
        worst_last = np.where(np.isnan(fitness), -np.inf, fitness)
        # Equal ones keep the order in which they were drawn.
        order = np.argsort(-worst_last, kind="stable")[: len(self._weights)]
        y = self._drawn[order]  # [M, W]
        step = self._weights @ y
        self.generation += 1

        # Step-size control: Eq. 43 and 44
        self.mean = self.mean + self.sigma * step
        whitened = self._whitened(step)
        self._p_sigma = (1 - self._c_sigma) * self._p_sigma + self._path_sigma * whitened
        length = float(np.linalg.norm(self._p_sigma))
        expected = self._expected_norm
        grown = math.sqrt(1 - (1 - self._c_sigma) ** (2 * self.generation))
        h_sigma = float(length / grown < (1.4 + 2 / (self.size + 1)) * expected)

        # Covariance: Eq. 45 and 47, without negative weights
        if self.config.covariance != "none":
            self._p_c = (1 - self._c_c) * self._p_c + h_sigma * self._path_c * step
            forgotten = (1 - h_sigma) * self._c_c * (2 - self._c_c)
            keep = 1 - self._c_1 * (1 - forgotten) - self._c_mu
            self._adapt(keep, y)
        change = (self._c_sigma / self._d_sigma) * (length / expected - 1)
        self.sigma *= math.exp(min(change, MAX_EXPONENT))

    def get_state(self) -> dict[str, Any]:
        """Everything that changes."""
        return {
            "mean": self.mean.copy(),
            "sigma": self.sigma,
            "generation": self.generation,
            "decomposed": self._decomposed,
            "p_sigma": self._p_sigma.copy(),
            "p_c": self._p_c.copy(),
            "C": self._C.copy(),
            "B": self._B.copy(),
            "D": self._D.copy(),
            "drawn": self._drawn.copy(),
            "random": self._random.bit_generator.state,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Put back what `get_state` gave."""
        self.mean, self.sigma = np.array(state["mean"]), float(state["sigma"])
        self.generation, self._decomposed = int(state["generation"]), int(state["decomposed"])
        self._p_sigma, self._p_c = np.array(state["p_sigma"]), np.array(state["p_c"])
        self._C, self._B, self._D = (np.array(state[name]) for name in ("C", "B", "D"))
        self._drawn = np.array(state["drawn"])
        self._random.bit_generator.state = state["random"]

    @property
    def covariance(self) -> Array:
        """C: the matrix [W, W], or its diagonal [W]."""
        return self._C

    @property
    def rates(self) -> dict[str, float]:
        """The constants by their symbols."""
        return {
            "mu_eff": self._mu_eff,
            "c_1": self._c_1,
            "c_mu": self._c_mu,
            "c_sigma": self._c_sigma,
            "d_sigma": self._d_sigma,
            "c_c": self._c_c,
            "expected_norm": self._expected_norm,
        }

    def _set_rates(self) -> None:
        """Table 1 of the tutorial, with weights of the better half alone."""
        n, mu = self.size, self.population // 2
        raw = math.log((self.population + 1) / 2) - np.log(np.arange(1, mu + 1))
        self._weights: Array = raw / raw.sum()
        self._mu_eff = mu_eff = float(1 / (self._weights**2).sum())
        self._c_sigma = (mu_eff + 2) / (n + mu_eff + 5)
        self._d_sigma = 1 + 2 * max(0.0, math.sqrt((mu_eff - 1) / (n + 1)) - 1) + self._c_sigma
        self._c_c = (4 + mu_eff / n) / (n + 4 + 2 * mu_eff / n)
        c_1 = 2 / ((n + 1.3) ** 2 + mu_eff)
        c_mu = min(1 - c_1, 2 * (mu_eff + 1 / mu_eff - 2) / ((n + 2) ** 2 + mu_eff))
        faster = (n + 2) / 3 if self.config.covariance == "diagonal" else 1.0
        self._c_1 = min(1.0, c_1 * faster)
        self._c_mu = min(1 - self._c_1, c_mu * faster)
        self._path_sigma = math.sqrt(self._c_sigma * (2 - self._c_sigma) * mu_eff)
        self._path_c = math.sqrt(self._c_c * (2 - self._c_c) * mu_eff)
        self._expected_norm = math.sqrt(2) * math.exp(math.lgamma((n + 1) / 2) - math.lgamma(n / 2))  # of a unit normal

    def _adapt(self, keep: float, y: Array) -> None:
        if self.config.covariance == "diagonal":
            self._C = keep * self._C + self._c_1 * self._p_c**2 + self._c_mu * (self._weights @ y**2)
            self._D = np.sqrt(self._C)
            return
        parents = y * np.sqrt(self._c_mu * self._weights)[:, None]
        path = math.sqrt(self._c_1) * self._p_c
        both = np.concatenate([parents, path[None]])
        self._C *= keep
        self._C += both.T @ both

    def _whitened(self, step: Array) -> Array:
        """C^(-1/2) times a step."""
        if self.config.covariance == "full":
            return self._B @ ((self._B.T @ step) / self._D)
        return step / self._D

    def _decompose(self) -> None:
        """C = B D^2 B^T anew, as often as keeps its cost in proportion to everything else's."""
        age = self.generation - self._decomposed
        if not self.generation or age <= 1 / (10 * self.size * (self._c_1 + self._c_mu)):
            return
        values, self._B = linalg.eigh(self._C, driver="evd", check_finite=False)
        self._D = np.sqrt(np.maximum(values, 1e-20))
        self._decomposed = self.generation
