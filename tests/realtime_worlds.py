"""Interfaces for real-time tests: a sensor that counts its captures, scripted to be slow, to fail or to stay away."""

import numpy as np
from gymnasium import spaces

from paddock.environments.realtime.clock import SECOND, VirtualClock


class CountingInterface:
    """Observes the number of the capture, from 1 in every episode; the default action is -1. Keeps its calls.

    Durations in s; `terminate_at` and `raise_at` are numbers of a capture of an episode.
    """

    def __init__(
        self, capture=0.0, send=0.0, reset=0.0, terminate_at=None, raise_at=None, slow_at=None, slow=0.0, error=None
    ):
        self.durations = {"capture": capture, "send": send, "reset": reset}
        self.terminate_at, self.raise_at, self.slow_at, self.slow = terminate_at, raise_at, slow_at, slow
        self.error = error or ConnectionError("no packets")
        self.clock = VirtualClock()
        self.calls = []
        self.count = 0

    def use_clock(self, clock):
        self.clock = clock

    def get_observation_space(self):
        return spaces.Tuple([spaces.Box(-np.inf, np.inf, (1,), np.float32)])

    def get_action_space(self):
        return spaces.Box(-100.0, 100.0, (1,), np.float32)

    def get_default_action(self):
        return np.array([-1.0], np.float32)

    def reset(self, seed=None, options=None):
        self.note("reset", seed)
        self.clock.sleep(self.durations["reset"])
        self.count = 0
        return [np.array([0.0], np.float32)], {}

    def send_control(self, control):
        self.note("send", float(control[0]))
        self.clock.sleep(self.durations["send"])

    def get_obs_rew_terminated_info(self):
        self.count += 1
        self.note("capture", self.count)
        self.clock.sleep(self.slow if self.count == self.slow_at else self.durations["capture"])
        if self.count == self.raise_at:
            raise self.error
        return [np.array([self.count], np.float32)], float(self.count), self.count == self.terminate_at, {}

    def wait(self):
        self.note("wait", None)

    def note(self, what, value):
        self.calls.append((self.clock.now() / SECOND, what, value))

    def times(self, what):
        return [time for time, kind, _ in self.calls if kind == what]

    def values(self, what):
        return [value for _, kind, value in self.calls if kind == what]
