"""A gradient step of sheeprl's DreamerV3 (`dreamer_v3_5_1M`), on vectors of the shapes that Paddock's is timed with.

Run by benchmarks/dreamer_throughput.py --sheeprl PYTHON, in an environment with `sheeprl`; speaks over pipes: each line
it gets is a number of updates, each line it writes the seconds and the processor's seconds of one.

    pip install sheeprl    # in an environment of its own; 0.8.4 was measured
"""

import json
import sys
import time

import gymnasium
import hydra
import numpy as np
import torch
from lightning.fabric import Fabric
from omegaconf import OmegaConf
from sheeprl.algos.dreamer_v3.utils import Moments
from sheeprl.algos.dreamer_v3_5.agent import build_agent
from sheeprl.algos.dreamer_v3_5.dreamer_v3_5 import train, update_target_critic
from sheeprl.utils.utils import dotdict

OBSERVATION, ACTION, B, T = 24, 6, 16, 64

torch.set_num_threads(int(sys.argv[1]))
with hydra.initialize_config_module("sheeprl.configs", version_base="1.3"):
    chosen = ["exp=dreamer_v3_5", "algo=dreamer_v3_5_1M", "env=dummy", "env.id=continuous_dummy", "metric.log_level=0"]
    chosen += ["algo.cnn_keys.encoder=[]", "algo.mlp_keys.encoder=[state]"]
    config = hydra.compose("config", overrides=chosen)
cfg = dotdict({name: OmegaConf.to_container(config[name], resolve=True) for name in ("algo", "env", "distribution")})
fabric = Fabric(accelerator="cpu", devices=1)
spaces = gymnasium.spaces.Dict({"state": gymnasium.spaces.Box(-np.inf, np.inf, (OBSERVATION,), np.float32)})
model, actor, critic, slow, _ = build_agent(fabric, (ACTION,), True, cfg, spaces)
parameters = [*model.parameters(), *actor.parameters(), *critic.parameters()]
optimizer = hydra.utils.instantiate(cfg.algo.optimizer, params=parameters, _convert_="all")
optimizer = fabric.setup_optimizers(optimizer)
moments = Moments(0.99, 1.0, 0.05, 0.95)

rows = T + cfg.algo.replay_context
data = {
    "state": torch.randn(rows, B, OBSERVATION),
    "actions": torch.randn(rows, B, ACTION).clamp(-1, 1),
    "rewards": torch.randn(rows, B, 1),
    "deter": torch.zeros(rows, B, 512),
    "stoch": torch.zeros(rows, B, 32, dtype=torch.uint8),
    **{name: torch.zeros(rows, B, 1) for name in ("terminated", "truncated", "is_first")},
}


def update() -> None:
    train(fabric, cfg, model, actor, critic, slow, optimizer, moments, dict(data), None, (ACTION,))
    update_target_critic(critic, slow, 0.02)


update()
print("ready", sum(p.numel() for p in parameters), flush=True)
for line in sys.stdin:
    started, used = time.perf_counter(), time.process_time()
    for _ in range(int(line)):
        update()
    seconds, processor = time.perf_counter() - started, time.process_time() - used
    print(json.dumps({"sheeprl": [seconds / int(line), processor / int(line)]}), flush=True)
