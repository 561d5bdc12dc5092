"""From an agent's action to the simulator's (steer, throttle): three layouts, each batched."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from paddock.racing.env.config import RacingConfig

Values = NDArray[np.float32]
LOWEST, HIGHEST = np.float32(-1.0), np.float32(1.0)


class ActionSet:
    """One layout of actions. `decode` gives float32 [N, 2]; `record` what the agent sees as its last action [N, A]."""

    space: spaces.Box | spaces.Discrete
    size: int  # numbers in a recorded action

    def decode(self, action: Any) -> Values:
        """Steer and throttle in [-1, 1], float32 [N, 2]."""
        raise NotImplementedError

    def record(self, action: Any, decoded: Values) -> Values:
        """The action as it is shown again in observations, float32 [N, size] within [-1, 1]."""
        return decoded

    def shift(self, last_actions: Values, recorded: Values) -> None:
        """Put recorded actions [N, size] in front of the last ones [N, L, size], newest first, in place."""
        if last_actions.shape[1] == 0:
            return
        last_actions[:, 1:] = last_actions[:, :-1]
        last_actions[:, 0] = recorded

    def encode(self, decoded: Values) -> Any:
        """The action nearest to steer and throttle [N, 2]: what a demonstration would have chosen."""
        raise NotImplementedError


class SteerThrottle(ActionSet):
    """[steer, throttle], both in [-1, 1]; a negative throttle brakes."""

    def __init__(self) -> None:
        self.space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.size = 2

    def decode(self, action: Any) -> Values:
        given = np.asarray(action, dtype=np.float32)
        return np.minimum(np.maximum(given, LOWEST), HIGHEST)  # a fifth of the time of np.clip for few cars

    def encode(self, decoded: Values) -> Values:
        return np.asarray(decoded, dtype=np.float32)


class GasBrakeSteer(ActionSet):
    """[gas, brake, steer], TrackMania's layout: gas and brake in [0, 1], steer in [-1, 1] with right positive."""

    def __init__(self) -> None:
        self.low, self.high = np.array([0.0, 0.0, -1.0], dtype=np.float32), np.ones(3, dtype=np.float32)
        self.space = spaces.Box(self.low, self.high, (3,), np.float32)
        self.size = 3

    def decode(self, action: Any) -> Values:
        clipped = np.clip(np.asarray(action, dtype=np.float32), self.low, self.high)
        return np.stack([-clipped[:, 2], clipped[:, 0] - clipped[:, 1]], axis=1)

    def record(self, action: Any, decoded: Values) -> Values:
        return np.clip(np.asarray(action, dtype=np.float32), self.low, self.high)

    def encode(self, decoded: Values) -> Values:
        steer, throttle = decoded[:, 0], decoded[:, 1]
        return np.stack([np.maximum(throttle, 0.0), np.maximum(-throttle, 0.0), -steer], axis=1).astype(np.float32)


class DiscreteActions(ActionSet):
    """Every steer with every throttle: action `i` is steer `i // T`, throttle `i % T`."""

    def __init__(self, steer: list[float], throttle: list[float]) -> None:
        self.table = np.array([[s, t] for s in steer for t in throttle], dtype=np.float32)
        self.space = spaces.Discrete(len(self.table))
        self.size = 2

    def decode(self, action: Any) -> Values:
        return self.table[np.asarray(action, dtype=np.int64)]

    def encode(self, decoded: Values) -> NDArray[np.int64]:
        return np.square(decoded[:, None, :] - self.table).sum(axis=2).argmin(axis=1)


def build_actions(config: RacingConfig) -> ActionSet:
    """The layout that `config` names."""
    if config.action == "discrete":
        return DiscreteActions(config.discrete_steer, config.discrete_throttle)
    return SteerThrottle() if config.action == "steer_throttle" else GasBrakeSteer()
