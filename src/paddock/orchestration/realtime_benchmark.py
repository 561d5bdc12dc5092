"""An experiment's real-time environment measured: with its policy acting, or probed for its delays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import yaml
from gymnasium.vector import VectorEnv, VectorWrapper

from paddock.core.errors import InputError
from paddock.environments import calls
from paddock.environments.calls import as_dict
from paddock.environments.realtime.benchmark import Figures, summed_up
from paddock.environments.realtime.env import RealTimeVectorEnv
from paddock.environments.realtime.probe import MeasuredDelays, Probe
from paddock.environments.spaces import spec_of
from paddock.orchestration.build import make_environment
from paddock.orchestration.components import make_controllers
from paddock.orchestration.schema import ExperimentConfig

WARM_UP = 5  # time-steps before measuring: the first inference takes longer than all others


def realtime_part(env: VectorEnv) -> RealTimeVectorEnv:
    """The real-time environment inside of whatever wraps it."""
    inner = env
    while isinstance(inner, VectorWrapper):
        inner = inner.env
    if not isinstance(inner, RealTimeVectorEnv):
        raise InputError(
            f"environment '{calls.name_of(env)}' does not run in real time; choose an experiment with "
            "environment=realtime or environment=racing_realtime."
        )
    return inner


def measure_steps(config: ExperimentConfig, steps: int) -> Figures:
    """The figures of so many time-steps in which the experiment's own policy, as it is made, acts."""
    torch.set_num_threads(config.threads)
    env = make_environment(config, 1)
    try:
        inner = realtime_part(env)
        actor = make_controllers(config, spec_of(env), torch.device("cpu"))[1].active
        observation, _ = calls.reset(env, seed=config.seed)
        state = actor.initial_state(1)
        with torch.inference_mode():
            for number in range(steps + WARM_UP):
                if number == WARM_UP:
                    inner.loop.durations.clear()
                seen = {name: torch.as_tensor(part) for name, part in as_dict(observation).items()}
                action, state = actor.act(seen, state, deterministic=False)
                observation, *_ = calls.step(env, actor.to_environment(action))
        return summed_up(inner.loop.durations, inner.loop.settings.time_step_duration)
    finally:
        env.close()


def measure_delays(
    config: ExperimentConfig, trials: int, action: Sequence[float] | None
) -> tuple[MeasuredDelays, float]:
    """The delays of the experiment's interface, and its time-step, s."""
    env = make_environment(config, 1)
    try:
        inner = realtime_part(env)
        size = int(np.prod(inner.loop.action_space.shape))
        if action is not None and len(action) != size:
            raise InputError(f"--action has {len(action)} numbers; the interface takes {size}.")
        given = None if action is None else np.array(action).reshape(inner.loop.action_space.shape)
        options = getattr(inner.loop.interface, "probe_options", None)
        measured = Probe(inner.loop, action=given, seed=config.seed).measure(trials, options)
        return measured, inner.loop.settings.time_step_duration
    finally:
        env.close()


def delays_yaml(measured: MeasuredDelays, time_step: float, *, experiment: str, base: str) -> str:
    """An experiment with the measured delays: `base`, in virtual time."""
    names = ("action", "jitter", "observation", "drop")
    delays = {"elastic": True, **{name: getattr(measured, name) for name in names}}
    length = measured.steps(time_step)
    is_racing = "racing" in base
    environment = {"delays": delays if is_racing else {**delays, "act_buf_len": length, "time_step": time_step}}
    if is_racing:
        environment["sensing"] = {"last_actions": max(length, 2)}
    values = yaml.safe_dump({"defaults": [base, "_self_"], "environment": environment}, sort_keys=False)
    return (
        "# @package _global_\n"
        f"# {base} with the delays of {experiment}, measured with {measured.trials} actions; a new frame every "
        f"{1000 * measured.frame:.0f} ms, {1000 * measured.loop:.0f} ms from an action to its sight.\n{values}"
    )
