"""What a racing world model expects, beside what really comes: of its policy, and of holding something else first.

    python benchmarks/dreams_and_road.py RUN [--runs-dir runs] [--from 80 --to 110] [--horizon 25] [--hold 8]

Cars drive by the policy. Now and then the world is kept, and from the same states the same is done twice, in dreams and
on the road: the policy alone, or its steering with one throttle held for `--hold` steps first (the second number of an
action: -1 brakes, 1 is full throttle). A model that is right about its policy and wrong about the rest cannot teach
anything new: no gradient through it leads to what it believes to end as badly.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from paddock.components.actions import to_vector
from paddock.environments.calls import as_dict
from paddock.orchestration.subject import find_subject
from paddock.rollout.model_actors import PolicyOverModel

HELD = (None, 1.0, 0.5, 0.0, -0.5, -1.0)
WARM_UP, APART = 10, 15  # steps before the first look, and from one look to the next


class Road:
    """The real cars and what the actor remembers of them; can go back to a state it was in."""

    def __init__(self, actor: Any, env: Any, seed: int) -> None:
        self.actor, self.env = actor, env
        self.seen = as_dict(env.reset(seed=seed)[0])
        self.memory = actor.initial_state(env.num_envs)

    def keep(self) -> tuple[Any, ...]:
        return self.env.get_state(), {k: v.copy() for k, v in self.seen.items()}, dict(self.memory)

    def go_back(self, kept: tuple[Any, ...]) -> None:
        self.env.set_state(kept[0])
        self.seen, self.memory = dict(kept[1]), dict(kept[2])

    def step(self, throttle: float | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rewards, which episodes failed, and which were over, [N]."""
        parts = {name: torch.as_tensor(part) for name, part in self.seen.items()}
        action, self.memory = self.actor.act(parts, self.memory, deterministic=True)
        if throttle is not None:
            action = held(action, throttle)
            self.memory = {**self.memory, "last_action": action}
        seen, reward, failed, ran_out, _ = self.env.step(self.actor.to_environment(action))
        self.seen, over = as_dict(seen), np.flatnonzero(failed | ran_out)
        fresh = self.actor.initial_state(self.env.num_envs)
        self.memory = {name: replaced(part, over, fresh[name]) for name, part in self.memory.items()}
        return reward, failed, failed | ran_out


def held(action: Tensor, throttle: float) -> Tensor:
    return torch.stack([action[:, 0], torch.full_like(action[:, 1], throttle)], -1)


def replaced(values: Tensor, rows: np.ndarray, fresh: Tensor) -> Tensor:
    values = values.clone()
    values[rows] = fresh[rows]
    return values


def really(road: Road, throttle: float | None, options: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Discounted return and whether the road was kept, [N]."""
    n = road.env.num_envs
    total, is_on, has_failed = np.zeros(n), np.ones(n, bool), np.zeros(n, bool)
    for step in range(options.horizon):
        reward, failed, over = road.step(throttle if step < options.hold else None)
        total += options.discount**step * reward * is_on
        has_failed |= failed & is_on
        is_on &= ~over
    return total, ~has_failed


def dreamed(road: Road, throttle: float | None, options: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """The same by the model alone."""
    actor = road.actor
    model, policy = actor.world_model, actor.parts[actor.config.policy]
    parts = {name: torch.as_tensor(part) for name, part in road.seen.items()}
    action, memory = actor.act(parts, road.memory, deterministic=True)
    latent = {name: memory[name] for name in model.initial(1)}
    total, goes_on = torch.zeros(len(action)), torch.ones(len(action))
    for step in range(options.horizon):
        if throttle is not None and step < options.hold:
            action = held(action, throttle)
        latent = model.imagine_step(latent, action)
        total += options.discount**step * model.predict_reward(latent) * goes_on
        goes_on = goes_on * model.predict_continue(latent)
        action = to_vector(policy(model.features(latent)).mode(), model.spec.action)
    return total.numpy(), goes_on.numpy()


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--runs-dir", type=Path, default=Path("runs"))
    parser.add_argument("--which", choices=("latest", "best"), default="latest")
    parser.add_argument("--from", type=float, default=0.0, dest="first", help="metres from the line")
    parser.add_argument("--to", type=float, default=float("inf"), dest="last")
    parser.add_argument("--least-speed", type=float, default=0.0, help="m/s")
    parser.add_argument("--hold", type=int, default=8)
    parser.add_argument("--horizon", type=int, default=25)
    parser.add_argument("--discount", type=float, default=0.97)
    parser.add_argument("--cars", type=int, default=64)
    parser.add_argument("--looks", type=int, default=25)
    parser.add_argument("--seed", type=int, default=11)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    found = find_subject(options.run, options.runs_dir, which=options.which, controller=None, overrides=[])
    if not isinstance(found.actor, PolicyOverModel):
        parser.exit(1, f"{found.name} has no policy over a world model, so there are no dreams to compare.\n")
    road = Road(found.actor, found.make_env(options.cars, None), options.seed)
    rows: dict[float | None, list[np.ndarray]] = {throttle: [] for throttle in HELD}
    for step in range(WARM_UP + APART * options.looks):
        if step >= WARM_UP and (step - WARM_UP) % APART == 0:
            world, kept = road.env.world, road.keep()
            place, speed = world.s[: options.cars], np.hypot(world.vx, world.vy)[: options.cars]
            counts = (place >= options.first) & (place < options.last) & (speed >= options.least_speed)
            for throttle in HELD if counts.any() else ():
                expected = dreamed(road, throttle, options)
                came = really(road, throttle, options)
                road.go_back(kept)
                rows[throttle].append(np.stack([*came, *expected])[:, counts])
        road.step(None)
    if not rows[None]:
        parser.exit(1, "no car was there at that speed: widen --from and --to, or lower --least-speed.\n")
    print(f"{'throttle held':>14} {'states':>7} {'on the road':>12} {'dreamed':>8} {'return':>8} {'dreamed':>8} corr.")
    for throttle, found_rows in rows.items():
        reward, kept_road, hoped, goes_on = np.concatenate(found_rows, 1)
        name = "policy's own" if throttle is None else f"{throttle:.1f}"
        alike = np.corrcoef(reward, hoped)[0, 1]
        print(
            f"{name:>14} {len(reward):>7} {kept_road.mean():>12.2f} {goes_on.mean():>8.2f} "
            f"{reward.mean():>8.2f} {hoped.mean():>8.2f} {alike:>5.2f}"
        )


if __name__ == "__main__":
    main()
