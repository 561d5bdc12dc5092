"""Every observation, action and reward of the racing environment, and random driving: for tests of it."""

import numpy as np

from paddock.config.compose import choices

ID = "paddock/Racing-v0"
OBSERVATIONS = {
    "sensors5": {},
    "lidar": {},
    "lidar dict": {"flat": False},
    "lidar_progress": {},
    "lidar log": {"sensing": {"ray_scale": "log", "ray_history": 2}},
    "lidar motion": {"sensing": {"motion": True}},
    "course": {},
    "course dict": {"flat": False},
    "camera": {},
    "camera grey": {"sensing": {"camera_colour": False, "camera_history": 4}},
    "full": {},
    "full privileged": {"privileged": True},
    "full rays": {"images": False},
    "full rays dict": {"images": False, "flat": False},
}
ACTIONS = ("steer_throttle", "gas_brake_steer", "discrete")
REWARDS = ("baseline", "time_optimal", "racing_line")
ALL_REWARDS = sorted(set(choices("reward")) - {"none"})


def options_of(name):
    return {"observation": name.split()[0], **OBSERVATIONS[name]}


def drive(env, steps, seed=0):
    """Random driving that mostly goes forward; rewards [T, E], observations and infos."""
    random = np.random.default_rng(seed)
    rewards, observations, infos = [], [], []
    for _ in range(steps):
        action = random.uniform(-0.3, 0.3, (env.num_envs, 2)).astype(np.float32)
        action[:, 1] += 0.6
        observation, reward, _, _, info = env.step(action)
        rewards.append(reward)
        observations.append(observation)
        infos.append(info)
    return np.array(rewards), observations, infos
