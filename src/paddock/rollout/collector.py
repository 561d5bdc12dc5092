"""Experience of this process: a policy times a vector environment, written into a buffer's preallocated storage."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor

from paddock.core.errors import NonFiniteError
from paddock.core.seeding import derive_seed
from paddock.core.specs import Spec
from paddock.core.trees import map_tree
from paddock.environments import calls
from paddock.environments.calls import (
    EXCLUDED,
    FRAMES,
    EnvironmentAway,
    as_dict,
    final_observations,
    frames_of,
)
from paddock.environments.common_starts import reset_alike
from paddock.environments.rows import reset_rows
from paddock.rollout.actor import ActorModule, ActorState
from paddock.rollout.experience import (
    Arrays,
    EpisodeReturns,
    ExperienceConfig,
    ExperienceParts,
    TransitionSink,
    WorkerState,
)
from paddock.rollout.result import CollectResult

STEPS_PER_SECOND = 30.0  # of an environment that does not say


class Collector:
    """The local `Experience`: steps a vector environment with whatever actor it is given, and keeps the books on
    episodes.

    Both of Gymnasium's autoreset modes are understood. With next-step autoreset the step after an episode's end
    only resets: it is marked invalid, and counts neither as a step nor into an episode.

    `after_step`, where set, is called after every vector step: for viewers. `while_away`, where set, is called when the
    world stays away: it comes back when the same call should be tried again, or raises to break the collection off.

    first_row: where the environment's copies are rows of a larger one (`paddock.environments.rows`).
    """

    def __init__(self, env: VectorEnv, spec: Spec, *, seed: int, first_row: int = 0) -> None:
        self.env = env
        self.spec = spec
        self.seed, self._first_row = seed, first_row
        self.num_envs = env.num_envs
        self._resets_next_step = env.metadata.get("autoreset_mode") == AutoresetMode.NEXT_STEP
        shapes = {name: (self.num_envs, *part.shape) for name, part in spec.observation.items()}
        self._kept = {name: np.zeros(shapes[name], part.dtype) for name, part in spec.observation.items()}
        self.observation: Arrays = self._kept  # or the sink's own rows, where it keeps whole ones
        self._actor: ActorModule | None = None
        self._actor_state: ActorState = None
        self._is_reset = False
        self._restarts = 0  # how often whole episodes broke off what was under way
        self._episode_return = np.zeros(self.num_envs)
        self._episode_length = np.zeros(self.num_envs, np.int64)
        self._is_fresh = np.zeros(self.num_envs, bool)
        self._is_first = np.ones(self.num_envs, bool)
        self._env_frames = 0
        self.steps_under_way = 0  # taken in a collection that has not ended yet
        self.explores = True  # else the most likely action is taken
        self.after_step: Callable[[], None] | None = None
        self.while_away: Callable[[EnvironmentAway], None] | None = None
        self.workers: tuple[WorkerState, ...] = ()  # The environments are in this process.
        self.inexact: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether the environments' state can be saved, so that a resumed run is bit-identical."""
        return hasattr(self.env, "get_state") and hasattr(self.env, "set_state")

    @property
    def begins_episodes(self) -> bool:
        """Whether the next step is the first of an episode in every copy."""
        return bool(self._is_first.all())

    @property
    def view(self) -> Any | None:
        """What a viewer sees of the environment, if it says."""
        return getattr(self.env, "view", None)

    @property
    def time_step(self) -> float:
        """Seconds of one step of the environment."""
        return time_step(self.env)

    @property
    def reward_weights(self) -> dict[str, float]:
        """The weight of each reward term; empty where the environment has none."""
        return {name: float(weight) for name, weight in getattr(self.env, "reward_weights", {}).items()}

    def set_reward_weight(self, name: str, weight: float) -> None:
        """Weigh a reward term anew from the next step on."""
        self.env.set_reward_weight(name, weight)  # type: ignore[attr-defined]

    def collect(self, actor: ActorModule, sink: TransitionSink, steps: int) -> CollectResult:
        """Take at least `steps` decisions over all copies together (a whole number of vector steps)."""
        if not self._is_reset:
            self._reset(derive_seed(self.seed, "restart", self._restarts) if self._restarts else self.seed)
        if actor is not self._actor or self._actor_state is None:
            self._hand_over(actor)
        actor.watch(self.env)
        started, taken, device = time.perf_counter(), 0, actor.device
        ended = EndedEpisodes()
        self._env_frames = 0
        with torch.inference_mode():
            for _ in range(-(-steps // self.num_envs)):
                taken += self._step(actor, device, sink, ended)
                self.steps_under_way = taken
        self.steps_under_way = 0
        metrics = {"collect/steps_per_second": taken / max(time.perf_counter() - started, 1e-9), **ended.metrics()}
        extras = {"env_frames": self._env_frames, "ended": ended}
        return CollectResult(taken, ended.count, metrics, self.observation, extras)

    def run_episodes(self, actor: ActorModule, *, seed: int, starts: int, max_steps: int) -> EpisodeReturns:
        """One episode in each copy, of at most `max_steps` decisions; copy i begins as copy i + `starts` does.

        Episodes under way are broken off, and the next collection begins new ones: that is where buffers have to mark
        a discontinuity. Copies whose episode is over go on unseen until the last one's is.
        """
        observation = as_dict(reset_alike(self.env, seed=seed, starts=starts)[0])
        actor.watch(self.env)
        state, device = actor.initial_state(self.num_envs), actor.device
        returns, lengths = np.zeros(self.num_envs), np.zeros(self.num_envs, np.int64)
        is_running, frames, taken = np.ones(self.num_envs, bool), 0, 0
        with torch.inference_mode():
            while is_running.any() and taken < max_steps:
                seen = {name: torch.from_numpy(array).to(device) for name, array in observation.items()}
                action, state = actor.act(seen, state, deterministic=True)
                step = calls.step(self.env, actor.to_environment(action))
                observation, reward, terminated, truncated, info = as_dict(step[0]), *step[1:]
                _check_finite(observation, reward)
                returns += np.where(is_running, reward, 0.0)
                lengths += is_running
                frames += frames_of(info, self.num_envs)
                is_running &= ~(terminated | truncated)
                taken += 1
                self.steps_under_way = taken * self.num_envs
        self.steps_under_way = 0
        self._is_reset, self._restarts = False, self._restarts + 1
        return EpisodeReturns(returns, lengths, taken * self.num_envs, frames)

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _step(self, actor: ActorModule, device: torch.device, sink: TransitionSink, episodes: EndedEpisodes) -> int:
        # No copy on the CPU.
        observation = {name: torch.from_numpy(array).to(device) for name, array in self.observation.items()}
        action, self._actor_state = actor.act(observation, self._actor_state, deterministic=not self.explores)
        chosen = actor.to_environment(action)
        next_observation, reward, terminated, truncated, info = self._patiently(lambda: calls.step(self.env, chosen))
        next_observation = as_dict(next_observation)
        _check_finite(next_observation, reward)
        done = terminated | truncated
        acted = ~self._is_fresh
        excluded = info.get(EXCLUDED)
        valid = acted if excluded is None else acted & ~excluded
        transition: dict[str, Any] = {
            "observation": self.observation,
            "action": action.cpu().numpy(),
            "reward": reward,
            "terminated": terminated,
            "truncated": truncated,
            "valid": valid,
            "is_first": self._is_first,
            "next_observation": next_observation,
        }
        ended = np.flatnonzero(done)
        if len(ended) and not self._resets_next_step:
            transition["final_rows"] = ended
            if "final_obs" not in info:
                name = calls.name_of(self.env)
                raise calls.EnvironmentFailure(f"environment '{name}' ended an episode without 'final_obs' in info")
            transition["final_observation"] = final_observations(info, ended)
        self.observation = sink.add(transition) or self._keep(next_observation)

        self._episode_return += reward
        self._episode_length += valid
        episodes.step += 1
        if len(ended):
            episodes.add({"return": self._episode_return, "length": self._episode_length}, ended)
            episodes.add(info.get("final_info", {}), ended)
            self._episode_return[ended] = 0
            self._episode_length[ended] = 0
        begins = done
        if self._resets_next_step:
            self._is_fresh = done
            # What an actor remembers of the step that only reset is not of the new episode either.
            begins = ~acted
        self._is_first = begins if excluded is None else begins | excluded
        if self._actor_state is not None and (begins | done).any():
            rows = np.flatnonzero(begins | done)
            self._actor_state = _reset_rows(self._actor_state, actor.initial_state(len(rows)), rows)
        decisions = int(valid.sum()) if self._resets_next_step else self.num_envs
        self._env_frames += frames_of(info, decisions)
        if (after_step := self.after_step) is not None:  # Read once: another thread sets and removes it.
            after_step()
        return decisions

    def _patiently(self, call: Callable[[], Any]) -> Any:
        """What a call gives, made again and again while the world is away."""
        while True:
            try:
                return call()
            except EnvironmentAway as error:
                if self.while_away is None:
                    raise
                self.while_away(error)

    def _keep(self, observation: Arrays) -> Arrays:
        """A copy of parts that the environment may overwrite with its next step."""
        for name, array in self._kept.items():
            np.copyto(array, observation[name])
        return self._kept

    def _hand_over(self, actor: ActorModule) -> None:
        """Another controller acts from here on: it takes over what is remembered, or begins anew if it cannot."""
        fresh = actor.initial_state(self.num_envs)
        is_understood = (self._actor_state or {}).keys() == (fresh or {}).keys()
        self._actor = actor
        self._actor_state = self._actor_state if is_understood else fresh

    def _reset(self, seed: int) -> None:
        observation, _ = self._patiently(lambda: reset_rows(self.env, seed=seed, first=self._first_row))
        self.observation = self._keep(as_dict(observation))
        self._episode_return[:] = 0
        self._episode_length[:] = 0
        self._is_fresh[:] = False
        self._is_first = np.ones(self.num_envs, bool)
        self._actor_state = None
        self._is_reset = True

    def get_state(self) -> dict[str, Any]:
        """Everything needed to go on as if nothing had happened, if the environment can give its state."""
        if not self._is_reset:
            return {"is_reset": False, "restarts": self._restarts}
        state: dict[str, Any] = {
            "is_reset": True,
            "restarts": self._restarts,
            "observation": dict(self.observation),
            "actor_state": self._actor_state,
            "episode_return": self._episode_return,
            "episode_length": self._episode_length,
            "is_fresh": self._is_fresh,
            "is_first": self._is_first,
            "explores": self.explores,
        }
        if self.is_exact:
            state["env"] = calls.call(self.env, "get_state", self.env.get_state)  # type: ignore[attr-defined]
        return map_tree(lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf, state)

    def set_state(self, state: dict[str, Any], *, agent_steps: int) -> None:
        """Go on from a saved state; where the environment has none, start fresh episodes from a derived seed."""
        self.explores = state.get("explores", True)
        self._restarts = state.get("restarts", 0)  # Not in checkpoints of before.
        if not state["is_reset"]:
            self._is_reset = False
            return
        if "env" not in state or not self.is_exact:
            self._reset(derive_seed(self.seed, "resume", agent_steps))
            return
        calls.call(self.env, "set_state", self.env.set_state, state["env"])  # type: ignore[attr-defined]
        self.observation = self._keep(state["observation"])
        self._actor_state = state["actor_state"]
        self._episode_return[:] = state["episode_return"]
        self._episode_length[:] = state["episode_length"]
        self._is_fresh = state["is_fresh"]
        self._is_first = state["is_first"]
        self._is_reset = True


def time_step(env: VectorEnv) -> float:
    """Seconds of one step of an environment."""
    return 1.0 / float(env.metadata.get("render_fps") or STEPS_PER_SECOND)


class LocalConfig(ExperienceConfig):
    """Nothing to choose."""


def local(config: LocalConfig, given: ExperienceParts) -> Collector:
    """The experience of the environments in this process."""
    return Collector(given.environment, given.spec, seed=given.seed)


class EndedEpisodes:
    """What the episodes that ended during one collection have in common, by name: return, length, and whatever
    numbers the environment gives as arrays in `final_info`. step: vector steps so far."""

    def __init__(self) -> None:
        self.count = self.step = 0
        self._values: dict[str, list[tuple[int, np.ndarray]]] = {}  # by name, of each step in which episodes ended

    @classmethod
    def side_by_side(cls, parts: Sequence[EndedEpisodes]) -> EndedEpisodes:
        """Of the same steps of several groups of environments, in the order in which one group of all would have
        them."""
        joined = cls()
        joined.count = sum(part.count for part in parts)
        for name in dict.fromkeys(name for part in parts for name in part._values):
            found = [entry for part in parts for entry in part._values.get(name, [])]
            joined._values[name] = sorted(found, key=lambda entry: entry[0])  # Stable: rows stay in order.
        return joined

    def add(self, values: Mapping[str, Any], rows: np.ndarray, prefix: str = "") -> None:
        """Take `rows` of each array [N]; mappings of arrays are read likewise, names that begin with _ are masks."""
        for name, array in values.items():
            if name.startswith("_") or name in ("episode_return", "episode_length", FRAMES):
                continue
            if isinstance(array, Mapping):
                self.add(array, rows, f"{prefix}{name}/")
            elif isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in "biuf":
                self._values.setdefault(f"{prefix}{name}", []).append((self.step, array[rows]))
        if "return" in values and not prefix:
            self.count += len(rows)

    def metrics(self) -> dict[str, float]:
        """Means over the episodes; one that has no number (not a lap, say) is left out of that mean."""
        found = {
            name: np.concatenate([values for _, values in parts]).astype(np.float64)
            for name, parts in self._values.items()
        }
        return {
            f"collect/{name}": float(np.nanmean(values)) for name, values in found.items() if np.isfinite(values).any()
        }


def _check_finite(observation: dict[str, np.ndarray], reward: np.ndarray) -> None:
    for name, array in [*observation.items(), ("reward", reward)]:
        # A sum is several times cheaper than a test of every number, and not finite if any of them is not.
        if array.dtype.kind == "f" and not math.isfinite(array.sum()) and not np.isfinite(array).all():
            raise NonFiniteError(f"'{name}' from the environment")


def _reset_rows(state: ActorState, fresh: ActorState, rows: np.ndarray) -> ActorState:
    """Put fresh recurrent state where an episode ended."""
    if state is None or fresh is None:
        return state
    index = torch.from_numpy(rows)
    return {name: _replaced(values, index, fresh[name]) for name, values in state.items()}


def _replaced(values: Tensor, index: Tensor, rows: Tensor) -> Tensor:
    return values.index_copy(0, index.to(values.device), rows)
