"""`paddock/Dream-v0`: a trained world model as a Gymnasium vector environment.

Shapes: N dreams side by side, F features, A numbers of an action's vector.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from paddock.components.actions import to_vector
from paddock.components.dynamics.dream import Dream, Ends, replaced
from paddock.config.schema import Target
from paddock.core.errors import InputError
from paddock.core.seeding import derive_seed
from paddock.core.specs import ArraySpec
from paddock.dream.source import FROM_A_RUN, DreamSource, find_dream
from paddock.environments.base import EnvironmentConfig

TARGET = "paddock.dream.env.make"
Seen = Literal["features", "decoded"]
ENLARGED = 256  # pixels on a side of a rendered picture, about
RENDER_RATE = 10


class DreamEnvConfig(EnvironmentConfig):
    """Options of the dream. run: the folder of a run or a policy; observation: the model's `features`, or what it
    decodes them to, in the parts of the real environment; starts: real starts that dreams begin with, each after
    `context` real observations."""

    target_: Target = Field(default=TARGET, alias="_target_")
    run: str
    which: Literal["best", "latest"] = "latest"
    observation: Seen = "features"
    temperature: float = Field(default=1.0, gt=0)
    ends: Ends = "threshold"
    max_episode_steps: int = Field(default=500, ge=1)
    starts: int = Field(default=64, ge=1)
    context: int = Field(default=1, ge=1)
    start_seed: int = Field(default=0, ge=0)


def make(config: DreamEnvConfig, num_envs: int, render_mode: str | None = None) -> DreamVectorEnv:
    """`num_envs` dreams of the run's world model."""
    options = config.model_dump(exclude={"target_", "num_envs"})
    return DreamVectorEnv(num_envs, render_mode, **options)


