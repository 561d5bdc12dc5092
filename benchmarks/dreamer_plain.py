"""A plain DreamerV3 update in torch, as one would write it down: everything inside the time loop, distribution objects,
one module after the other. The peer that benchmarks/dreamer_throughput.py measures Paddock's against."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Independent, Normal, OneHotCategoricalStraightThrough, kl_divergence

DETER, HIDDEN, GROUPS, CLASSES, UNITS, BINS = 512, 64, 32, 4, 64, 255
FEATURES = DETER + GROUPS * CLASSES


def perceptron(inputs: int, layers: int, outputs: int) -> nn.Sequential:
    parts: list[nn.Module] = []
    for _ in range(layers):
        parts += [nn.Linear(inputs, UNITS), nn.LayerNorm(UNITS), nn.SiLU()]
        inputs = UNITS
    return nn.Sequential(*parts, nn.Linear(inputs, outputs))


def choices(logits: Tensor) -> Independent:
    probabilities = 0.99 * logits.unflatten(-1, (GROUPS, CLASSES)).softmax(-1) + 0.01 / CLASSES
    return Independent(OneHotCategoricalStraightThrough(probs=probabilities), 1)


class BlockMemory(nn.Module):
    """The block-diagonal recurrent unit with eight blocks, its inputs concatenated for each of them."""

    def __init__(self, action: int) -> None:
        super().__init__()
        self.readers = nn.ModuleList(
            nn.Sequential(nn.Linear(size, HIDDEN), nn.LayerNorm(HIDDEN), nn.SiLU())
            for size in (DETER, GROUPS * CLASSES, action)
        )
        self.hidden = nn.Parameter(torch.randn(8, DETER // 8 + 3 * HIDDEN, DETER // 8) * 0.05)
        self.norm = nn.LayerNorm(DETER)
        self.gates = nn.Parameter(torch.randn(8, DETER // 8, 3 * DETER // 8) * 0.05)

    def forward(self, deter: Tensor, stoch: Tensor, action: Tensor) -> Tensor:
        shared = torch.cat([read(part) for read, part in zip(self.readers, (deter, stoch, action), strict=True)], -1)
        blocks = torch.cat([deter.unflatten(-1, (8, -1)), shared.unsqueeze(1).expand(-1, 8, -1)], -1)
        hidden = nn.functional.silu(self.norm(torch.einsum("bgi,gio->bgo", blocks, self.hidden).flatten(1)))
        gates = torch.einsum("bgi,gio->bgo", hidden.unflatten(-1, (8, -1)), self.gates)
        reset, candidate, update = (part.flatten(1) for part in gates.chunk(3, -1))
        update = torch.sigmoid(update - 1)
        return update * torch.tanh(torch.sigmoid(reset) * candidate) + (1 - update) * deter


class PlainDreamer:
    """World model, policy and value of the 1M size for vectors, and one update of all of them."""

    def __init__(self, observation: int, action: int) -> None:
        self.encoder = perceptron(observation, 3, UNITS)
        self.memory = BlockMemory(action)
        self.prior = perceptron(DETER, 2, GROUPS * CLASSES)
        self.posterior = perceptron(DETER + UNITS, 1, GROUPS * CLASSES)
        self.decoder = perceptron(FEATURES, 3, observation)
        self.reward, self.goes_on = perceptron(FEATURES, 1, BINS), perceptron(FEATURES, 1, 1)
        self.policy, self.value = perceptron(FEATURES, 3, 2 * action), perceptron(FEATURES, 3, BINS)
        self.slow = perceptron(FEATURES, 3, BINS)
        model = [self.encoder, self.memory, self.prior, self.posterior, self.decoder, self.reward, self.goes_on]
        self.optimizers = {
            "model": torch.optim.Adam([p for part in model for p in part.parameters()], 4e-5),
            "policy": torch.optim.Adam(self.policy.parameters(), 4e-5),
            "value": torch.optim.Adam(self.value.parameters(), 4e-5),
        }
        half = torch.linspace(0, 20, BINS // 2 + 1).expm1()
        self.bins = torch.cat([-half[1:].flip(0), half])

    def update(self, observation: Tensor, action: Tensor, reward: Tensor, goes_on: Tensor, is_first: Tensor) -> None:
        """All [B, T, ...]."""
        batch, length = reward.shape
        deter, stoch = torch.zeros(batch, DETER), torch.zeros(batch, GROUPS * CLASSES)
        states, divergence = [], torch.zeros(())
        for t in range(length):
            keep = 1 - is_first[:, t, None]
            deter = self.memory(deter * keep, stoch * keep, action[:, t] * keep)
            seen = self.encoder(observation[:, t].sign() * observation[:, t].abs().log1p())
            prior, posterior = choices(self.prior(deter)), choices(self.posterior(torch.cat([deter, seen], -1)))
            stoch = posterior.rsample().flatten(1)
            frozen = choices(self.posterior(torch.cat([deter, seen], -1)).detach())
            fixed = choices(self.prior(deter).detach())
            divergence = divergence + kl_divergence(frozen, prior).clamp(min=1).mean()
            divergence = divergence + 0.1 * kl_divergence(posterior, fixed).clamp(min=1).mean()
            states.append(torch.cat([deter, stoch], -1))
        features = torch.stack(states, 1)
        target = observation.sign() * observation.abs().log1p()
        loss = divergence / length - Independent(Normal(self.decoder(features), 1), 1).log_prob(target).mean()
        loss = loss + self._two_hot_loss(self.reward(features), reward).mean()
        loss = loss - Bernoulli(logits=self.goes_on(features).squeeze(-1)).log_prob(goes_on).mean()
        self._step("model", loss)
        self._learn_in_dreams(features.detach().flatten(0, 1))

    def _learn_in_dreams(self, features: Tensor) -> None:
        deter, stoch = features.split([DETER, GROUPS * CLASSES], -1)
        states, log_probs, entropies = [features], [], []
        for _ in range(15):
            mean, raw = self.policy(states[-1].detach()).chunk(2, -1)
            distribution = Independent(Normal(mean.tanh(), 0.9 * torch.sigmoid(raw + 2) + 0.1), 1)
            action = distribution.sample()
            log_probs.append(distribution.log_prob(action))
            entropies.append(distribution.entropy())
            deter = self.memory(deter, stoch, action)
            stoch = choices(self.prior(deter)).rsample().flatten(1)
            states.append(torch.cat([deter, stoch], -1).detach())
        dream = torch.stack(states)
        with torch.no_grad():
            reward, goes_on = self._mean(self.reward(dream)), torch.sigmoid(self.goes_on(dream).squeeze(-1)) * 0.997
            value, slow = self._mean(self.value(dream)), self._mean(self.slow(dream))
            returns, running = [], value[-1]
            for t in reversed(range(15)):
                running = reward[t + 1] + goes_on[t + 1] * (0.05 * value[t + 1] + 0.95 * running)
                returns.append(running)
            target = torch.stack(returns[::-1])
            weight = torch.cumprod(goes_on, 0)[:-1]
        gain = torch.stack(log_probs) * (target - value[:-1]) + 3e-4 * torch.stack(entropies)
        self._step("policy", -(weight * gain).mean())
        outputs = self.value(dream[:-1])
        loss = self._two_hot_loss(outputs, target) + self._two_hot_loss(outputs, slow[:-1])
        self._step("value", (weight * loss).mean())
        with torch.no_grad():
            for mine, other in zip(self.slow.parameters(), self.value.parameters(), strict=True):
                mine.lerp_(other, 0.02)

    def _mean(self, logits: Tensor) -> Tensor:
        return logits.softmax(-1) @ self.bins

    def _two_hot_loss(self, logits: Tensor, numbers: Tensor) -> Tensor:
        numbers = numbers.clamp(self.bins[0], self.bins[-1])
        above = torch.searchsorted(self.bins, numbers).clamp(1, BINS - 1)
        weight = (numbers - self.bins[above - 1]) / (self.bins[above] - self.bins[above - 1])
        dense = nn.functional.one_hot(above - 1, BINS) * (1 - weight)[..., None]
        dense = dense + nn.functional.one_hot(above, BINS) * weight[..., None]
        return -(dense * logits.log_softmax(-1)).sum(-1)

    def _step(self, name: str, loss: Tensor) -> None:
        optimizer = self.optimizers[name]
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1000.0)
        optimizer.step()
