"""Chunks: consecutive vector steps of one worker's environments, on their way into a learner's buffer.

A chunk is a tree of arrays, as `RolloutBuffer.rows` gives it: `observation` parts [T + 1, n, ...]; `action`, `reward`,
`terminated`, `truncated`, `valid`, `is_first` [T, n, ...]; and, where episodes ended and were reset in the same step,
`final_index` [K, 2] (step, copy) with the true last `final_observation` parts [K, ...].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from paddock.core.specs import Spec

Chunk = Mapping[str, Any]
FLAGS = ("terminated", "truncated", "valid", "is_first")


def length(chunk: Chunk) -> int:
    """Vector steps in a chunk."""
    return len(chunk["reward"])


def decisions(chunk: Chunk) -> int:
    """Transitions in a chunk, those that only reset an environment left out."""
    return int(chunk["valid"].sum())


def layout(spec: Spec, steps: int, num_envs: int, finals: int) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and dtype of every array of a chunk under its flat name, such as `observation.rays`."""
    lead = (steps, num_envs)
    parts = spec.observation.items()
    return {
        **{f"observation.{name}": ((steps + 1, num_envs, *part.shape), part.dtype) for name, part in parts},
        "action": ((*lead, *spec.action.shape), spec.action.dtype),
        "reward": (lead, "float32"),
        **dict.fromkeys(FLAGS, (lead, "bool")),
        "final_index": ((finals, 2), "int64"),
        **{f"final_observation.{name}": ((finals, *part.shape), part.dtype) for name, part in parts},
    }


def flat(chunk: Chunk) -> dict[str, np.ndarray]:
    """The arrays of a chunk by flat name."""
    found: dict[str, np.ndarray] = {}
    for name, value in chunk.items():
        if isinstance(value, Mapping):
            found.update({f"{name}.{part}": array for part, array in value.items()})
        else:
            found[name] = value
    return found


def nested(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The inverse of `flat`."""
    chunk: dict[str, Any] = {"observation": {}, "final_observation": {}}
    for name, array in arrays.items():
        group, _, part = name.partition(".")
        if part:
            chunk[group][part] = array
        else:
            chunk[name] = array
    return chunk


def problem_of(chunk: Chunk, spec: Spec, num_envs: int) -> str | None:
    """What is wrong with a chunk whose arrays have the right shapes: numbers that are not finite, actions that are no
    choice, indices that point nowhere. None where nothing is."""
    arrays = flat(chunk)
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return f"'{name}' holds a number that is not finite"
    choices = spec.action.choices
    if (
        choices is not None
        and len(arrays["action"])
        and not ((arrays["action"] >= 0) & (arrays["action"] < choices)).all()
    ):
        return f"an action is not one of the {choices} choices"
    index, steps = arrays["final_index"], length(chunk)
    if len(index) and not ((index >= 0) & (index < [steps, num_envs])).all():
        return "a final observation belongs to a step that is not in the chunk"
    ended = chunk["terminated"] | chunk["truncated"]
    if len(index) and not ended[index[:, 0], index[:, 1]].all():
        return "a final observation belongs to a step that ended no episode"
    return None


def beside(chunks: Sequence[Chunk]) -> dict[str, Any]:
    """Chunks of equal length of several workers as one whose copies stand side by side: [T, sum of n, ...]."""
    copies = np.cumsum([0, *(chunk["reward"].shape[1] for chunk in chunks)])
    index = [chunk["final_index"] + [0, offset] for chunk, offset in zip(chunks, copies, strict=False)]
    order = np.argsort(np.concatenate(index)[:, 0], kind="stable")
    joined: dict[str, Any] = {
        "observation": _joined([chunk["observation"] for chunk in chunks], 1),
        **{name: np.concatenate([chunk[name] for chunk in chunks], 1) for name in ("action", "reward", *FLAGS)},
        "final_index": np.concatenate(index)[order],
    }
    finals = _joined([chunk["final_observation"] for chunk in chunks], 0)
    joined["final_observation"] = {name: array[order] for name, array in finals.items()}
    return joined


def among(chunk: Chunk, first: int, num_envs: int) -> dict[str, Any]:
    """A chunk as one of `num_envs` copies, its own beginning at `first`; the others do nothing (`valid` is false)."""
    width = chunk["reward"].shape[1]

    def widened(array: np.ndarray) -> np.ndarray:
        wide = np.zeros((len(array), num_envs, *array.shape[2:]), array.dtype)
        wide[:, first : first + width] = array
        return wide

    return {
        "observation": {name: widened(array) for name, array in chunk["observation"].items()},
        **{name: widened(chunk[name]) for name in ("action", "reward", *FLAGS)},
        "final_index": chunk["final_index"] + [0, first],
        "final_observation": chunk["final_observation"],
    }


def vector_steps(chunk: Chunk) -> Iterator[dict[str, Any]]:
    """The transitions of a chunk one after the other, as a `TransitionSink` takes them."""
    index = chunk["final_index"]
    for t in range(length(chunk)):
        step = {
            "observation": {name: array[t] for name, array in chunk["observation"].items()},
            "next_observation": {name: array[t + 1] for name, array in chunk["observation"].items()},
            **{name: chunk[name][t] for name in ("action", "reward", *FLAGS)},
        }
        finals = np.flatnonzero(index[:, 0] == t)
        if len(finals):
            rows = finals[np.argsort(index[finals, 1], kind="stable")]
            step["final_rows"] = index[rows, 1]
            step["final_observation"] = {name: array[rows] for name, array in chunk["final_observation"].items()}
        yield step


def _joined(parts: Sequence[Mapping[str, np.ndarray]], axis: int) -> dict[str, np.ndarray]:
    return {name: np.concatenate([one[name] for one in parts], axis) for name in parts[0]}
