"""The stochastic part of a latent state, on raw network outputs: drawing it, and how far two of them are apart.

No distribution objects: these run inside time loops. Noise is drawn beforehand, for all steps in one go.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

MIN_STD = 0.1


class CategoricalLatent:
    """`groups` independent choices among `classes`, one-hot; raw outputs are logits of the same layout.

    All groups' first classes come first, then their second ones: the sums over the few classes then run over many
    groups side by side, which is several times faster than the other way round.
    `unimix` of every probability is uniform, so that no choice ever becomes impossible (arXiv:2301.04104).
    """

    def __init__(self, groups: int, classes: int, unimix: float) -> None:
        self.classes = classes
        self.unimix = unimix
        self.size = self.outputs = groups * classes

    def noise(self, *shape: int, device: torch.device) -> Tensor:
        """For `draw`: exponential draws, by which the largest ratio is a sample (the Gumbel-max trick)."""
        return torch.rand(*shape, self.size, device=device).log_().neg_()  # Much faster than `exponential_`.

    def draw(self, outputs: Tensor, noise: Tensor) -> Tensor:
        """[..., size] one-hot, with the probabilities' gradient (straight through)."""
        probabilities = self._probabilities(outputs)
        ratio = probabilities.detach() / noise.unflatten(-1, (self.classes, -1))
        drawn = (ratio == ratio.amax(-2, keepdim=True)).to(outputs.dtype)
        if probabilities.requires_grad:
            drawn = drawn + (probabilities - probabilities.detach())
        return drawn.flatten(-2)

    def kl(self, first: Tensor, second: Tensor) -> Tensor:
        """[...]: Kullback-Leibler divergence of the first from the second, both raw outputs [..., outputs]."""
        log_first, log_second = self._probabilities(first).log(), self._probabilities(second).log()
        return (log_first.exp() * (log_first - log_second)).sum((-2, -1))

    def _probabilities(self, outputs: Tensor) -> Tensor:
        plain = outputs.unflatten(-1, (self.classes, -1)).softmax(-2)
        return (1 - self.unimix) * plain + self.unimix / self.classes


class GaussianLatent:
    """`size` independent normal numbers; raw outputs [..., 2 * size] are means and what becomes deviations."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.outputs = 2 * size

    def noise(self, *shape: int, device: torch.device) -> Tensor:
        return torch.randn(*shape, self.size, device=device)

    def draw(self, outputs: Tensor, noise: Tensor) -> Tensor:
        """[..., size], with the gradient of mean and std."""
        mean, std = self._moments(outputs)
        return torch.addcmul(mean, std, noise)

    def kl(self, first: Tensor, second: Tensor) -> Tensor:
        """[...]: Kullback-Leibler divergence of the first from the second, both raw outputs [..., outputs]."""
        (mean, std), (other_mean, other_std) = self._moments(first), self._moments(second)
        ratio = std / other_std
        distance = (mean - other_mean) / other_std
        return (0.5 * (ratio.square() + distance.square() - 1) - ratio.log()).sum(-1)

    def _moments(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        mean, raw = outputs.chunk(2, -1)
        return mean, functional.softplus(raw) + MIN_STD
