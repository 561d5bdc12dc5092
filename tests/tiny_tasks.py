"""A task that is learned in seconds: steer a point to a target, and stay there."""

import gymnasium
import numpy as np

LENGTH = 10


class Reach(gymnasium.Env):
    """Position and target on a line; each step moves by up to 0.4. The reward is minus the distance.

    Best is about -0.5 an episode on average (-1.3 with three choices), a random walk about -8. Episodes end by
    truncation, never by termination.
    """

    def __init__(self, discrete=False, render_mode=None):
        self.observation_space = gymnasium.spaces.Box(-4, 4, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(3) if discrete else gymnasium.spaces.Box(-1, 1, (1,), np.float32)
        self.moves = np.array([-0.4, 0.0, 0.4]) if discrete else None
        self.state = np.zeros(2)
        self.time = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.time = self.np_random.uniform(-1, 1, 2), 0
        return self._seen(), {}

    def step(self, action):
        move = 0.4 * float(action[0]) if self.moves is None else self.moves[action]
        self.state[0] = np.clip(self.state[0] + move, -2, 2)
        self.time += 1
        return self._seen(), -abs(self.state[0] - self.state[1]), False, self.time == LENGTH, {}

    def get_state(self):
        return {"state": self.state.copy(), "time": self.time}

    def set_state(self, state):
        self.state, self.time = state["state"].copy(), state["time"]

    def _seen(self):
        return np.array([self.state[0], self.state[1]], np.float32)


for name, arguments in {"Reach": {}, "ReachByChoice": {"discrete": True}}.items():
    if f"{name}-v0" not in gymnasium.registry:
        gymnasium.register(f"{name}-v0", entry_point=Reach, kwargs=arguments)
