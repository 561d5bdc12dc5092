"""Demonstrations on disk: a folder of episodes with the Spec that they fit, without pickle.

`demonstrations.json` says what they are and where they come from; `episode-<number>` are the trees of one episode each.
Shapes: T steps of an episode. Actions are in the environment's own range, as the environment took them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from paddock.buffers.action_range import to_environment, to_policy
from paddock.buffers.demonstration_files import DESCRIPTION, EPISODE, episode_files
from paddock.buffers.rows import OBSERVATION, Rows
from paddock.core.errors import InputError
from paddock.core.files import make_folder, replace_file
from paddock.core.reading import DamagedError, read_json
from paddock.core.specs import ArraySpec, Spec
from paddock.core.trees import load_tree, save_tree

FORMAT = 1
LARGEST_EPISODE = 2**30  # bytes of one episode's arrays
LARGEST_SET = 16 * 2**30  # bytes of all of them, which are held in memory together
MOST_EPISODES = 1_000_000
# Marks of steps: the teacher had the controls; `labels` hold what the teacher would have done in place of the action.
INTERVENTION, CORRECTED = "is_intervention", "corrected"
MARKS = (INTERVENTION, CORRECTED)


@dataclass(frozen=True)
class Episode:
    """One episode, or a stretch of one.

    observations: parts [T + 1, ...]; actions [T, ...]; rewards [T]; terminations, truncations: bool [T].
    labels: [T, ...] a teacher's actions, meant where the mark `corrected` is true. marks: bool [T] by name.
    information: who drove (`driver`), `seed`, `track` and the like, as plain values.
    """

    observations: Mapping[str, np.ndarray]
    actions: np.ndarray
    rewards: np.ndarray
    terminations: np.ndarray
    truncations: np.ndarray
    labels: np.ndarray | None = None
    marks: Mapping[str, np.ndarray] = field(default_factory=dict)
    information: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def targets(self) -> np.ndarray:
        """[T, ...] what imitation learns: the action that was taken, or the teacher's where that was corrected."""
        if self.labels is None:
            return self.actions
        corrected = self.marks[CORRECTED].reshape(-1, *[1] * (self.actions.ndim - 1))
        return np.where(corrected, self.labels, self.actions)

    @property
    def driver(self) -> str:
        return str(self.information.get("driver", "unknown"))

    def part(self, start: int, stop: int) -> Episode:
        """The steps from `start` up to `stop`."""
        return Episode(
            observations={name: values[start : stop + 1] for name, values in self.observations.items()},
            actions=self.actions[start:stop],
            rewards=self.rewards[start:stop],
            terminations=self.terminations[start:stop],
            truncations=self.truncations[start:stop],
            labels=None if self.labels is None else self.labels[start:stop],
            marks={name: values[start:stop] for name, values in self.marks.items()},
            information=self.information,
        )


@dataclass(frozen=True)
class Description:
    """What a set says of itself. environment: the configuration of the environment, which is only data here; None where
    it is not known. time_step: s between two steps."""

    spec: Spec
    environment: Mapping[str, Any] | None = None
    time_step: float | None = None


class EpisodeWriter:
    """Appends episodes to a folder, which is made where it does not exist. A kill leaves whole episodes."""

    def __init__(self, folder: Path, description: Description) -> None:
        self.folder, self.description = folder, description
        self.count = 0
        if (folder / DESCRIPTION).exists():
            there = read_description(folder)
            check_same_spec(f"'{folder}' holds demonstrations of", there.spec, description.spec)
            self.count = 1 + max((_number(file) for file in episode_files(folder)), default=-1)
            return
        make_folder(folder)
        values = {
            "format": FORMAT,
            "spec": description.spec.to_dict(),
            "environment": None if description.environment is None else dict(description.environment),
            "time_step": description.time_step,
        }
        replace_file(folder / DESCRIPTION, json.dumps(values, indent=1).encode())

    def add(self, episode: Episode) -> None:
        """Write one episode; what does not fit the Spec is refused."""
        if reason := misfit(episode, self.description.spec):
            raise InputError(f"an episode for '{self.folder}' does not fit: {reason}.")
        tree: dict[str, Any] = {
            "observations": dict(episode.observations),
            "actions": episode.actions,
            "rewards": episode.rewards,
            "terminations": episode.terminations,
            "truncations": episode.truncations,
            "labels": episode.labels,
            "marks": dict(episode.marks),
            "information": dict(episode.information),
        }
        name = f"episode-{self.count:06d}"
        for file in reversed(save_tree(self.folder, f".{name}", tree)):  # The list of arrays last: it is looked for.
            file.replace(self.folder / file.name.removeprefix("."))
        self.count += 1


