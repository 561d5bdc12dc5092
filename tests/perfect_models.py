"""A world model of the task Reach that is exactly right, and one that is not."""

import torch
from torch import nn

from paddock.config.schema import TargetSchema


class PerfectConfig(TargetSchema):
    """`drift` is what the model wrongly adds to every step."""

    drift: float = 0.0


class PerfectReach(nn.Module):
    """Position and target, moved as the task does; nothing of it is learned."""

    def __init__(self, config: PerfectConfig, spec) -> None:
        super().__init__()
        self.config = config

    def initial(self, batch):
        return {"seen": torch.zeros(batch, 2)}

    def observe(self, latent, action, observation, is_first):
        return {"seen": observation["observation"]}

    def imagine_step(self, latent, action):
        place, target = latent["seen"].unbind(-1)
        place = (place + 0.4 * action.squeeze(-1) + self.config.drift).clamp(-2, 2)
        return {"seen": torch.stack([place, target], -1)}

    def features(self, latent):
        return latent["seen"]

    def predict_reward(self, latent):
        return -(latent["seen"][..., 0] - latent["seen"][..., 1]).abs()

    def predict_continue(self, latent):
        return torch.ones_like(latent["seen"][..., 0])

    def decode(self, latent):
        return {"observation": latent["seen"]}
