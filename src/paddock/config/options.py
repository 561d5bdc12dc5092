"""The options of a schema as rows for a reader: key, type, default, meaning, and the shipped files that set them."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from paddock.config.meanings import common_meaning
from paddock.config.schema import TargetSchema
from paddock.config.shipped import Written, written_keys

REQUIRED = "required"
BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<", "min_length": "length ≥", "max_length": "length ≤"}
PARTICULAR = ("experiment/", "preset/", "tuning/", "imitation_task/")  # files whose comments give reasons for a value
DEEPEST = 4  # levels of records inside records
PLACEHOLDER = "NAME"  # stands for a name of the user's choosing in a dotted key


@dataclass(frozen=True)
class Option:
    """One option. files: shipped YAML that sets it, with the value."""

    key: str
    type: str
    default: str
    meaning: str
    files: tuple[tuple[str, str], ...]


def options_of(schema: type[BaseModel], targets: Sequence[str | None]) -> list[Option]:
    """The options of a schema; `targets` are the owners whose YAML speaks of it, None for the root's."""
    written = [one for one in written_keys() if one.target in targets or _is_reward(one)]
    return list(_rows(schema, "", written, 0))


def _is_reward(one: Written) -> bool:
    """A reward set is written at the root, from where environments take it over as their own `reward`."""
    return one.target is None and one.key.startswith("reward.")


def _rows(schema: type[BaseModel], prefix: str, written: Sequence[Written], depth: int) -> Iterator[Option]:
    notes = _notes(schema)
    for name, field in schema.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        if name == "target_":
            continue
        inner, is_mapping = _record_in(field.annotation)
        found = [one for one in written if _fits(one.key, key)]
        if inner is None or depth == DEEPEST:
            yield _option(key, field, found, notes.get(name, ""))
            continue
        whole = _option(key, field, found, notes.get(name, "") or _first_sentence(inner))
        yield Option(key, _words(field.annotation), whole.default, whole.meaning, whole.files)
        below = f"{key}.{PLACEHOLDER}." if is_mapping else f"{key}."
        yield from _rows(inner, below, written, depth + 1)


def _option(key: str, field: FieldInfo, found: Sequence[Written], note: str) -> Option:
    general = [one for one in found if not one.file.startswith(PARTICULAR)]
    comment = next((one.comment for one in general if one.comment and one.comment != "likewise"), "")
    files = {one.file: one.value for one in found}
    meaning = note or comment or common_meaning(key)
    return Option(key, _type(field), _default(field), meaning, tuple(files.items()))


def _fits(written: str, key: str) -> bool:
    """Whether a written key is this option: NAME stands for any one word."""
    ours, theirs = key.split("."), written.split(".")
    return len(ours) == len(theirs) and all(a in (b, PLACEHOLDER) for a, b in zip(ours, theirs, strict=True))


def _record_in(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """The record inside an annotation, alone, optional or as the values of a mapping, and whether it is the last."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _record_in(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        found = [_record_in(one) for one in typing.get_args(annotation)]
        return next((one for one in found if one[0] is not None), (None, False))
    if typing.get_origin(annotation) is dict:
        record, _ = _record_in(typing.get_args(annotation)[1])
        return record, True
    is_record = inspect.isclass(annotation) and issubclass(annotation, BaseModel)
    return (annotation, False) if is_record and not issubclass(annotation, TargetSchema) else (None, False)


def _type(field: FieldInfo) -> str:
    bounds = [
        f"{sign} {getattr(one, name)}" for one in field.metadata for name, sign in BOUNDS.items() if hasattr(one, name)
    ]
    return ", ".join([_words(field.annotation), *bounds])


def _words(annotation: Any) -> str:
    """A type in words: `int or null`, `list of float`, `one of a, b`."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is type(None):
        return "null"
    if annotation is Any:
        return "any"
    if origin is typing.Annotated:
        return _words(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_words(one) for one in arguments))
    if origin is typing.Literal:
        return "one of " + ", ".join(map(str, arguments))
    if origin is dict:
        return f"mapping of {_words(arguments[1])}"
    if origin is list:
        return f"list of {_words(arguments[0])}"
    if origin is tuple:
        kinds = list(dict.fromkeys(_words(one) for one in arguments if one is not Ellipsis))
        return f"list of {' and '.join(kinds)}" if Ellipsis in arguments else f"{len(arguments)} × {' / '.join(kinds)}"
    if inspect.isclass(annotation):
        if issubclass(annotation, TargetSchema):
            return "part (`_target_`)"
        return "record" if issubclass(annotation, BaseModel) else annotation.__name__
    return str(annotation).rpartition(".")[2]


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True) if not field.is_required() else PydanticUndefined
    if value is PydanticUndefined:
        return REQUIRED
    if isinstance(value, BaseModel):
        return ""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _first_sentence(owner: Any) -> str:
    text = " ".join((inspect.getdoc(owner) or "").split())
    return re.split(r"(?<=\.)\s", text)[0].rstrip(".") if text else ""


@cache
def _notes(schema: type[BaseModel]) -> dict[str, str]:
    """What the source says of each field: the comment beside it, or `name: …` in the docstring of its class."""
    found: dict[str, str] = {}
    for owner in reversed(schema.__mro__):
        if issubclass(owner, BaseModel) and owner is not BaseModel:
            found |= _notes_in(owner)
    return found


def _notes_in(owner: type[Any]) -> dict[str, str]:
    try:
        source = textwrap.dedent(inspect.getsource(owner))
    except (OSError, TypeError):  # A class without a source, made by a library.
        return {}
    found = _told_in(inspect.cleandoc(owner.__dict__.get("__doc__") or ""), list(owner.__annotations__))
    lines = source.splitlines()
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    for statement in definition.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            _, mark, comment = lines[(statement.end_lineno or statement.lineno) - 1].partition("  # ")
            if mark and not comment.startswith("type:"):
                found[statement.target.id] = comment.strip()
    return found


def _told_in(text: str, names: Sequence[str]) -> dict[str, str]:
    """`name: meaning` at the beginning of a line or a sentence of a docstring."""
    starts = "|".join(map(re.escape, names))
    if not starts:
        return {}
    pattern = rf"(?:^|(?<=[.;] )|(?<=\n))`?({starts})`?: (.+?)(?=(?:[.;]|\n)\s*`?(?:{starts})`?: |\n\n|\Z)"
    return {name: " ".join(told.split()).rstrip(".") for name, told in re.findall(pattern, text, re.DOTALL)}
