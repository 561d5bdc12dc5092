"""The reference of every option, written from the code: `python -m paddock.cli.reference commands|configuration`.

The documentation's site calls it when it is built, so the pages cannot be older than the code.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import typer

import paddock
from paddock.cli.help import Row, help_rows, reflowed
from paddock.cli.main import VERBS
from paddock.config.options import Option, options_of
from paddock.config.schema import TargetSchema, schema_of
from paddock.core.errors import InputError

MOST_FILES = 3  # that are named beside an option
ROOMS = {
    "workflows": "Workflows",
    "components": "Components",
    "buffers": "Buffers",
    "rollout": "Controllers and experience",
    "distributed": "Workers and relay",
    "environments": "Environments",
    "racing": "Racing",
    "dream": "Dreams",
    "evaluation": "Evaluation",
}
INTRODUCTION = """# {title}

This page is written from the {source} when the site is built.
"""


@cache
def commands_page() -> str:
    """Every command with its arguments and options, as Markdown."""
    parts = [INTRODUCTION.format(title="Commands", source="command line's own help")]
    root = importlib.import_module("paddock.cli.main").app
    group: Any = typer.main.get_command(root)
    with typer.Context(group, info_name="paddock") as context:
        for verb in VERBS:
            parts += _command(group.get_command(context, verb), context, f"paddock {verb}", 2)
    return "\n".join(parts)


def _command(command: Any, parent: Any, name: str, level: int) -> Iterator[str]:
    context = type(parent)(command, info_name=name.split()[-1], parent=parent)
    arguments, options = help_rows(command, context)
    yield f"{'#' * level} {name}\n\n{_escaped(reflowed(command.help or command.short_help or ''))}\n"
    yield f"```\n{name} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    yield _table("argument", arguments)
    yield _table("option", options)
    for one in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from _command(command.get_command(context, one), context, f"{name} {one}", level + 1)


def _table(title: str, rows: list[Row]) -> str:
    if not rows:
        return ""
    lines = [f"| {title} | meaning |", "|---|---|"]
    for name, value, text in rows:
        written = f"{name} {value}".strip().replace("|", "\\|")
        lines.append(f"| `{written}` | {_escaped(text)} |")
    return "\n".join([*lines, ""])


@cache
def configuration_page() -> str:
    """Every key of the configuration, as Markdown: those of an experiment, then those of each part."""
    from paddock.orchestration.schema import ExperimentConfig

    parts = [INTRODUCTION.format(title="Configuration keys", source="schemas and the shipped YAML")]
    parts.append(
        "`NAME` stands for a name that you choose. A default of `required` means that a shipped file gives the value; "
        "the last column names such files, below `src/paddock/config/yaml`. "
        "`paddock train NAME --print-config` shows which one won.\n"
    )
    parts += ["## An experiment\n", _options(options_of(ExperimentConfig, [None]))]
    owners = owners_by_schema()
    tables = filled({schema: options_of(schema, names) for schema, names in owners.items()})
    for room, title in ROOMS.items():
        found = {schema: names for schema, names in owners.items() if names[0].split(".")[1] == room}
        if found:
            parts.append(f"## {title}\n")
        for schema, names in found.items():
            summary = reflowed((inspect.getdoc(schema) or "").split("\n\n")[0])
            listed = ", ".join(f"`{name}`" for name in names)
            parts.append(f"### {schema.__name__.removesuffix('Config')} ({schema.__module__.rpartition('.')[2]})\n")
            parts.append(f"{_escaped(summary)}\n\n`_target_`: {listed}\n")
            parts.append(_options(tables[schema]))
    return "\n".join(parts)


Tables = dict[type[TargetSchema], list[Option]]


def filled(tables: Tables) -> Tables:
    """The options with the meaning that another schema gives to a field which both inherit from one class."""
    known: dict[tuple[type[Any], str], str] = {}
    for schema, rows in tables.items():
        for row in rows:
            if row.meaning:
                known.setdefault((_declarer(schema, row.key), row.key), row.meaning)
    return {
        schema: [
            replace(row, meaning=row.meaning or known.get((_declarer(schema, row.key), row.key), "")) for row in rows
        ]
        for schema, rows in tables.items()
    }


def _declarer(schema: type[TargetSchema], key: str) -> type[Any]:
    """The class that declared the field in which a dotted key begins."""
    fields = {field.alias or name: name for name, field in schema.model_fields.items()}
    name = fields[key.split(".")[0]]
    return next(one for one in reversed(schema.__mro__) if name in inspect.get_annotations(one))


def owners_by_schema() -> dict[type[TargetSchema], list[str]]:
    """By schema, the names that a `_target_` may have. Modules that need a missing extra are left out."""
    found: dict[type[TargetSchema], list[str]] = {}
    for module in sorted(one.name for one in pkgutil.walk_packages(paddock.__path__, "paddock.")):
        if module.split(".")[1] in ROOMS:
            for name, schema in _owners_in(module):
                found.setdefault(schema, []).append(name)
    return found


def _owners_in(module: str) -> Iterator[tuple[str, type[TargetSchema]]]:
    try:
        loaded = importlib.import_module(module)
    except ImportError:  # An extra that is not installed.
        return
    for name, owner in vars(loaded).items():
        is_own = getattr(owner, "__module__", None) == module and not name.startswith("_")
        if not is_own or not (inspect.isclass(owner) or inspect.isfunction(owner)):
            continue
        try:
            yield f"{module}.{name}", schema_of(f"{module}.{name}")
        except (InputError, NameError, TypeError):  # Nothing that is built from configuration.
            continue


def _options(rows: list[Option]) -> str:
    if not rows:
        return "It has no options.\n"
    lines = ["| key | type | default | meaning | set in |", "|---|---|---|---|---|"]
    for row in rows:
        cells = [f"`{row.key}`", _escaped(row.type), _default(row), _escaped(row.meaning), _files(row)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _default(row: Option) -> str:
    text = row.default if len(row.default) <= 60 else f"{row.default[:57]}..."
    return f"`{text.replace('|', chr(92) + '|')}`" if text else ""


def _files(row: Option) -> str:
    named = [f"`{file.removesuffix('.yaml')}`" + _value(value) for file, value in row.files[:MOST_FILES]]
    more = [f"{len(row.files) - MOST_FILES} more"] if len(row.files) > MOST_FILES else []
    return ", ".join([*named, *more])


def _value(text: str) -> str:
    is_told = bool(text) and len(text) <= 24 and "`" not in text and "|" not in text
    return f" ({_escaped(text)})" if is_told else ""


def _escaped(text: str) -> str:
    """Text for a table: no cell ends early, and nothing becomes markup."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))  # Code stays as it is, but for the bar of a table.
    for index, part in enumerate(parts):
        if index % 2:
            parts[index] = part.replace("|", "\\|")
        else:
            parts[index] = re.sub(r"([|*_\[\]])", r"\\\1", part).replace("<", "&lt;").replace(">", "&gt;")
    return "".join(parts)


PAGES = {"commands": commands_page, "configuration": configuration_page}


def main() -> None:
    """Print a page."""
    name = sys.argv[1] if len(sys.argv) == 2 else ""
    if name not in PAGES:
        sys.exit(f"usage: python -m paddock.cli.reference {'|'.join(PAGES)}")
    print(PAGES[name]())


if __name__ == "__main__":
    main()
