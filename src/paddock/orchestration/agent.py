"""A trained policy for use in Python: it acts, makes the environment that it was trained in, and is evaluated."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper

from paddock.core.errors import InputError, unknown_choice
from paddock.core.permission import UntrustedError
from paddock.core.specs import Spec
from paddock.evaluation.subject import Subject
from paddock.orchestration.subject import ENVIRONMENT, find_subject
from paddock.rollout.actor import ActorState

log = logging.getLogger(__name__)

POLICIES = ("best", "latest")


class Agent:
    """What `paddock.load` gives. A policy with a memory keeps it here, for one environment at a time."""

    def __init__(self, subject: Subject, source: Mapping[str, Any]) -> None:
        """`source`: the arguments of `find_subject` that led to `subject`."""
        self.name: str = subject.name
        self.folder: Path = subject.folder
        self.actor = subject.actor.eval()
        self._subject, self._source = subject, source
        self._memory: ActorState = None

    @property
    def spec(self) -> Spec:
        """What the agent's environment observes and takes, by name, shape and dtype."""
        return self.actor.spec

    @property
    def has_memory(self) -> bool:
        """Whether actions depend on earlier observations of the episode."""
        return self.actor.initial_state(1) is not None

    def make_env(self, num_envs: int = 1, render_mode: str | None = None, **changes: Any) -> VectorEnv:
        """`num_envs` copies of the environment that the agent was trained in, as one Gymnasium vector environment.

        Ended episodes begin anew by themselves. `changes` are options of the environment: `track="serpent"`, say. Where
        the agent has a memory, the environment resets it wherever an episode begins.
        """
        if num_envs < 1:
            raise InputError(f"num_envs is {num_envs}; there has to be at least one copy.")
        env = self._with_reward(changes).make_env(num_envs, render_mode)
        if isinstance(env.unwrapped, SyncVectorEnv):
            env.unwrapped.copy = True  # Training reads an observation at once; in a loop of one's own it may be kept.
        return _Reminding(env, self) if self.has_memory else env

    def act(self, observation: Any, *, deterministic: bool = True) -> np.ndarray:
        """The environment's action for an observation: of one copy, or of N copies with N in front; a dict where the
        environment's is one. `deterministic`: the likeliest action; else one is sampled."""
        action, self._memory = self.actor.predict(observation, self._memory, deterministic=deterministic)
        return action

    def predict(
        self, observation: Any, state: ActorState = None, *, deterministic: bool = True
    ) -> tuple[np.ndarray, ActorState]:
        """As `act`, with the memory passed in and handed back; None begins an episode."""
        return self.actor.predict(observation, state, deterministic=deterministic)

    def reset(self, ended: np.ndarray | None = None) -> None:
        """Forget the episode so far, where there is a memory: in the copies [N] that `ended` marks, or in all."""
        if ended is None or self._memory is None:
            self._memory = None
        elif np.any(ended):
            self._memory = self.actor.forget(self._memory, np.atleast_1d(ended))

    def evaluate(
        self, episodes: int = 64, *, seed: int = 1000, deterministic: bool = True, **changes: Any
    ) -> dict[str, Any]:
        """Whole episodes with fixed seeds, evaluated as `paddock evaluate --json` does; `changes` as in `make_env`."""
        if episodes < 1:
            raise InputError(f"episodes is {episodes}; at least one is needed.")
        subject = replace(self._changed(changes), actor=self.actor)
        _, values = subject.evaluate(episodes=episodes, seed=seed, deterministic=deterministic)
        return values

    def _changed(self, changes: Mapping[str, Any]) -> Subject:
        return self._subject if not changes else find_subject(**self._source, overrides=_overrides(changes))

    def _with_reward(self, changes: Mapping[str, Any]) -> Subject:
        """The environment with the reward of training, where functions in files belong to it and may run here."""
        subject = self._changed(changes)
        if not subject.left_out:
            return subject
        try:
            return find_subject(**self._source, overrides=_overrides(changes), keeps_reward=True)
        except UntrustedError:
            names = ", ".join(subject.left_out)
            log.warning(
                "'%s' comes from elsewhere: its reward functions (%s) are left out. trust=True uses them.",
                self.name,
                names,
            )
            return subject

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {part.shape}" for name, part in self.spec.observation.items())
        return f"<Agent '{self.name}': {parts}>"


def load_agent(
    given: str | Path,
    *,
    which: str = "best",
    controller: str | None = None,
    runs_dir: str | Path = "runs",
    trust: bool = False,
) -> Agent:
    """The agent of a run (its folder, or its name in `runs_dir`) or of a saved policy's folder.

    which: a run's `best` policy by evaluation, or its `latest`. controller: another of the run's controllers.
    trust: also use a folder from elsewhere that would run code of its maker's.
    """
    if which not in POLICIES:
        raise unknown_choice("policy of a run", which, POLICIES)
    if not str(given):
        raise InputError("name a run or a policy's folder, for example paddock.load('runs/NAME').")
    source: dict[str, Any] = {"given": str(given), "runs_dir": Path(runs_dir), "which": which}
    source |= {"controller": controller, "trusts": trust}
    return Agent(find_subject(**source), source)


class _Reminding(VectorWrapper):
    """Tells an agent with a memory where episodes begin."""

    def __init__(self, env: VectorEnv, agent: Agent) -> None:
        super().__init__(env)
        self._agent = agent
        self._resets_next_step = env.metadata.get("autoreset_mode") == AutoresetMode.NEXT_STEP
        self._ended = np.zeros(env.num_envs, bool)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._agent.reset()
        self._ended[:] = False
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(actions)
        ended = np.asarray(terminated) | np.asarray(truncated)
        # Where an episode begins a step after the last one ended, the observation in between belongs to neither.
        self._agent.reset(ended | self._ended if self._resets_next_step else ended)
        self._ended = ended
        return observation, reward, terminated, truncated, info

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.env, name)


def _overrides(changes: Mapping[str, Any]) -> list[str]:
    return [f"{ENVIRONMENT}{name}={json.dumps(_plain(value))}" for name, value in changes.items()]


def _plain(value: Any) -> Any:
    """JSON's kinds of values from those that Python code uses."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value
