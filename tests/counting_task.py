"""An environment whose every step has a name, and writes it down: for counting what arrives."""

import os
from pathlib import Path

import gymnasium
import numpy as np

LENGTH = 23
SECONDS = 0.002
VARIABLE = "COUNTING_FOLDER"


class Counting(gymnasium.Env):
    """Observes (life, step): the number of this process among all that ever made one, and of its step in it.

    The name of a transition is the observation that it begins with. A file `life-N` holds how many were begun.
    """

    def __init__(self, render_mode=None):
        self.observation_space = gymnasium.spaces.Box(-1, 1e9, (2,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
        self.step_number = self.time = 0
        self.life, self.file = -1, None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.file is None:
            self.life, self.file = _next_life()
        self.time = 0
        return self._seen(), {}

    def step(self, action):
        os.pwrite(self.file, f"{self.step_number + 1}\n".encode(), 0)
        if SECONDS:
            import time

            time.sleep(SECONDS)
        self.step_number += 1
        self.time += 1
        return self._seen(), 1.0, False, self.time == LENGTH, {}

    def _seen(self):
        return np.array([self.life, self.step_number], np.float32)


def _next_life():
    folder = Path(os.environ.get(VARIABLE, ""))
    if not os.environ.get(VARIABLE):
        return 0, os.open(os.devnull, os.O_WRONLY)
    life = 0
    while True:
        try:
            return life, os.open(folder / f"life-{life}", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            life += 1


if "Counting-v0" not in gymnasium.registry:
    gymnasium.register("Counting-v0", entry_point=Counting)
