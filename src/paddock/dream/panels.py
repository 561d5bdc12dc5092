"""Road, reconstruction and dream side by side, all driven by the same actions from the same start."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from paddock.components.actions import from_vector
from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec
from paddock.dream.env import DreamVectorEnv, as_pictures, enlarged
from paddock.dream.source import source_of
from paddock.environments import calls
from paddock.environments.calls import as_dict
from paddock.evaluation.subject import Subject
from paddock.rollout.model_actors import ModelActor

PANELS = ("Road", "Reconstruction", "Dream")
SIDE, GAP = 256, 8  # pixels of a panel, and between two
THRESHOLD = 0.3  # of the wheel, beyond which a choice is left or right


class DreamPanels:
    """One car on the road (the real environment), what its world model makes of each picture, and the same model's
    dream, which sees the first picture and nothing more. What ends on the road stays as it was last seen."""

    def __init__(self, subject: Subject, *, temperature: float = 1.0) -> None:
        self._actor = subject.actor.eval()
        source = source_of(self._actor, subject.make_env, starts=1, context=1, seed=0)
        as_pictures(dict(source.seen))  # Refuses what cannot be shown.
        self._road = subject.make_env(1, None)
        self.dream = DreamVectorEnv(1, source=source, temperature=temperature, max_episode_steps=10**9)
        self.spec, self.model = source.spec, source.model
        self.rate = float(self._road.metadata.get("render_fps") or 10.0)
        self.begin(0)

    def begin(self, seed: int) -> None:
        """A new start on the road, and a dream of it."""
        observation, _ = calls.reset(self._road, seed=seed)
        self._seen = self._parts(observation)
        with torch.inference_mode():
            state = self._actor.initial_state(1)
            assert state is not None, "an actor with a world model remembers"
            after = self._actor.act(self._seen, state, deterministic=True)[1] or {}
        self._latent = {name: after[name] for name in self.model.initial(1)}
        self.dream.reset(seed=seed)
        self.dream.latent = dict(self._latent)
        self.is_road_over = self.is_dream_over = False
        self.steps = 0

    def step(self, action: Any) -> None:
        """The same action of the environment, [1, ...], everywhere."""
        vectors = self.dream._vectors(action)
        dreamt = self.dream.latent
        with torch.inference_mode(), self.dream._own_draws():
            self.dream.latent, _, ended = self.dream.dream.step(dreamt, vectors)
        self.is_dream_over = self.is_dream_over or bool(ended[0])
        self.steps += 1
        if self.is_road_over:
            return
        observation, _, terminated, truncated, _ = calls.step(self._road, action)
        if terminated[0] or truncated[0]:
            self.is_road_over = True
            return
        self._seen = self._parts(observation)
        with torch.inference_mode():
            self._latent = self.model.observe(self._latent, vectors, self._seen, torch.zeros(1, dtype=torch.bool))

    def act(self) -> Any:
        """What the policy would do on the road."""
        if not isinstance(self._actor, ModelActor):
            raise InputError(f"{type(self._actor).__name__} does not act with a world model; drive the dream yourself.")
        with torch.inference_mode():
            memory = self._actor.initial_state(1) or {}
            vector, _ = self._actor.choose(self._latent, memory, deterministic=True)
        return self._actor.to_environment(from_vector(vector, self.spec.action))

    def pictures(self) -> list[NDArray[np.uint8]]:
        """uint8 [height, width, 3] each, as large as the model sees them: what `PANELS` names."""
        with torch.inference_mode():
            again = {name: part.numpy() for name, part in self.model.decode(self._latent).items()}
        shown = [as_pictures({name: part.numpy() for name, part in self._seen.items()})[0], as_pictures(again)[0]]
        return [*shown, self.dream.pictures()[0]]

    def picture(self) -> NDArray[np.uint8]:
        """uint8 [height, width, 3]: the three panels in a row."""
        panels = [enlarged(one, SIDE) for one in self.pictures()]
        gap = np.full((panels[0].shape[0], GAP, 3), 255, np.uint8)
        return np.concatenate([panels[0], gap, panels[1], gap, panels[2]], 1)

    def close(self) -> None:
        self._road.close()

    def _parts(self, observation: Any) -> dict[str, torch.Tensor]:
        return {name: torch.from_numpy(np.array(part)) for name, part in as_dict(observation).items()}


def action_of(spec: ArraySpec, steer: float, throttle: float, brake: float) -> NDArray[Any]:
    """A person's wheel (left positive) and pedals as an action [1, ...] of the environment."""
    if spec.choices == 3:
        return np.array([0 if steer > THRESHOLD else 2 if steer < -THRESHOLD else 1])
    if spec.is_discrete or spec.size not in (1, 2, 3):
        raise InputError(f"a wheel and two pedals do not fit the actions of this dream: {spec}.")
    low, high = spec.bounds()
    # CarRacing has three: steering with right positive, gas, brake.
    given = [-steer, throttle, brake] if spec.size == 3 else [steer, throttle - brake][: spec.size]
    return np.clip(given, low.reshape(-1), high.reshape(-1)).astype(np.float32).reshape(1, *spec.shape)
