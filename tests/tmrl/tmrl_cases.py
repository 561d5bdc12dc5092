"""TMRL's files as TMRL writes them: its config.json, and pickles of objects of its classes."""

from __future__ import annotations

import pickle
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import PurePosixPath
from types import ModuleType

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

DEFAULT_CONFIG = {
    "RUN_NAME": "SAC_4_imgs_pretrained", "RESET_TRAINING": False, "BUFFERS_MAXLEN": 500000,
    "RW_MAX_SAMPLES_PER_EPISODE": 1000, "CUDA_TRAINING": True, "CUDA_INFERENCE": False, "VIRTUAL_GAMEPAD": True,
    "LOCALHOST_WORKER": True, "LOCALHOST_TRAINER": True, "PUBLIC_IP_SERVER": "0.0.0.0",
    "PASSWORD": "a-very-secret-word", "TLS": False, "TLS_HOSTNAME": "default", "TLS_CREDENTIALS_DIRECTORY": "",
    "NB_WORKERS": -1, "WANDB_PROJECT": "tmrl", "WANDB_ENTITY": "tmrl", "WANDB_KEY": "another-secret-word",
    "PORT": 55555, "LOCAL_PORT_SERVER": 55556, "LOCAL_PORT_TRAINER": 55557, "LOCAL_PORT_WORKER": 55558,
    "BUFFER_SIZE": 536870912, "HEADER_SIZE": 12, "MAX_EPOCHS": 10000, "ROUNDS_PER_EPOCH": 100,
    "TRAINING_STEPS_PER_ROUND": 200, "MAX_TRAINING_STEPS_PER_ENVIRONMENT_STEP": 4.0,
    "ENVIRONMENT_STEPS_BEFORE_TRAINING": 1000, "UPDATE_MODEL_INTERVAL": 200, "UPDATE_BUFFER_INTERVAL": 200,
    "SAVE_MODEL_EVERY": 0, "MEMORY_SIZE": 1000000, "BATCH_SIZE": 256, "DEBUG_MODE": False,
    "ALG": {
        "ALGORITHM": "SAC", "LEARN_ENTROPY_COEF": False, "LR_ACTOR": 1e-5, "LR_CRITIC": 5e-5, "LR_ENTROPY": 3e-4,
        "GAMMA": 0.995, "POLYAK": 0.995, "TARGET_ENTROPY": -0.5, "ALPHA": 0.01, "REDQ_N": 10, "REDQ_M": 2,
        "REDQ_Q_UPDATES_PER_POLICY_UPDATE": 20, "OPTIMIZER_ACTOR": "adam", "OPTIMIZER_CRITIC": "adam",
        "BETAS_ACTOR": [0.997, 0.997], "BETAS_CRITIC": [0.997, 0.997], "L2_ACTOR": 0.0, "L2_CRITIC": 0.0,
    },
    "ENV": {
        "RTGYM_INTERFACE": "TM20FULL", "WINDOW_WIDTH": 256, "WINDOW_HEIGHT": 128, "IMG_WIDTH": 64, "IMG_HEIGHT": 64,
        "IMG_GRAYSCALE": True, "IMG_SCALE_CHECK_ENV": 1.0, "LINUX_X_OFFSET": 64, "LINUX_Y_OFFSET": 70,
        "SLEEP_TIME_AT_RESET": 1.5, "IMG_HIST_LEN": 4,
        "RTGYM_CONFIG": {
            "time_step_duration": 0.05, "start_obs_capture": 0.04, "time_step_timeout_factor": 1.0, "act_buf_len": 2,
            "benchmark": False, "wait_on_done": True, "ep_max_length": 1000,
            "interface_kwargs": {"save_replays": False},
        },
        "REWARD_CONFIG": {
            "END_OF_TRACK": 100.0, "CONSTANT_PENALTY": 0.0, "CHECK_FORWARD": 500, "CHECK_BACKWARD": 10,
            "FAILURE_COUNTDOWN": 10, "MIN_STEPS": 70, "MAX_STRAY": 100.0,
        },
    },
    "__VERSION__": "0.6.0",
}  # fmt: skip


def perceptron(sizes, activation=nn.ReLU, last=nn.Identity) -> nn.Sequential:
    layers = []
    for index in range(len(sizes) - 1):
        layers += [nn.Linear(sizes[index], sizes[index + 1]), activation() if index < len(sizes) - 2 else last()]
    return nn.Sequential(*layers)


class MLPActor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = perceptron([83, 256, 256], last=nn.ReLU)
        self.mu_layer, self.log_std_layer = nn.Linear(256, 3), nn.Linear(256, 3)
        self.observation_space = spaces.Tuple([spaces.Box(0, 1000, (1,)), spaces.Box(0, np.inf, (4, 19))])


class MLPQFunction(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q = perceptron([86, 256, 256, 1])

    def forward(self, observation, action):
        return self.q(torch.cat([*observation, action], -1)).squeeze(-1)


class MLPActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.actor, self.q1, self.q2 = MLPActor(), MLPQFunction(), MLPQFunction()


class SpinupSacAgent:
    def __init__(self) -> None:
        self.model, self.model_target = MLPActorCritic(), MLPActorCritic()
        self.pi_optimizer = torch.optim.Adam(self.model.actor.parameters())
        loss = sum(parameter.square().sum() for parameter in self.model.actor.parameters())
        loss.backward()
        self.pi_optimizer.step()
        self.alpha_t = torch.tensor(0.01)
        self.device = torch.device("cpu")


class MemoryTMLidar:
    def __init__(self) -> None:
        self.data = [[0, 1, 2], [np.zeros(19, np.float32)] * 3, [1.0, 2.0, 3.0]]
        self.path = PurePosixPath("dataset")


class TorchTrainingOffline:
    def __init__(self) -> None:
        self.epoch, self.epochs, self.rounds, self.steps = 3, 10_000, 100, 200
        self.total_updates, self.total_samples = 60_000, 15_000
        self.agent, self.memory = SpinupSacAgent(), MemoryTMLidar()
        self.memory_cls = partial(MemoryTMLidar)


HOMES = {
    "tmrl.training_offline": [TorchTrainingOffline],
    "tmrl.custom.custom_algorithms": [SpinupSacAgent],
    "tmrl.custom.custom_models": [MLPActor, MLPQFunction, MLPActorCritic],
    "tmrl.custom.custom_memories": [MemoryTMLidar],
}


@contextmanager
def tmrl_installed():
    """Modules of TMRL's names with these classes, while something is pickled."""
    before = {one: one.__module__ for classes in HOMES.values() for one in classes}
    names = ["tmrl", "tmrl.custom", *HOMES]
    for name in names:
        sys.modules[name] = ModuleType(name)
    for name, classes in HOMES.items():
        for one in classes:
            one.__module__ = name
            setattr(sys.modules[name], one.__name__, one)
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]
        for one, module in before.items():
            one.__module__ = module


def pickled_training(change=lambda training: None) -> tuple[bytes, TorchTrainingOffline]:
    """A `.tcpt`, and the training that it was made from."""
    torch.manual_seed(11)
    training = TorchTrainingOffline()
    change(training)
    with tmrl_installed():
        return pickle.dumps(training, pickle.HIGHEST_PROTOCOL), training
