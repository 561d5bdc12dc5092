"""Small runs whose updates are shared: how they are made, and how 100 of their updates are compared."""

from __future__ import annotations

import torch

import tiny_tasks  # noqa: F401 - registers the task
from paddock.buffers.rollout import RolloutBuffer

SMALL_DREAMER = [
    "environment.id=Reach-v0",
    "environment.num_envs=4",
    "components.world_model.rssm.deter=16",
    "components.world_model.rssm.hidden=16",
    "components.world_model.rssm.groups=2",
    "components.world_model.rssm.classes=4",
    "components.world_model.rssm.blocks=2",
    *[f"components.world_model.{part}.units=16" for part in ("encoder", "decoder", "reward", "continue")],
    *[f"components.world_model.{part}.layers=1" for part in ("encoder", "decoder", "reward", "continue")],
    "components.policy.layers=1",
    "components.value.layers=1",
    "workflow.horizon=3",
    "buffers.replay.capacity=2_000",
    "buffers.replay.batch_size=5",  # No multiple of two.
    "buffers.replay.length=5",
    "workflow.imagination_starts=null",
    # Bins that grow exponentially reach 4.8e8: in a hardly trained head the last bit of a logit moves a value by 0.02.
    *[f"components.{name}.kind=two_hot_symlog" for name in ("value", "world_model.reward")],
    # With DreamerV3's 1e-20 a gradient that is nothing but rounding becomes a whole step.
    *[f"optimizers.{part}.epsilon=1e-5" for part in ("world_model", "policy", "value")],
]
# name: (experiment, buffer, overrides)
CASES = {
    "ppo": (
        "ppo_cartpole",
        "rollout",
        ["environment.num_envs=4", "workflow.rollout_steps=200", "workflow.minibatch_size=25", "workflow.epochs=2"],
    ),
    "sac": (
        "sac_pendulum",
        "replay",
        ["components.policy.network.hidden=[16]", "components.critics.hidden=[16]", "buffers.replay.batch_size=33"],
    ),
    "dreamer": ("dreamer_cartpole", "replay", SMALL_DREAMER),
}


def collected(make, case, *overrides, run="run"):
    """A run of the case that has collected 200 steps, and the phase that it learns in."""
    experiment, buffer, small = CASES[case]
    made = make(experiment, *small, *overrides, run=run)
    phase = next(one for one in made.config.training.phases.values() if "update" in one.workflow_hooks)
    made.context.controllers.select("random" if buffer == "replay" else None)
    made.workflow.collect_step(200, phase=phase)
    return made, phase


def updated(run, hook, batch, phase):
    """The metrics of one update, as the training loop makes it."""
    with run.ranks.updating(run.workflow, hook, batch, phase) as moved:
        return getattr(run.workflow, hook)(moved, phase=phase)


def losses_of(run, phase, updates=100):
    """All metrics of so many gradient steps, which every run makes with the same random numbers."""
    buffer, found, start = run.context.buffers[phase.buffer], [], run.counters.updates
    rollout = buffer.sample() if isinstance(buffer, RolloutBuffer) else None  # It can be had once.
    seed = 0
    while run.counters.updates - start < updates:
        torch.manual_seed(seed := seed + 1)
        batch = rollout or buffer.sample()
        before = run.counters.updates
        metrics = updated(run, "update", batch, phase)
        run.counters.updates += run.counters.updates == before
        found.append({name: float(value) for name, value in metrics.items()})
    return found


def largest_difference(found, expected):
    """Of two lists of metrics, relative to 1 or to what was expected where that is more."""
    assert [one.keys() for one in found] == [one.keys() for one in expected]
    return max(
        abs(one[name] - other[name]) / max(1.0, abs(other[name]))
        for one, other in zip(found, expected, strict=True)
        for name in other
    )
