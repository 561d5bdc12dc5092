"""Where each option of a run came from: a shipped file and line, the user's own file, or the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paddock.config.compose import COMMAND_LINE, compose
from paddock.core.errors import InputError
from paddock.core.mappings import flatten
from paddock.core.trust import MARK, is_marked
from paddock.dashboard.errors import Refused
from paddock.experiments.run import RunFolder

# Plain values only: what a manifest from elsewhere says must resolve no variable and name no file.
PLAIN = re.compile(r"[A-Za-z]\w*(?:\.\w+)*=[\w.,\[\]+ -]*", re.ASCII)
UNKNOWN = "not known"
CHOSEN = ("name", "seed", "debug", "runs_dir")  # keys with an option of their own on the command line


def options_with_origins(run: RunFolder) -> list[dict[str, Any]]:
    """`key`, `value` and `origin` of every option, in the order of the file; `is_changed`: the command line set it."""
    try:
        saved, manifest = dict(flatten(run.read_config())), run.read_manifest()
    except InputError as error:
        raise Refused(str(error), 409) from error
    origin = manifest.get("origin") or {}
    overrides = [str(text) for text in origin.get("overrides") or []]
    values, origins = _composed(origin, [text for text in overrides if PLAIN.fullmatch(text)])
    changed = [text.partition("=")[0].lstrip("+~") for text in overrides]

    def place(key: str, value: Any) -> str:
        if any(key == name or key.startswith(f"{name}.") for name in changed):
            return COMMAND_LINE
        if key in CHOSEN and values and values.get(key) != value:
            return COMMAND_LINE
        if key in values and values[key] == value:
            return origins.get(key, UNKNOWN)
        return UNKNOWN if not values else "a default of the schema" if key not in values else "changed since"

    return [
        {"key": key, "value": value, "origin": (found := place(key, value)), "is_changed": found == COMMAND_LINE}
        for key, value in saved.items()
    ]


def _composed(origin: Mapping[str, Any], overrides: list[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The experiment as it is composed today, and the places of its values; nothing where that is not possible."""
    experiment, user, preset = (origin.get(key) for key in ("experiment", "user", "preset"))
    # A file outside the run is read where this user named it, not where a manifest from elsewhere does.
    if user and not is_marked({key: origin[key] for key in origin if key != MARK}, origin.get(MARK)):
        return {}, {}
    if not (experiment or user):
        return {}, {}
    try:
        found = compose(experiment, preset=preset, user=Path(user) if user else None, overrides=overrides)
    except (InputError, OSError, TypeError):
        return {}, {}
    return dict(flatten(found.values)), found.origins
