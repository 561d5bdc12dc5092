"""Words that options and metrics had before schema version 4, and the words of the field that they have now.

Saved configurations are renamed when they are migrated; people's own YAML and what they type when it is composed.
"""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from paddock.config.moved import OWN, current_name

log = logging.getLogger(__name__)

TARGET = "_target_"
OPTIONS: dict[str, dict[str, str]] = {
    "": {
        "evaluation.judge": "evaluation.evaluator",
    },
}
"""Old option -> new option, by the `_target_` that has it, as it is called today without `paddock.`; by "" those of the
configuration itself. Both are dotted where the option is inside another one."""
GROUPS = {"judging": "evaluation"}
"""Old folder of YAML -> new folder."""
METRICS: dict[str, str] = {}
"""Old metric -> new metric, with their prefixes."""


def rename(
    values: Mapping[str, Any], is_chosen: Callable[[str], bool] = lambda key: False
) -> tuple[dict[str, Any], dict[str, str]]:
    """The same configuration in today's words, and which keys were renamed, old -> new.

    is_chosen: whether a person wrote the new key (dotted, a leaf) as well; theirs then stays.
    """
    renamed: dict[str, Any] = copy.deepcopy(dict(values))
    found: dict[str, str] = {}
    for path, node in list(_owners(renamed, "")):
        target = current_name(str(node[TARGET])) if TARGET in node else ""
        if target:
            node[TARGET] = target
        for old, new in OPTIONS.get(target.removeprefix(OWN), {}).items():
            if _move(node, path, old, new, is_chosen):
                found[_join(path, old)] = _join(path, new)
    return renamed, found


def rename_key(key: str, found: Mapping[str, str]) -> str:
    """What became of a dotted key when `found` was renamed."""
    for old, new in found.items():
        if key == old or key.startswith(f"{old}."):
            return new + key.removeprefix(old)
    return key


def rename_metrics(text: str) -> str:
    """A text with today's names of the metrics in it: a metric, or a condition over some."""
    return re.sub(r"[\w]+(?:/[\w.]+)+", lambda match: METRICS.get(match[0], match[0]), text) if METRICS else text


def renamed_groups(text: str) -> str:
    """A sentence on each group of YAML that is named in the text and has another name today."""
    found = [old for old in GROUPS if re.search(rf"\b{old}\b", text)]
    return "".join(f" The group '{old}' is now called '{GROUPS[old]}'." for old in found)


def say_renamed(found: Mapping[str, str]) -> None:
    """One line about old words, for whoever wrote them."""
    if found:
        listed = ", ".join(f"{old} is now {new}" for old, new in found.items())
        log.warning("options were renamed: %s. The old words work for now.", listed)


def _owners(node: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The root and every mapping with a `_target_`, inner ones first, so that a moved one was renamed before."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _owners(value, _join(path, str(key)))
        if not path or isinstance(node.get(TARGET), str):
            yield path, node
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _owners(value, _join(path, str(index)))


def _move(node: dict[str, Any], path: str, old: str, new: str, is_chosen: Callable[[str], bool]) -> bool:
    parent, name = _parent(node, old)
    if parent is None or name not in parent:
        return False
    value = parent.pop(name)
    for leaf, content in _leaves(value, new):
        if not is_chosen(_join(path, leaf)):
            _put(node, leaf, content)
    return True


def _leaves(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, f"{key}.{name}")
    else:
        yield key, value


def _parent(node: Any, key: str) -> tuple[dict[str, Any] | None, str]:
    *above, name = key.split(".")
    for part in above:
        node = node.get(part) if isinstance(node, dict) else None
    return (node if isinstance(node, dict) else None), name


def _put(node: dict[str, Any], key: str, value: Any) -> None:
    *above, name = key.split(".")
    for part in above:
        inner = node.get(part)
        if not isinstance(inner, dict):
            inner = node[part] = {}
        node = inner
    node[name] = value


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