def read_description(folder: Path) -> Description:
    """What a set of demonstrations says of itself."""
    try:
        values = read_json(folder / DESCRIPTION)
    except DamagedError as error:
        raise InputError(f"'{folder}' is not a set of demonstrations: {DESCRIPTION}: {error.reason}.") from error
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        given = values.get("format") if isinstance(values, dict) else None
        raise InputError(f"demonstrations '{folder}' have format {given}; this Paddock reads {FORMAT}.")
    environment, time_step = values.get("environment"), values.get("time_step")
    try:
        spec = Spec.from_dict(values["spec"])
        for part in (*spec.observation.values(), spec.action):
            np.dtype(part.dtype)
    except (KeyError, TypeError, msgspec.ValidationError) as error:
        raise InputError(f"demonstrations '{folder}' are damaged: their spec cannot be read ({error}).") from error
    if not isinstance(environment, dict | None) or not isinstance(time_step, int | float | None):
        raise InputError(f"demonstrations '{folder}' are damaged: environment or time_step is of a wrong type.")
    return Description(spec, environment, None if time_step is None else float(time_step))


def read_episodes(folder: Path) -> Iterator[Episode]:
    """The episodes of a set, in their order, each checked against the set's Spec."""
    spec, files = read_description(folder).spec, episode_files(folder)
    if len(files) > MOST_EPISODES:
        raise InputError(f"demonstrations '{folder}' have {len(files):,} episodes; at most {MOST_EPISODES:,} are read.")
    total = sum(file.with_suffix(".safetensors").lstat().st_size for file in files if _has_arrays(file))
    if total > LARGEST_SET:
        raise InputError(
            f"demonstrations '{folder}' have {total / 2**30:.1f} GiB; at most {LARGEST_SET / 2**30:.0f} GiB are read. "
            "Divide them into several sets."
        )
    for file in files:
        yield _read_episode(folder, file.stem, spec)


def check_same_spec(what: str, there: Spec, here: Spec) -> None:
    """Refuse data of one Spec where another one is needed."""
    if there != here:
        raise InputError(
            f"{what} another environment: {'; '.join(_differences(there, here))}. Demonstrations are recorded in the "
            "environment that they are for: paddock record episodes FOLDER --experiment NAME [KEY=VALUE ...]"
        )


def _differences(there: Spec, here: Spec) -> Iterator[str]:
    """What two Specs differ in, in words: shapes and types first, since ranges in them say little then."""
    if there.observation.keys() != here.observation.keys():
        yield f"they observe {', '.join(sorted(there.observation))}, here it is {', '.join(sorted(here.observation))}"
    shared = there.observation.keys() & here.observation.keys()
    pairs = [(f"their '{name}'", there.observation[name], here.observation[name]) for name in sorted(shared)]
    for name, one, other in [*pairs, ("their actions", there.action, here.action)]:
        verb = "are" if name.endswith("s") else "is"
        if (one.shape, one.dtype, one.choices) != (other.shape, other.dtype, other.choices):
            yield f"{name} {verb} {_in_words(one)}, here {_in_words(other)}"
        elif one != other:
            yield f"{name} {verb} of another range than here"
    if there.is_dict != here.is_dict:
        yield "only one of them has observations by name"


def _in_words(spec: ArraySpec) -> str:
    return f"one of {spec.choices} choices" if spec.choices is not None else f"{spec.dtype} {spec.shape}"


