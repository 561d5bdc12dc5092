"""Steps as they come, put together as episodes; and what is cut from their beginnings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from paddock.buffers.episodes import CORRECTED, INTERVENTION, Episode
from paddock.core.specs import Spec


class EpisodeBuilder:
    """Collects the steps of one environment. Arrays are copied."""

    def __init__(self, spec: Spec, information: Mapping[str, Any]) -> None:
        self.spec, self.information = spec, dict(information)
        self.clear()

    def __len__(self) -> int:
        return len(self._rewards)

    @property
    def first(self) -> dict[str, np.ndarray]:
        """The observation that the episode began with."""
        return {name: values[0] for name, values in self._observations.items()}

    def begin(self, observation: Mapping[str, np.ndarray], **information: Any) -> None:
        """Start an episode with the first observation; what was collected before is dropped."""
        self.clear()
        self.information |= information
        self._keep(observation)

    def add(
        self,
        action: Any,
        reward: float,
        observation: Mapping[str, np.ndarray],
        *,
        terminated: bool = False,
        truncated: bool = False,
        label: Any = None,
        is_intervention: bool | None = None,
        is_idle: bool = False,
    ) -> None:
        """A step and the observation after it. action, label: in the environment's range; a label is what the teacher
        would have done. is_intervention: whether the teacher had the controls; None where there is no teacher.
        is_idle: nothing moves after the step."""
        assert self._observations, "an episode has to begin with an observation"
        self._keep(observation)
        self._actions.append(np.array(action, self.spec.action.dtype))
        self._labels.append(None if label is None else np.array(label, self.spec.action.dtype))
        self._rewards.append(reward)
        self._flags.append((terminated, truncated))
        self._interventions.append(is_intervention)
        self._idle.append(is_idle)

    def finish(self, *, keeps_idle: bool = False) -> Episode | None:
        """The episode, without the steps at its beginning in which nothing moved; None where nothing is left."""
        start = 0
        while not keeps_idle and start < len(self) and self._idle[start]:
            start += 1
        if start == len(self):
            self.clear()
            return None
        flags = np.array(self._flags, bool)
        has_labels = any(label is not None for label in self._labels)
        marks = {}
        if any(one is not None for one in self._interventions):
            marks[INTERVENTION] = np.array([bool(one) for one in self._interventions])
        if has_labels:
            marks[CORRECTED] = np.array([label is not None for label in self._labels])
        whole = Episode(
            observations={name: np.stack(values) for name, values in self._observations.items()},
            actions=np.stack(self._actions),
            rewards=np.array(self._rewards, np.float32),
            terminations=flags[:, 0],
            truncations=flags[:, 1],
            labels=np.stack([a if b is None else b for a, b in zip(self._actions, self._labels, strict=True)])
            if has_labels
            else None,
            marks=marks,
            information=dict(self.information),
        )
        episode = whole.part(start, len(self))
        self.clear()
        return episode

    def clear(self) -> None:
        """Drop what was collected."""
        self._observations: dict[str, list[np.ndarray]] = {}
        self._actions: list[np.ndarray] = []
        self._labels: list[np.ndarray | None] = []
        self._rewards: list[float] = []
        self._flags: list[tuple[bool, bool]] = []
        self._interventions: list[bool | None] = []
        self._idle: list[bool] = []

    def _keep(self, observation: Mapping[str, np.ndarray]) -> None:
        for name, part in self.spec.observation.items():
            self._observations.setdefault(name, []).append(np.array(observation[name], part.dtype))
