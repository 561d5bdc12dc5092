"""Shipped experiments resolve to what they were before options got the field's words and phases became a mapping."""

import gzip
import json
from pathlib import Path

import pytest

from paddock.config.compose import compose
from paddock.config.inheritance import settle
from paddock.config.migrate import migrate
from paddock.config.validate import validate
from paddock.core.errors import InputError
from paddock.orchestration.schema import ExperimentConfig

BEFORE = json.loads(
    gzip.decompress((Path(__file__).parent / "fixtures" / "schema_3" / "experiments.json.gz").read_bytes())
)
COMPILING = ["paddock.workflows.sac.SAC", "paddock.workflows.dqn.DQN"]  # late in a run, since then
SHARED = {"shard_size": 512, "workers": None}  # Since then cores share the minibatches of PPO for vectors on racing.
SHARING = [
    "baseline",
    "racing",
    "racing_f1tenth",
    "racing_lidar",
    "racing_line",
    "racing_multi_track",
    "racing_obstacles",
    "time_optimal",
]
FADING = [
    "workflow.anneal_learning_rate=false",
    "components.policy.mean_init=null",
    *[f"optimizers.{name}.half_life=6_000" for name in ("world_model", "policy", "value")],
]
KEEPING = ["workflow.anneal_learning_rate=false", "training.max_seconds=600"]
CRITICS = "components.critics.layer_norm=false"
VALUES = ["components.action_values.network.layer_norm=false", "training.total_steps=3_000_000"]
EVALUATED = ["training.phases.joint.workflow_hooks.evaluate.every_steps=250_000"]
OLD = {  # Settings that were found since, put back to what they were.
    "dreamer_racing": [*FADING, "reward=racing_dreamer"],
    "dreamer_racing_camera": FADING,
    "racing": ["reward=racing"],
    "redq_racing": ["reward=racing", *KEEPING, *EVALUATED],
    "sac_racing": ["reward=racing", *KEEPING, *EVALUATED, CRITICS],
    "dqn_racing": ["reward=racing", *KEEPING, *EVALUATED, *VALUES],
    "iqn_racing": ["reward=racing", *KEEPING, *EVALUATED, *VALUES],
    "sac_vit_racing_camera": ["workflow.anneal_learning_rate=false", *EVALUATED, CRITICS],
    "latent_actor_racing": [
        "latent_value=none",
        "reward=racing_planning",
        "workflow.gamma=0.99",
        "workflow.horizon=15",
        "workflow.imagination_starts=null",
        "workflow.imagination_noise=0.0",
        "workflow.exploration={decay: 0.999, end: 0.05}",
        "workflow.anneal_learning_rate=false",
        "components.world_model={latent: 32, encoder: [64], dynamics: [64], reward: [32]}",
        "components.world_model={decoder: [64], activation: relu}",
        "components.policy={hidden: [64, 32], activation: relu}",
        "buffers.replay.capacity=30_000",
        "optimizers.policy.learning_rate=3e-4",
        "training.total_steps=40_000",
        "training.phases.joint.workflow_hooks.update.ratio=0.03125",
    ],
}


def with_planet_tuned(saved):
    """PlaNet's settings for short vectors are others since then."""
    saved["workflow"]["scales"] |= {"observation": 100.0, "reward": 30.0}
    saved["workflow"]["free_nats"] = 0.2
    saved["buffers"]["replay"] |= {"batch_size": 32, "length": 17}
    saved["controllers"]["available"]["cem"] |= {"ends": "ignore", "temperature": 0.0}
    saved["training"]["total_steps"] = 7_500
    saved["training"]["phases"]["joint"]["workflow_hooks"]["update"]["ratio"] = 1.0


@pytest.mark.parametrize("name", BEFORE)
def test_a_shipped_experiment_resolves_to_what_it_was(name):
    saved = migrate(BEFORE[name])
    phases = saved["training"]["phases"]  # One phase was called `model` here and `pretrain` there.
    saved["training"]["phases"] = {{"model": "pretrain"}.get(key, key): one for key, one in phases.items()}
    if saved["evaluation"]["metric"] == "eval/pace":
        saved["evaluation"]["metric"] = "eval/clean_pace"  # Racing judges by clean laps since.
    if saved["workflow"]["_target_"] in COMPILING:
        saved["workflow"]["compile"] = "auto"
    if name == "planet_dmc_cartpole":
        with_planet_tuned(saved)
    if name in SHARING:
        saved["workflow"] |= SHARED if name != "racing_multi_track" else {"workers": None}  # It has larger shards.
    composed = settle(compose(name, overrides=OLD.get(name, []))).values | {"name": saved["name"]}
    try:
        was, now = (validate(values, ExperimentConfig) for values in (saved, composed))
    except InputError as error:
        if "pip install" not in str(error):
            raise
        pytest.skip(str(error))
    assert now == was
    assert _order(now) == _order(was)


def _order(config):
    return [(name, list(phase.workflow_hooks)) for name, phase in config.training.phases.items()]
