"""What is done with whole sets of demonstrations: finding, inspecting, merging, importing and exporting them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paddock.buffers.demonstration_files import is_demonstrations
from paddock.buffers.demonstrations import load_episodes, spec_of_source
from paddock.buffers.episodes import (
    MARKS,
    Description,
    Episode,
    EpisodeWriter,
    check_same_spec,
    read_description,
)
from paddock.buffers.lerobot_reading import read_lerobot
from paddock.buffers.lerobot_sets import write_lerobot
from paddock.buffers.minari_sets import (
    MINARI,
    description_of,
    open_minari,
    read_minari_episodes,
    write_minari_episodes,
)
from paddock.core.errors import InputError, unknown_choice
from paddock.environments.spaces import spec_of_spaces

FORMATS = ("minari", "lerobot")


def summary(folder: Path) -> dict[str, Any]:
    """What a set holds, in numbers."""
    description, episodes = describe(folder), load_episodes(folder)
    returns = [float(episode.rewards.sum()) for episode in episodes]
    steps = sum(len(episode) for episode in episodes)
    marked = {name: sum(int(one.marks[name].sum()) for one in episodes if name in one.marks) for name in MARKS}
    return {
        "folder": str(folder),
        "episodes": len(episodes),
        "steps": steps,
        "seconds": None if description.time_step is None else steps * description.time_step,
        "drivers": sorted({episode.driver for episode in episodes}),
        "tracks": sorted({str(one.information["track"]) for one in episodes if "track" in one.information}),
        "mean_return": float(np.mean(returns)) if returns else None,
        "std_return": float(np.std(returns)) if returns else None,
        **marked,
        "environment": (description.environment or {}).get("_target_"),
    }


def details(folder: Path) -> dict[str, Any]:
    """A set with each of its episodes, and the range of each number that was seen or done."""
    description, episodes = describe(folder), load_episodes(folder)
    rows = [
        {
            "episode": number,
            "steps": len(episode),
            "return": float(episode.rewards.sum()),
            "end": "terminated" if episode.terminations[-1] else "truncated" if episode.truncations[-1] else "cut",
            **{name: int(values.sum()) for name, values in episode.marks.items()},
            **{name: value for name, value in episode.information.items() if isinstance(value, str | int | float)},
        }
        for number, episode in enumerate(episodes)
    ]
    spec = description.spec.to_dict()
    actions = np.concatenate([episode.actions for episode in episodes]) if episodes else np.zeros(0)
    return {**summary(folder), "spec": spec, "actions": _ranges(actions), "list": rows}


def merge(sources: Sequence[Path], into: Path) -> dict[str, Any]:
    """All episodes of the sources in a new set, in their order."""
    if is_demonstrations(into):
        raise InputError(f"there are demonstrations in '{into}' already; merge into a new folder.")
    descriptions = [describe(source) for source in sources]
    for source, one in zip(sources, descriptions, strict=True):
        check_same_spec(f"'{source}' holds demonstrations of", one.spec, descriptions[0].spec)
    write_set(into, (episode for source in sources for episode in load_episodes(source)), descriptions[0])
    return summary(into)


def export_set(folder: Path, format: str, target: str, *, author: str | None = None) -> dict[str, Any]:
    """A set as a dataset of another program. target: Minari's name of it, or a new folder for LeRobot."""
    description, episodes = describe(folder), load_episodes(folder)
    if format == "minari":
        about = {"algorithm_name": ", ".join(sorted({episode.driver for episode in episodes}))}
        write_minari_episodes(target, episodes, description, **about, **({"author": author} if author else {}))
    elif format == "lerobot":
        write_lerobot(Path(target), episodes, description)
    else:
        raise unknown_choice("format of demonstrations", format, FORMATS)
    steps = sum(len(episode) for episode in episodes)
    return {"from": str(folder), "to": target, "format": format, "episodes": len(episodes), "steps": steps}


def import_set(source: str, into: Path) -> dict[str, Any]:
    """A dataset of another program as demonstrations. source: `minari:<dataset>`, or the folder of a LeRobot one."""
    if is_demonstrations(into):
        raise InputError(f"there are demonstrations in '{into}' already; import into a new folder.")
    if source.startswith(MINARI):
        name = source.removeprefix(MINARI)
        dataset = open_minari(name)
        spec = spec_of_spaces(dataset.observation_space, dataset.action_space)
        description, episodes = description_of(dataset, spec), read_minari_episodes(name, spec)
    else:
        description, episodes = read_lerobot(Path(source))
    # All of it is read before anything is written: half of a broken dataset is no set.
    write_set(into, list(episodes), description)
    return summary(into)


def write_set(folder: Path, episodes: Iterable[Episode], description: Description) -> None:
    writer = EpisodeWriter(folder, description)
    for episode in episodes:
        writer.add(episode)


def describe(folder: Path) -> Description:
    """What a set says of itself; a recording says only its Spec."""
    return read_description(folder) if is_demonstrations(folder) else Description(spec_of_source(folder))


def _ranges(values: np.ndarray) -> dict[str, Any]:
    if not len(values):
        return {}
    return {name: np.atleast_1d(one(values, axis=0)).tolist() for name, one in (("min", np.min), ("max", np.max))}
