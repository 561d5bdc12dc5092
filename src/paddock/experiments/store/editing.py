"""What a person changes about a run: tags, pin, note, name; and removing it as a whole."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from typing import Any

from paddock.core.errors import InputError
from paddock.experiments.run import RunFolder
from paddock.experiments.store.store import register

NAME = re.compile(r"[\w.-]{1,64}")
TAG = re.compile(r"\S{1,64}")
MOST_TAGS, LONGEST_NOTE = 32, 2_000


def label_run(
    run: RunFolder,
    *,
    tags: Sequence[str] | None = None,
    is_pinned: bool | None = None,
    note: str | None = None,
    name: str | None = None,
) -> dict[str, Any]:
    """Change the labels that are given; gives all of them as they are now."""
    labels = run.read_labels()
    tags = labels["tags"] if tags is None else list(tags)
    new = set(tags) - set(labels["tags"])  # Tags that a file brought along stay, whatever they are.
    if len(tags) > MOST_TAGS or not all(TAG.fullmatch(tag) for tag in new):
        raise InputError(f"a run has up to {MOST_TAGS} tags of 1 to 64 letters without spaces.")
    if note is not None and len(note) > LONGEST_NOTE:
        raise InputError(f"a note has up to {LONGEST_NOTE} letters; {len(note)} were given.")
    if name is not None and not NAME.fullmatch(name):
        raise InputError(f"'{name[:80]}' cannot name a run; use up to 64 letters, digits, '-', '_' and '.'.")
    is_pinned = labels["pinned"] if is_pinned is None else is_pinned
    run.write_labels(tags=tags, is_pinned=is_pinned, note=note, name=name)
    register(run)
    return run.read_labels()


def delete_run(run: RunFolder) -> None:
    """Remove a run's folder for good. One that is pinned, or that a process holds, stays."""
    if run.path.is_symlink():
        raise InputError(f"'{run.name}' is a link to another folder; remove the link yourself.")
    if run.has_labels() and run.read_labels()["pinned"]:
        raise InputError(f"run '{run.name}' is pinned; remove the pin first.")
    with run.lock():
        shutil.rmtree(run.path)