def misfit(episode: Episode, spec: Spec) -> str:
    """Why an episode is not one of this Spec; empty where it is."""
    steps = len(episode.rewards) if episode.rewards.ndim == 1 else 0
    if not steps:
        return "it has no steps"
    if episode.observations.keys() != spec.observation.keys():
        return f"it observes {sorted(episode.observations)}, the set {sorted(spec.observation)}"
    arrays = [
        (f"observation '{name}'", values, spec.observation[name], steps + 1)
        for name, values in episode.observations.items()
    ]
    arrays.append(("actions", episode.actions, spec.action, steps))
    if episode.labels is not None:
        arrays.append(("labels", episode.labels, spec.action, steps))
        if CORRECTED not in episode.marks:
            return f"it has labels, and no mark '{CORRECTED}' that says where they are meant"
    reasons = [_misfit_of(*one) for one in arrays]
    if episode.rewards.dtype.kind != "f" or not np.isfinite(episode.rewards).all():
        reasons.append("its rewards are not finite numbers")
    flags = {"terminations": episode.terminations, "truncations": episode.truncations, **episode.marks}
    reasons += [
        f"{name} is not a list of {steps} truth values"
        for name, values in flags.items()
        if values.dtype != bool or values.shape != (steps,)
    ]
    if unknown := set(episode.marks) - set(MARKS):
        reasons.append(f"it has the unknown mark {', '.join(sorted(unknown))}; marks are {', '.join(MARKS)}")
    return next((reason for reason in reasons if reason), "")


def _misfit_of(name: str, values: np.ndarray, part: ArraySpec, count: int) -> str:
    if values.shape != (count, *part.shape) or values.dtype != np.dtype(part.dtype):
        return f"{name} is {values.dtype}{list(values.shape)} in place of {part.dtype}{[count, *part.shape]}"
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        return f"{name} holds NaN or infinity"
    if part.choices is not None and ((values < 0) | (values >= part.choices)).any():
        return f"{name} holds a choice beyond 0 to {part.choices - 1}"
    return ""


def _read_episode(folder: Path, name: str, spec: Spec) -> Episode:
    try:
        tree = load_tree(folder, name, limit=LARGEST_EPISODE)
        marks = {str(key): np.asarray(values) for key, values in tree["marks"].items()}
        episode = Episode(
            observations={key: np.asarray(values) for key, values in tree["observations"].items()},
            **{key: np.asarray(tree[key]) for key in ("actions", "rewards", "terminations", "truncations")},
            labels=None if tree["labels"] is None else np.asarray(tree["labels"]),
            marks=marks,
            information=dict(tree["information"]),
        )
        reason = misfit(episode, spec)
    except DamagedError as error:
        raise InputError(f"{name} of '{folder}' cannot be read: {error.reason}.") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{name} of '{folder}' is damaged: {type(error).__name__}: {error}.") from error
    if reason:
        raise InputError(f"{name} of '{folder}' is damaged: {reason}.")
    return episode


def _has_arrays(file: Path) -> bool:
    return file.with_suffix(".safetensors").is_file()


def _number(file: Path) -> int:
    match = EPISODE.fullmatch(file.name)
    assert match is not None
    return int(match[1])


def rows_of(episode: Episode, spec: Spec) -> Rows:
    """An episode as rows of replay (`rows.py`), with actions in the policy's range."""
    count = len(episode) + 1
    action = to_policy(episode.actions, spec.action)
    terminated, truncated = ends_of(episode)
    return {
        **{f"{OBSERVATION}{name}": values for name, values in episode.observations.items()},
        "action": np.concatenate([action, np.zeros_like(action[:1])]),
        "reward": np.concatenate([[0], episode.rewards]).astype(np.float32),
        "is_first": np.arange(count) == 0,
        "terminated": np.concatenate([[False], terminated]),
        "truncated": np.concatenate([[False], truncated]),
    }


def episode_of(rows: Rows, spec: Spec, information: dict[str, Any]) -> Episode:
    """The rows of one episode as an episode, with actions in the environment's range."""
    return Episode(
        observations={name: rows[f"{OBSERVATION}{name}"] for name in spec.observation},
        actions=to_environment(rows["action"][:-1], spec.action),
        rewards=rows["reward"][1:],
        terminations=rows["terminated"][1:],
        truncations=rows["truncated"][1:],
        information=information,
    )


def ends_of(episode: Episode) -> tuple[np.ndarray, np.ndarray]:
    """Flags [T] with an end at the last step: an episode that stops with neither flag was cut off by its recorder."""
    truncated = episode.truncations & ~episode.terminations
    truncated[-1] = not episode.terminations[-1]
    return episode.terminations, truncated
