"""What tests of TrackMania share: a small road, a twin in a thread, a driver of a dozen lines."""

import os
import select
import subprocess
import threading
from contextlib import contextmanager

import numpy as np

from paddock.config.schema import instantiate, validate_target
from paddock.environments.trackmania.twin.game import TwinSettings
from paddock.environments.trackmania.twin.server import TwinServer

TARGET = "paddock.environments.trackmania.env.make"


def small_road(folder):
    """The path of a CSV file with an oval of about 230 m."""
    path = folder / "small_oval.csv"
    angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    lines = [f"{45 * np.cos(a):.3f},{28 * np.sin(a):.3f},6,6" for a in angle]
    path.write_text("\n".join(["# x_m,y_m,w_tr_right_m,w_tr_left_m", *lines]) + "\n")
    return str(path)


@contextmanager
def running_twin(**options):
    """A twin by its own clock, in a thread of this process."""
    lock_step = options.pop("lock_step", False)
    server = TwinServer(TwinSettings(**options), port=0, lock_step=lock_step)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.is_closing = True
        thread.join(5)


def make_env(**options):
    """The environment on a twin in virtual time, with TMRL's timing."""
    timing = {"time_step_duration": 0.05, "start_obs_capture": 0.04, "act_buf_len": 2, "wait_on_done": True}
    values = {"_target_": TARGET, "num_envs": 1, "game": "twin", "clock": "virtual", **timing, **options}
    return instantiate(validate_target(values), 1)


def longest_beam(observation):
    """Steer towards the longest beams, and be as fast as the road ahead is long; numbers are TMRL's."""
    beams, speed = observation["rays"][0, -1], observation["speed"][0, 0]
    ahead = np.arange(3, 16)
    pull = beams[ahead] ** 2
    towards = (pull * ahead).sum() / pull.sum()
    steer = np.clip(1.5 * (9 - towards) / 9, -1, 1)
    target = 6 + 0.25 * beams[7:12].max()
    return np.array([[speed < target, speed > target + 5, steer]], np.float32)


def drive(env, steps, act=longest_beam):
    """Until an episode ends; the last step's results."""
    observation, _ = env.reset(seed=1)
    for _ in range(steps):
        observation, reward, terminated, truncated, info = env.step(act(observation))
        if terminated[0] or truncated[0]:
            break
    return observation, reward, terminated[0], truncated[0], info


def stand(observation):
    return np.zeros((1, 3), np.float32)


@contextmanager
def xvfb():
    """The name of a display of its own."""
    read, write = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "800x600x24"], pass_fds=[write], stderr=subprocess.DEVNULL
    )
    os.close(write)
    try:
        assert select.select([read], [], [], 20)[0], "Xvfb does not start"
        yield f":{os.read(read, 32).decode().strip()}"
    finally:
        os.close(read)
        server.terminate()
        server.wait()
