"""Small World Models runs that several tests use: a bar in a picture, and a point on a line."""

import gymnasium
import numpy as np

import tiny_tasks  # noqa: F401 - registers the tasks


class Bar(gymnasium.Env):
    """A bright bar in a picture of 16 pixels; the action moves it, and the reward is minus its distance to the middle.
    Best is about -0.6 an episode, standing still about -4."""

    def __init__(self, render_mode=None):
        self.observation_space = gymnasium.spaces.Box(0, 255, (16, 16, 1), np.uint8)
        self.action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
        self.place, self.time = 0.0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = float(self.np_random.uniform(-1, 1)), 0
        return self._seen(), {}

    def step(self, action):
        self.place = float(np.clip(self.place + 0.4 * action[0], -1, 1))
        self.time += 1
        return self._seen(), -abs(self.place), False, self.time == 8, {}

    def get_state(self):
        return {"place": self.place, "time": self.time}

    def set_state(self, state):
        self.place, self.time = state["place"], state["time"]

    def _seen(self):
        picture = np.zeros((16, 16, 1), np.uint8)
        column = round((self.place + 1) * 6)
        picture[:, column : column + 4] = 255
        return picture


if "Bar-v0" not in gymnasium.registry:
    gymnasium.register("Bar-v0", entry_point=Bar)

BASE = [
    "environment=gym",
    "workflow=world_models",
    "environment.num_envs=24",
    "workflow.population=8",
    "workflow.starts=3",
    "workflow.max_episode_steps=8",
    "workflow.validation.batch=16",
    "workflow.dream.max_steps=8",
    "workflow.dream.ends=never",
    "workflow.evolution.std=0.5",
    "components.memory.size=8",
    "components.memory.components=2",
    "buffers.replay.capacity=1200",
    "buffers.replay.batch_size=32",
    "buffers.latents.batch_size=8",
    "buffers.latents.length=6",
    "evaluation.episodes=8",
    "training.phases.converge_vae.duration_updates=6",
    "training.phases.converge_vae.workflow_hooks.validate_vae.every_updates=3",
    "training.phases.converge_mdn.duration_updates=6",
    "training.phases.converge_mdn.workflow_hooks.validate_memory.every_updates=3",
    "training.phases.evolve.duration_cycles=4",
    "training.phases.evolve.workflow_hooks.evaluate.every_updates=2",
    "logging.every_updates=3",
]
PICTURES = [
    *BASE,
    "environment.id=Bar-v0",
    "components.vae.latent=4",
    "components.vae.channels=[8,16]",
    "components.vae.decoder_kernels=[5,8]",
]
NUMBERS = [
    *BASE,
    "environment.id=Reach-v0",
    "components.vae={_target_: paddock.components.representation_learners.identity.IdentityRepresentation}",
    "optimizers.vae=null",
    "training.phases.converge_vae=null",
]
DREAMED = (
    "training.phases.evolve_in_dream={type: evolution, buffer: latents, duration_cycles: 2, "
    "workflow_hooks: {evolve_in_dream: {}}}"
)
