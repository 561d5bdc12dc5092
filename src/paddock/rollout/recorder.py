"""Records episodes as demonstrations: a driver times a vector environment, with noise, and with a student that errs.

Shapes: N environments in parallel. Actions here are in the environment's own range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv

from paddock.buffers.episode_builder import EpisodeBuilder
from paddock.buffers.episodes import Episode
from paddock.core.seeding import generator
from paddock.core.specs import ArraySpec, Spec
from paddock.environments import calls
from paddock.environments.calls import as_dict, final_observations
from paddock.rollout.actor import ActorModule, ActorState

Arrays = Mapping[str, np.ndarray]
PERSISTENCE = 0.9  # of the noise from one step to the next: noise that changes with each step hardly moves a car
STILL = 1e-6  # change of an observation below which nothing has moved


class EpisodeDriver(Protocol):
    """Chooses the actions of all copies."""

    name: str

    def act(self, observation: Arrays) -> np.ndarray:
        """Actions [N, ...] for observation parts [N, ...]."""

    def restart(self, begins: np.ndarray) -> None:
        """The copies that `begins` [N] marks start a new episode."""


class ActorDriver:
    """A policy as the driver, with a recurrent state of its own."""

    def __init__(self, actor: ActorModule, copies: int, name: str, *, deterministic: bool = True) -> None:
        self.name, self._actor, self._deterministic = name, actor, deterministic
        self._state: ActorState = actor.initial_state(copies)

    def act(self, observation: Arrays) -> np.ndarray:
        seen = {name: torch.as_tensor(part, device=self._actor.device) for name, part in observation.items()}
        with torch.inference_mode():
            action, self._state = self._actor.act(seen, self._state, deterministic=self._deterministic)
        return self._actor.to_environment(action)

    def restart(self, begins: np.ndarray) -> None:
        if self._state is not None and begins.any():
            self._state = self._actor.forget(self._state, begins)


@dataclass(frozen=True)
class RecordingRules:
    """noise: std of what is added to each number of an action, as a share of half its range; of choices, the chance of
    a random one. With noise or a student, the driver's own action is the label of a step.

    cuts: of a step's info, where an episode ends although the environment goes on: [N], and those copies begin anew.
    is_idle: of a step's info, where nothing moves yet: [N]; by default where no observation has changed so far.
    about: more information on the episode that begins in a copy.
    student, teacher_share: who drives where a draw in each step is not below the share; see DAgger, arXiv:1011.0686.
    """

    noise: float = 0.0
    keeps_idle: bool = False
    cuts: Callable[[Mapping[str, Any]], np.ndarray] | None = None
    is_idle: Callable[[Mapping[str, Any]], np.ndarray] | None = None
    about: Callable[[int], Mapping[str, Any]] = field(default=lambda copy: {})
    student: EpisodeDriver | None = None
    teacher_share: float = 1.0


class EpisodeRecorder:
    """Gives episodes as they end, for ever, also those that have failed."""

    def __init__(
        self, env: VectorEnv, spec: Spec, driver: EpisodeDriver, rules: RecordingRules | None = None, *, seed: int
    ) -> None:
        self._env, self._spec, self._driver, self._seed = env, spec, driver, seed
        self._rules = rules or RecordingRules()
        self._random = generator(seed, "recording")
        self._noise = np.zeros((env.num_envs, *spec.action.shape))
        self._resets_next_step = env.metadata.get("autoreset_mode") == AutoresetMode.NEXT_STEP
        self.steps = 0
        information = {"driver": driver.name, "seed": seed, "noise": self._rules.noise}
        if self._rules.student is not None:
            information |= {"student": self._rules.student.name, "teacher_share": self._rules.teacher_share}
        self._builders = [EpisodeBuilder(spec, information) for _ in range(env.num_envs)]

    def episodes(self) -> Iterator[Episode]:
        env, rules, copies = self._env, self._rules, self._env.num_envs
        observation = self._begin(as_dict(calls.reset(env, seed=self._seed)[0]), np.ones(copies, bool))
        fresh = np.zeros(copies, bool)
        while True:
            label = self._driver.act(observation)
            is_teacher, action = self._executed(observation, label)
            step = calls.step(env, action)
            following, reward, terminated, truncated, info = as_dict(step[0]), *step[1:]
            done = terminated | truncated
            cut = np.zeros(copies, bool) if rules.cuts is None else rules.cuts(info) & ~done
            last = self._last_observations(following, info, done)
            idle = None if rules.is_idle is None else rules.is_idle(info)
            for copy in np.flatnonzero(~fresh).tolist():
                seen = {name: part[copy] for name, part in last.items()}
                self._builders[copy].add(
                    action[copy],
                    float(reward[copy]),
                    seen,
                    terminated=bool(terminated[copy]),
                    truncated=bool(truncated[copy] | cut[copy]),
                    label=label[copy] if rules.noise or rules.student is not None else None,
                    is_intervention=bool(is_teacher[copy]) if rules.student is not None else None,
                    is_idle=self._is_still(copy, seen) if idle is None else bool(idle[copy]),
                )
                self.steps += 1
                is_over = done[copy] or cut[copy]
                if is_over and (episode := self._builders[copy].finish(keeps_idle=rules.keeps_idle)) is not None:
                    yield episode
            if cut.any():
                following = as_dict(env.reset(options={"reset_mask": cut})[0])
            begins = fresh if self._resets_next_step else done | cut
            fresh = done if self._resets_next_step else fresh
            observation = self._begin(following, begins)

    def _begin(self, observation: Arrays, begins: np.ndarray) -> Arrays:
        for copy in np.flatnonzero(begins).tolist():
            first = {name: part[copy] for name, part in observation.items()}
            self._builders[copy].begin(first, **self._rules.about(copy))
        self._noise[begins] = 0.0
        for driver in (self._driver, self._rules.student):
            if driver is not None:
                driver.restart(begins)
        return observation

    def _executed(self, observation: Arrays, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Whether the teacher has the controls [N], and the actions [N, ...] that are taken."""
        rules, is_teacher = self._rules, np.ones(len(label), bool)
        action = label
        if rules.student is not None:
            is_teacher = self._random.random(len(label)) < rules.teacher_share
            chosen = is_teacher.reshape(-1, *[1] * (label.ndim - 1))
            action = np.where(chosen, label, rules.student.act(observation))
        return is_teacher, self._with_noise(action).astype(self._spec.action.dtype)

    def _with_noise(self, action: np.ndarray) -> np.ndarray:
        noise, spec, random = self._rules.noise, self._spec.action, self._random
        if not noise:
            return action
        if spec.choices is not None:
            return np.where(random.random(len(action)) < noise, random.integers(spec.choices, size=len(action)), action)
        drawn = random.normal(size=self._noise.shape) * noise * np.sqrt(1 - PERSISTENCE**2)
        self._noise = PERSISTENCE * self._noise + drawn
        low, high = spec.bounds()
        return np.clip(action + self._noise * _reach(spec), low, high)

    def _last_observations(self, following: Arrays, info: Mapping[str, Any], done: np.ndarray) -> Arrays:
        """What followed each step, also where the environment has begun the next episode already."""
        rows = np.flatnonzero(done)
        if self._resets_next_step or not len(rows):
            return following
        final = final_observations(dict(info), rows)
        last = {name: part.copy() for name, part in following.items()}
        for name, part in last.items():
            part[rows] = final[name]
        return last

    def _is_still(self, copy: int, seen: Arrays) -> bool:
        first = self._builders[copy].first
        return all(
            np.abs(np.asarray(part, np.float64) - np.asarray(first[name], np.float64)).max(initial=0.0) <= STILL
            for name, part in seen.items()
        )


def _reach(spec: ArraySpec) -> Any:
    """Half the range of each number of an action; 1 where it has no bounds."""
    if spec.low is None or spec.high is None:
        return 1.0
    low, high = spec.bounds()
    return (high - low) / 2
