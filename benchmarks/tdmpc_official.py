"""Updates and plans of the TD-MPC2 authors' code on a processor, without compilation, on random data of given shapes.

Run by benchmarks/tdmpc_throughput.py --official FOLDER --python PYTHON, in an environment with torch and tensordict;
speaks over pipes: each line it gets is `update N` or `plan N`, each line it writes the processor seconds of one.

    python tdmpc_official.py FOLDER SIZE THREADS
"""

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import torch

OBSERVATION, ACTION = 5, 1
SIZES = {
    "1m": {"enc_dim": 256, "mlp_dim": 384, "latent_dim": 128, "num_enc_layers": 2, "num_q": 2},
    "5m": {"enc_dim": 256, "mlp_dim": 512, "latent_dim": 512, "num_enc_layers": 2, "num_q": 5},
}
OPTIONS = {
    "task": "cartpole-swingup", "obs": "state", "episodic": False, "batch_size": 256, "reward_coef": 0.1,
    "value_coef": 0.1, "termination_coef": 1, "consistency_coef": 20, "rho": 0.5, "lr": 3e-4, "enc_lr_scale": 0.3,
    "grad_clip_norm": 20, "tau": 0.01, "discount_denom": 5, "discount_min": 0.95, "discount_max": 0.995, "mpc": True,
    "iterations": 6, "num_samples": 512, "num_elites": 64, "num_pi_trajs": 24, "horizon": 3, "min_std": 0.05,
    "max_std": 2, "temperature": 0.5, "log_std_min": -10, "log_std_max": 2, "entropy_coef": 1e-4, "num_bins": 101,
    "vmin": -10, "vmax": 10, "bin_size": 0.2, "num_channels": 32, "task_dim": 0, "dropout": 0.01, "simnorm_dim": 8,
    "compile": False, "multitask": False, "tasks": ["cartpole-swingup"], "obs_shape": {"state": (OBSERVATION,)},
    "action_dim": ACTION, "episode_length": 500,
}  # fmt: skip


class Options(SimpleNamespace):
    """Options that can also be read as a mapping, as the authors' code does."""

    def get(self, name, default=None):
        return getattr(self, name, default)


def on_processor(folder: Path) -> None:
    """Load the authors' modules with the device that is written into them changed."""
    sys.path.insert(0, str(folder))
    for file in ("tdmpc2.py", "common/scale.py"):
        path = folder / file
        text = path.read_text().replace("cuda:0", "cpu").replace("capturable=True", "capturable=False")
        path.write_text(text)


folder, size, threads = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
torch.set_num_threads(threads)
on_processor(folder)
from common.world_model import WorldModel  # noqa: E402
from tdmpc2 import TDMPC2  # noqa: E402

WorldModel.to = lambda self, *_: self  # It is there already; newer versions of tensordict cannot move it.
agent = TDMPC2(Options(**OPTIONS, **SIZES[size]))
H, B = OPTIONS["horizon"], OPTIONS["batch_size"]
batch = (
    torch.randn(H + 1, B, OBSERVATION), torch.rand(H, B, ACTION) * 2 - 1, torch.rand(H, B, 1), torch.zeros(H, B, 1),
)  # fmt: skip
work = {"update": lambda: agent._update(*batch), "plan": lambda: agent.act(torch.randn(OBSERVATION))}
for one in work.values():
    one()
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    name, times = line.split()
    started = time.process_time()
    for _ in range(int(times)):
        work[name]()
    print(json.dumps({"seconds": (time.process_time() - started) / int(times)}), flush=True)
