"""SAC in the shape of TMRL's classes: the agent that `workflow=training_agent` runs unless another one is named, and an
example of an actor, an agent and a memory of one's own."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from paddock.components.actions import SquashedGaussian
from paddock.tmrl.shapes import TorchActorModule, TorchMemory, TrainingAgent


def size_of(observation_space: Any) -> int:
    return sum(int(np.prod(space.shape)) for space in observation_space)


def joined(obs: tuple[Tensor, ...]) -> Tensor:
    return torch.cat([part.float().flatten(1) for part in obs], -1)


class ExampleActor(TorchActorModule):
    """A squashed Gaussian over a perceptron."""

    def __init__(self, observation_space: Any, action_space: Any, hidden: int = 64) -> None:
        super().__init__(observation_space, action_space)
        actions = int(np.prod(action_space.shape))
        self.net = nn.Sequential(
            nn.Linear(size_of(observation_space), hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
        )
        self.mu_layer, self.log_std_layer = nn.Linear(hidden, actions), nn.Linear(hidden, actions)
        self.register_buffer("reach", torch.from_numpy((action_space.high - action_space.low) / 2))
        self.register_buffer("center", torch.from_numpy((action_space.high + action_space.low) / 2))

    def forward(self, obs: tuple[Tensor, ...]) -> SquashedGaussian:
        features = self.net(joined(obs))
        return SquashedGaussian(self.mu_layer(features), self.log_std_layer(features).clamp(-20, 2))

    def act(self, obs: Any, test: bool = False) -> np.ndarray:
        distribution = self(obs)
        action = distribution.mode() if test else distribution.sample()
        return (action * self.reach + self.center).squeeze(0).cpu().numpy()


class ExampleAgent(TrainingAgent):
    """Twin critics, their targets and a learned temperature."""

    def __init__(
        self, observation_space: Any, action_space: Any, device: str, *,
        hidden: int = 64, learning_rate: float = 1e-3, gamma: float = 0.99, polyak: float = 0.99, alpha: float = 0.2,
    ) -> None:  # fmt: skip
        super().__init__(observation_space, action_space, device)
        self.gamma, self.polyak = gamma, polyak
        actions = int(np.prod(action_space.shape))
        self.actor = ExampleActor(observation_space, action_space, hidden).to(device)
        inputs = size_of(observation_space) + actions
        self.critics = nn.ModuleList(self._critic(inputs, hidden) for _ in range(2)).to(device)
        self.targets = deepcopy(self.critics)
        self.log_alpha = torch.tensor(float(np.log(alpha)), device=device, requires_grad=True)
        self.target_entropy = -float(actions)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), learning_rate)
        self.critic_optimizer = torch.optim.Adam(self.critics.parameters(), learning_rate)
        self.alpha_optimizer = torch.optim.Adam([self.log_alpha], learning_rate)

    @staticmethod
    def _critic(inputs: int, hidden: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)
        )

    def train(self, batch: tuple[Any, ...]) -> dict[str, float]:
        previous, action, reward, following, terminated, _ = batch
        seen, next_seen = joined(previous), joined(following)
        scaled = ((action - self.actor.center) / self.actor.reach).flatten(1)
        alpha = self.log_alpha.detach().exp()
        with torch.no_grad():
            next_action, next_log_prob = self.actor(following).sample_with_log_prob(torch.randn_like(scaled))
            value = self._smaller(self.targets, next_seen, next_action) - alpha * next_log_prob
            target = reward + self.gamma * (1 - terminated) * value
        inputs = torch.cat([seen, scaled], -1)
        critic_loss = sum(functional.mse_loss(critic(inputs).squeeze(-1), target) for critic in self.critics)
        self._step(self.critic_optimizer, critic_loss)

        chosen, log_prob = self.actor(previous).sample_with_log_prob(torch.randn_like(scaled))
        actor_loss = (alpha * log_prob - self._smaller(self.critics, seen, chosen)).mean()
        self._step(self.actor_optimizer, actor_loss)
        self._step(self.alpha_optimizer, -self.log_alpha * (log_prob.detach().mean() + self.target_entropy))
        with torch.no_grad():
            for mine, theirs in zip(self.targets.parameters(), self.critics.parameters(), strict=True):
                mine.mul_(self.polyak).add_(theirs, alpha=1 - self.polyak)
        return {
            "loss_actor": float(actor_loss.detach()),
            "loss_critic": float(torch.as_tensor(critic_loss).detach()),
            "entropy_coef": float(alpha),
        }

    def get_actor(self) -> ExampleActor:
        return self.actor

    @staticmethod
    def _smaller(critics: nn.ModuleList, seen: Tensor, action: Tensor) -> Tensor:
        inputs = torch.cat([seen, action], -1)
        return torch.minimum(*(critic(inputs).squeeze(-1) for critic in critics))

    @staticmethod
    def _step(optimizer: torch.optim.Optimizer, loss: Any) -> None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class ExampleMemory(TorchMemory):
    """Samples of whole episodes in columns; a sample that begins an episode is no transition."""

    def append_buffer(self, buffer: Any) -> None:
        if not self.data:
            self.data = [[], [], [], [], [], []]
        actions, observations, rewards, ends, cuts, firsts = self.data
        for index, (action, observation, reward, terminated, truncated, _) in enumerate(buffer.memory):
            actions.append(action)
            observations.append(observation)
            rewards.append(reward)
            ends.append(terminated)
            cuts.append(truncated)
            firsts.append(index == 0)
        for column in self.data:
            del column[: max(len(column) - self.memory_size, 0)]

    def __len__(self) -> int:
        return max(len(self.data[0]) - 1, 0) if self.data else 0

    def get_transition(self, item: int) -> tuple[Any, ...]:
        actions, observations, rewards, ends, cuts, firsts = self.data
        now = item + 1
        if firsts[now]:  # The step before an episode's first sample is of another one.
            now = now + 1 if now + 1 < len(firsts) else now - 1
        return observations[now - 1], actions[now], rewards[now], observations[now], ends[now], cuts[now], {}
