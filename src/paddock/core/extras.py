"""The optional dependencies: of each extra the module that it installs, and what it is for."""

from __future__ import annotations

EXTRAS: dict[str, tuple[str, str]] = {
    "atari": ("ale_py", "Atari games"),
    "box2d": ("Box2D", "LunarLander and CarRacing"),
    "dmc": ("dm_control", "the DeepMind Control Suite"),
    "minari": ("minari", "Minari's datasets"),
    "minigrid": ("minigrid", "MiniGrid"),
    "mujoco": ("mujoco", "Gymnasium's MuJoCo tasks"),
    "parquet": ("pyarrow", "exports to parquet"),
    "ray": ("ray", "clusters"),
    "relay": ("grpc", "workers and a trainer on several machines"),
    "trackmania": ("mss", "TrackMania itself; its twin needs nothing"),
    "wandb": ("wandb", "Weights & Biases"),
}
