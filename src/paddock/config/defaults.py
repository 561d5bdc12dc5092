"""What the defaults lists of YAML files say, read without composing: which choices an experiment makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from paddock.config.compose import choices


def read_yaml(file: Path) -> dict[str, Any]:
    """The content of a YAML file; nothing of it is composed."""
    return yaml.safe_load(file.read_text(encoding="utf-8")) or {}


def bases(content: dict[str, Any]) -> list[str]:
    """Files of the same group that a file builds upon."""
    return [entry for entry in content.get("defaults", []) if isinstance(entry, str) and entry != "_self_"]


def chosen_groups(name: str, group: str = "experiment") -> dict[str, str]:
    """Group -> choice, as a shipped file and those that it builds upon say in their defaults."""
    content = read_yaml(choices(group)[name])
    chosen: dict[str, str] = {}
    for entry in content.get("defaults", []):
        if isinstance(entry, str) and entry != "_self_":
            chosen |= chosen_groups(entry, group)
        elif isinstance(entry, dict):
            chosen |= {str(key).removeprefix("override ").strip("/ "): str(value) for key, value in entry.items()}
    return chosen