class DreamVectorEnv(VectorEnv):
    """N dreams of one world model. Options are those of `DreamEnvConfig`, by keyword; `source` in place of `run` takes
    any model with the protocol of world models.

    Rewards float32 [N] and ends are the model's; `truncated` by `max_episode_steps`. Ended dreams begin anew within the
    same step, at one of the starts.
    """

    def __init__(
        self,
        num_envs: int = 1,
        render_mode: str | None = None,
        *,
        run: str | None = None,
        source: DreamSource | None = None,
        which: str = "latest",
        observation: Seen = "features",
        temperature: float = 1.0,
        ends: Ends = "threshold",
        max_episode_steps: int = 500,
        starts: int = 64,
        context: int = 1,
        start_seed: int = 0,
    ) -> None:
        if source is None:
            if run is None:
                raise InputError(f"a dream needs a run whose world model it is: {FROM_A_RUN}.")
            options = {"starts": starts, "context": context, "seed": start_seed, "which": which}
            source = find_dream(run, Path("runs"), **options)[0]  # type: ignore[arg-type]
        self.source, self.model = source, source.model
        self.dream = Dream(source.model, temperature=temperature, ends=ends)
        self.num_envs, self.render_mode, self.max_steps = num_envs, render_mode, max_episode_steps
        self.seen: Seen = observation
        self.metadata = {
            "render_modes": ["rgb_array"],
            "render_fps": RENDER_RATE,
            "autoreset_mode": AutoresetMode.SAME_STEP,
        }
        self.single_observation_space = self._observation_space()
        self.single_action_space = _space(source.spec.action)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._draws = torch.Generator().manual_seed(0).get_state()
        self._time = np.zeros(num_envs, np.int64)
        self.latent = self._begun(np.zeros(num_envs, np.int64))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin dreams. Options: `starts` int [N], which of the starts each begins with."""
        super().reset(seed=seed)
        if seed is not None:
            self._draws = torch.Generator().manual_seed(derive_seed(seed, "dream")).get_state()
        chosen = (options or {}).get("starts")
        at = self.np_random.integers(self.source.size, size=self.num_envs) if chosen is None else np.asarray(chosen)
        self.latent, self._time[:] = self._begun(at), 0
        return self._observe(self.latent), {}

    def reset_alike(self, *, seed: int, starts: int) -> tuple[Any, dict[str, Any]]:
        """Begin dreams in which copy i has the start of copy i + `starts`; what is drawn on the way differs."""
        self.reset(seed=seed)
        chosen = self.np_random.integers(self.source.size, size=starts)[np.arange(self.num_envs) % starts]
        return self.reset(options={"starts": chosen})

    def step(self, actions: Any) -> tuple[Any, NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict]:
        """One imagined step of every dream."""
        with torch.inference_mode(), self._own_draws():
            self.latent, reward, ended = self.dream.step(self.latent, self._vectors(actions))
        self._time += 1
        terminated = ended.numpy().copy()
        truncated = ~terminated & (self._time >= self.max_steps)
        observation, done = self._observe(self.latent), terminated | truncated
        info: dict[str, Any] = {}
        if done.any():
            info["final_obs"], info["_final_obs"] = observation, done
            rows = np.flatnonzero(done)
            fresh = self._begun(self.np_random.integers(self.source.size, size=len(rows)))
            self.latent, self._time[rows] = replaced(self.latent, torch.from_numpy(rows), fresh), 0
            observation = self._observe(self.latent)
        return observation, reward.float().numpy().copy(), terminated, truncated, info

    def render(self) -> tuple[NDArray[np.uint8], ...]:
        """What each dream looks like: its decoded picture, enlarged."""
        return tuple(enlarged(picture) for picture in self.pictures())

    def pictures(self) -> NDArray[np.uint8]:
        """uint8 [N, height, width, 3]: the decoded picture of every dream."""
        with torch.inference_mode():
            parts = {name: part.numpy() for name, part in self.model.decode(self.latent).items()}
        return as_pictures(parts)

    def get_state(self) -> dict[str, Any]:
        """Everything that changes, random numbers included."""
        return {
            "latent": {name: part.numpy().copy() for name, part in self.latent.items()},
            "time": self._time.copy(),
            "draws": self._draws.numpy().copy(),
            "random": self.np_random.bit_generator.state,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.latent = {name: torch.from_numpy(np.array(part)) for name, part in state["latent"].items()}
        self._time[:] = state["time"]
        self._draws = torch.from_numpy(np.array(state["draws"]))
        self.np_random.bit_generator.state = state["random"]

    @contextmanager
    def _own_draws(self) -> Iterator[None]:
        """Inside, torch draws from the dream's own generator, and training's is left as it was."""
        outside = torch.get_rng_state()
        torch.set_rng_state(self._draws)
        try:
            yield
        finally:
            self._draws = torch.get_rng_state()
            torch.set_rng_state(outside)

    def _begun(self, at: NDArray[np.int64]) -> dict[str, Tensor]:
        return {name: part[torch.from_numpy(at)] for name, part in self.source.starts.items()}

    def _vectors(self, actions: Any) -> Tensor:
        """Actions of the environment, in its own bounds, as vectors [N, A]."""
        action, given = self.source.spec.action, np.asarray(actions)
        if not action.is_discrete and action.low is not None and action.high is not None:
            low, high = action.bounds()
            given = (given - (high + low) / 2) / np.maximum((high - low) / 2, 1e-9)
        return to_vector(torch.as_tensor(np.asarray(given)), action)

    def _observe(self, latent: dict[str, Tensor]) -> Any:
        with torch.inference_mode():
            if self.seen == "features":
                return self.model.features(latent).float().numpy().copy()
            decoded = self.model.decode(latent)
        parts = {name: _as_dtype(part.numpy(), self.source.spec.observation[name]) for name, part in decoded.items()}
        return parts if self.source.spec.is_dict else next(iter(parts.values()))

    def _observation_space(self) -> spaces.Space:
        if self.seen == "features":
            with torch.inference_mode():
                size = self.model.features({name: part[:1] for name, part in self.source.starts.items()}).shape[-1]
            return spaces.Box(-np.inf, np.inf, (size,), np.float32)
        parts = {name: _space(part) for name, part in self.source.spec.observation.items()}
        return spaces.Dict(parts) if self.source.spec.is_dict else next(iter(parts.values()))


def as_pictures(parts: dict[str, NDArray[Any]]) -> NDArray[np.uint8]:
    """The picture among observation parts [N, ...] as uint8 [N, height, width, 3]; of several channels the first is
    shown in grey, unless they are three colours."""
    for part in parts.values():
        if part.ndim == 4:
            pixels = part if part.shape[-1] <= part.shape[1] else np.moveaxis(part, 1, -1)
            pixels = pixels if pixels.shape[-1] == 3 else np.repeat(pixels[..., :1], 3, -1)
            return np.clip(np.rint(pixels), 0, 255).astype(np.uint8)
    raise InputError(f"there is no picture in this dream: it decodes to {', '.join(parts)}. Take a run that sees.")


def enlarged(picture: NDArray[np.uint8], side: int = ENLARGED) -> NDArray[np.uint8]:
    """A picture whose pixels are squares, about `side` pixels high."""
    times = max(side // picture.shape[0], 1)
    return np.repeat(np.repeat(picture, times, 0), times, 1)


def _as_dtype(values: NDArray[Any], part: ArraySpec) -> NDArray[Any]:
    if part.dtype != "uint8":
        return values.astype(part.dtype)
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def _space(part: ArraySpec) -> spaces.Space:
    if part.choices is not None:
        return spaces.Discrete(part.choices)
    low, high = part.bounds()
    return spaces.Box(low, high, part.shape, np.dtype(part.dtype))
