"""What the shipped YAML writes: each key with its value, its place and the comment beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from paddock.config.compose import SHIPPED, TARGET
from paddock.config.moved import current_name

GLOBAL = "# @package _global_"


@dataclass(frozen=True)
class Written:
    """One key of one file. key: dotted, from the part's `_target_` on, or from the root where target is None."""

    target: str | None
    key: str
    value: str
    comment: str
    file: str


@cache
def written_keys() -> tuple[Written, ...]:
    """Every key of every shipped file, in the order of the files; `config.yaml`, which all share, comes first."""
    files = [SHIPPED / "config.yaml", *sorted(SHIPPED.glob("*/*.yaml"))]
    return tuple(one for file in files for one in _keys(file))


def _keys(file: Path) -> Iterator[Written]:
    text = file.read_text(encoding="utf-8")
    root, lines = yaml.compose(text), text.splitlines()
    if root is None:
        return
    place = str(file.relative_to(SHIPPED))
    is_global = "/" not in place or GLOBAL in text
    prefix = "" if is_global else place.split("/")[0]
    yield from _walk(root, None, prefix, lines, place)


def _walk(node: yaml.Node, target: str | None, prefix: str, lines: list[str], file: str) -> Iterator[Written]:
    if not isinstance(node, yaml.MappingNode):
        return
    named = next((child.value for key, child in node.value if key.value == TARGET), None)
    if isinstance(named, str):
        target, prefix = current_name(named), ""
    for key, child in node.value:
        path = f"{prefix}.{key.value}" if prefix else str(key.value)
        if key.value not in (TARGET, "defaults", "<<"):
            line = key.start_mark.line
            yield Written(target, path, _value(child), _comment(lines, line), file)
        yield from _walk(child, target, path, lines, file)


def _value(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    start, end = node.start_mark, node.end_mark
    is_short = start.line == end.line and start.buffer is not None
    return start.buffer[start.pointer : end.pointer] if is_short and start.buffer else ""


def _comment(lines: list[str], at: int) -> str:
    """The comment at the end of a line, or the one that stands alone above it."""
    _, mark, beside = lines[at].partition(" #")
    if mark:
        return beside.strip()
    above = lines[at - 1].strip() if at else ""
    return above.lstrip("# ") if above.startswith("#") and "@package" not in above and at > 2 else ""
