"""Measuring the delays of an interface from outside: send an action, and see when the sensors show it.

The interface is polled far more often than in training, in its own thread, with the default action until nothing
in its observations moves any more than before; then another action goes out, at a random moment.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.core.errors import PaddockError
from paddock.environments.realtime.clock import SECOND
from paddock.environments.realtime.loop import RealTimeLoop

POLL = 0.002  # s
BASELINE = 0.4  # s under the default action that show what moves anyway
AFTER = 0.4  # s that are watched after the effect, for the rate of the frames
MARGIN = 3.0  # times what moves anyway
PATIENCE = 3.0  # s


@dataclass(frozen=True)
class MeasuredDelays:
    """s. frame: between two new observations. loop: from an action to the observation that shows it, mean.

    action, jitter: until an action takes effect, and how much that varies. observation: age of an observation as
    the interface itself says (`info["observation_age"]`, s), 0 where it does not: the whole delay then counts as the
    action's. drop: share of the frames that did not come.
    """

    trials: int
    frame: float
    loop: float
    action: float
    jitter: float
    observation: float
    drop: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def steps(self, time_step: float) -> int:
        """Actions that an observation has to contain: those whose effect cannot be seen in it."""
        return math.ceil((self.action + self.jitter + self.observation) / time_step - 1e-6) + 1


@dataclass
class _Trial:
    seen: float  # s from the action to the first observation that shows it
    age: float  # s of that observation, as the interface says
    intervals: list[float]


class Probe:
    """Looks at one loop's interface. action: what is sent; by default the highest value of the first number."""

    def __init__(self, loop: RealTimeLoop, *, action: NDArray[Any] | None = None, seed: int = 0) -> None:
        self._loop, self._clock, self._random = loop, loop.clock, np.random.default_rng(seed)
        self._action = loop.default_action.copy()
        if action is None:
            high = float(loop.action_space.high.ravel()[0])
            self._action.ravel()[0] = high if np.isfinite(high) else 1.0
        else:
            self._action[...] = action

    def measure(self, trials: int = 20, options: dict[str, Any] | None = None) -> MeasuredDelays:
        """So many actions, each in an episode of its own."""
        found = [self._loop.call("probe", lambda: self._trial(options)) for _ in range(trials)]
        seen, ages = np.array([one.seen for one in found]), np.array([one.age for one in found])
        intervals = np.array([interval for one in found for interval in one.intervals])
        frame = float(np.median(intervals)) if len(intervals) else POLL
        is_framed = frame > 2 * POLL  # Else every look at the sensors gives something new.
        frames = np.maximum(np.round(intervals / frame), 1.0) if is_framed else np.ones_like(intervals)
        arrived = seen - ages  # when the observation that shows it was taken: up to a frame after the effect
        spread = float(arrived.max() - arrived.min()) - frame * (trials - 1) / (trials + 1)
        return MeasuredDelays(
            trials=trials,
            frame=round(frame, 4),
            loop=round(float(seen.mean()), 4),
            action=round(max(float(arrived.min()) - POLL / 2, 0.0), 4),
            jitter=round(max(spread, 0.0), 4) if spread > 2 * POLL else 0.0,
            observation=round(max(float(np.median(ages)) - POLL / 2, 0.0), 4),
            drop=round(float((frames - 1.0).sum() / max(frames.sum(), 1.0)), 4),
        )

    def _trial(self, options: dict[str, Any] | None) -> _Trial:
        interface, clock = self._loop.interface, self._clock
        interface.reset(seed=int(self._random.integers(2**31)), options=options)
        interface.send_control(self._loop.default_action)
        before, _ = self._poll()
        usual = np.zeros_like(before)
        end = clock.now() + (BASELINE + self._random.uniform(0.0, 0.1)) * SECOND
        while clock.now() < end:
            following, _ = self._poll()
            usual = np.maximum(usual, np.abs(following - before))
            before = following
        sent = clock.now()
        interface.send_control(self._action)
        following, age = before, 0.0
        while not (np.abs(following - before) > MARGIN * usual + 1e-6).any():
            if clock.now() - sent > PATIENCE * SECOND:
                raise PaddockError(
                    f"no observation showed the action {self._action.tolist()} within {PATIENCE:g} s. Give another one "
                    "(--action), and see that the robot or the game is ready to react."
                )
            before = following
            following, age = self._poll()
        seen = (clock.now() - sent) / SECOND
        intervals, last, changed = [], following, clock.now()
        end = changed + AFTER * SECOND
        while clock.now() < end:
            following, _ = self._poll()
            if (following != last).any():
                intervals.append((clock.now() - changed) / SECOND)
                last, changed = following, clock.now()
        interface.send_control(self._loop.default_action)
        return _Trial(seen, age, intervals)

    def _poll(self) -> tuple[NDArray[np.float64], float]:
        self._clock.sleep(POLL)
        entries, _, _, info = self._loop.interface.get_obs_rew_terminated_info()
        flat = np.concatenate([np.asarray(entry, np.float64).ravel() for entry in entries])
        return flat, float(dict(info).get("observation_age", 0.0))
