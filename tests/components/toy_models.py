"""Models of toy worlds that are known exactly, for planners and diagnostics."""

import torch

GAIN, PRICE = 0.5, 0.1


class LinearWorld:
    """x' = x + GAIN * u in each dimension; the reward is -(x'^2 + PRICE * u^2), summed. Nothing ever ends."""

    def imagine_step(self, latent, action):
        return {"x": latent["x"] + GAIN * action, "u": action}

    def predict_reward(self, latent):
        return -(latent["x"].square() + PRICE * latent["u"].square()).sum(-1)

    def predict_continue(self, latent):
        return torch.ones(len(latent["x"]))


def best_controls(x, horizon):
    """The optimal sequence [H, D] from x [D], in closed form: the cost is quadratic in all controls together."""
    reach = GAIN * torch.tril(torch.ones(horizon, horizon, dtype=torch.float64))
    hessian = reach.T @ reach + PRICE * torch.eye(horizon, dtype=torch.float64)
    return torch.stack([torch.linalg.solve(hessian, -(reach.T @ each.expand(horizon))) for each in x.double()], -1)


class Maze:
    """Rewards of every sequence of choices are drawn once: a tree whose nodes are numbered breadth first."""

    def __init__(self, choices, depth, seed=0):
        nodes = sum(choices**level for level in range(depth + 1))
        self.choices = choices
        self.reward = torch.randn(nodes, generator=torch.Generator().manual_seed(seed))
        self.goes_on = torch.rand(nodes, generator=torch.Generator().manual_seed(seed + 1))

    def imagine_step(self, latent, action):
        return {"node": latent["node"] * self.choices + 1 + action.argmax(-1)}

    def predict_reward(self, latent):
        return self.reward[latent["node"]]

    def predict_continue(self, latent):
        return self.goes_on[latent["node"]]
