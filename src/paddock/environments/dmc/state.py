"""The whole state of a dm-control task as plain arrays: physics, what the task changed in its model, random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class PhysicsState:
    """Takes and puts back the state of one task; put back, it goes on bit for bit."""

    def __init__(self, env: Any) -> None:
        import mujoco

        self._mujoco = mujoco
        self._kind = mujoco.mjtState.mjSTATE_INTEGRATION
        self._env = env
        self._original = {name: array.copy() for name, array in self._model_arrays().items()}

    def get(self) -> dict[str, Any]:
        model, data = self._pointers()
        physics = np.empty(self._mujoco.mj_stateSize(model, self._kind))
        self._mujoco.mj_getState(model, data, physics, self._kind)
        arrays = self._model_arrays()
        name, keys, position, has_gauss, cached = self._env.task.random.get_state()
        return {
            "physics": physics,
            "sensors": data.sensordata.copy(),
            # Tasks move targets and the like by editing the model.
            "model": {
                name: array.copy()
                for name, array in arrays.items()
                if not np.array_equal(array, self._original[name], equal_nan=array.dtype.kind == "f")
            },
            "task": {name: value for name, value in vars(self._env.task).items() if _is_plain(value)},
            "random": {"name": name, "keys": keys, "position": position, "has_gauss": has_gauss, "cached": cached},
            "steps": self._env._step_count,
            "is_over": self._env._reset_next_step,
        }

    def set(self, state: dict[str, Any]) -> None:
        for name, array in self._model_arrays().items():
            array[...] = state["model"].get(name, self._original[name])
        model, data = self._pointers()
        self._mujoco.mj_setState(model, data, state["physics"], self._kind)
        self._mujoco.mj_forward(model, data)
        # Forward dynamics also move where the solver starts from next time, and the sensors of the step before.
        self._mujoco.mj_setState(model, data, state["physics"], self._kind)
        data.sensordata[:] = state["sensors"]
        for name, value in state["task"].items():
            setattr(self._env.task, name, value.copy() if isinstance(value, np.ndarray) else value)
        random = state["random"]
        self._env.task.random.set_state(tuple(random[key] for key in RANDOM))
        self._env._step_count, self._env._reset_next_step = state["steps"], state["is_over"]

    def _pointers(self) -> tuple[Any, Any]:
        physics = self._env.physics
        return physics.model.ptr, physics.data.ptr

    def _model_arrays(self) -> dict[str, NDArray[Any]]:
        model, _ = self._pointers()
        found = {name: value for name in dir(model) if isinstance(value := getattr(model, name), np.ndarray)}
        return {name: array for name, array in found.items() if array.flags.writeable}


RANDOM = ("name", "keys", "position", "has_gauss", "cached")


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | np.ndarray)
