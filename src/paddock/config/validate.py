"""Turning a composed mapping into a validated record, with every error said at once and in words."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from paddock.config.schema import Schema, schema_of
from paddock.core.errors import InputError, did_you_mean
from paddock.core.mappings import flatten

MOST_SUGGESTED = 4
CLOSE = 0.8  # likeness of two words from which one is taken for the other, mistyped
Record = TypeVar("Record", bound=Schema)


def validate(values: Mapping[str, Any], schema: type[Record], origins: Mapping[str, str] | None = None) -> Record:
    """The record that `values` describe. `origins` maps dotted keys to where each value was written."""
    try:
        return schema.model_validate(values)
    except ValidationError as error:
        lines = [_describe(detail, values, schema, origins or {}) for detail in error.errors()]
        noun = "problem" if len(lines) == 1 else "problems"
        raise InputError(
            f"the configuration has {len(lines)} {noun}:\n" + "\n".join(f"  - {line}" for line in lines)
        ) from error


def _describe(detail: Any, values: Mapping[str, Any], schema: type[BaseModel], origins: Mapping[str, str]) -> str:
    location = [part for part in detail["loc"] if not _is_union_tag(part)]
    key = ".".join(str(part) for part in location)
    origin = f"  [{origins[key]}]" if key in origins else ""
    if detail["type"] == "extra_forbidden":
        allowed = _fields_at(location[:-1], values, schema)
        hint = _typed_wrong(str(location[-1]), allowed) or _of_other_choices(key) or _meant_elsewhere(key, values)
        hint = hint or did_you_mean(str(location[-1]), allowed)
        listed = f" Allowed here: {', '.join(allowed)}." if allowed and not hint else ""
        return f"{key}: there is no such option.{hint}{listed}{origin}"
    if detail["type"] == "missing":
        return f"{key}: has to be given and is not."
    message = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "value_error" and not isinstance(detail["input"], str | int | float | bool):
        return f"{key}: {message}{origin}" if key else message  # Without a key it is about several.
    return f"{key} = {_short(detail['input'])}: {message}{origin}"


def _typed_wrong(word: str, allowed: list[str]) -> str:
    """A hint where the word is an option of this place but for a letter or two; a vaguer likeness may mean another."""
    return did_you_mean(word, get_close_matches(word, allowed, n=1, cutoff=CLOSE))


def _of_other_choices(key: str) -> str:
    """A hint for what only other choices of a group have, such as `workflow.epsilon`, which is DQN's."""
    from paddock.config.compose import choices  # With Hydra, a tenth of a second that only a mistake costs.

    group = key.partition(".")[0]
    have = []
    for name, file in choices(group).items() if group.isidentifier() else ():  # Else a path of a stranger's.
        text = file.read_text(encoding="utf-8")
        package = "" if "@package _global_" in text else f"{group}."
        written = [package + one for one, _ in flatten(yaml.safe_load(text) or {})]
        if any(one == key or one.startswith(f"{key}.") for one in written):
            have.append(name)
    return f" It belongs to another {group}: {', '.join(have)}." if have else ""


def _meant_elsewhere(key: str, values: Mapping[str, Any]) -> str:
    """A hint for a key whose last word stands in other places, such as `learning_rate`."""
    word = key.rpartition(".")[2]
    known = [other for other, _ in flatten(values) if other != key and not other.startswith(f"{key}.")]
    words = {other: other.rpartition(".")[2] for other in known}
    closest = get_close_matches(word, list(words.values()), n=1, cutoff=CLOSE)
    same = [other for other in known if words[other] in closest]
    # An interpolated copy, such as environment.reward, says nothing more than the section that it is a copy of.
    same = [one for one in same if not any(one.endswith(f".{other}") for other in same)]
    if not same:
        return ""
    listed = [f"'{one}'" for one in same[:MOST_SUGGESTED]]
    more = f" or {len(same) - len(listed)} more" if len(same) > len(listed) else ""
    return f" Did you mean {' or '.join(listed)}{more}?"


def _is_union_tag(part: int | str) -> bool:
    """Pydantic puts the tried member of a union into the location, e.g. `list[int]` or `function-before[...]`."""
    return isinstance(part, str) and ("[" in part or part in {"str", "int", "float", "bool", "none"})


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _fields_at(location: Sequence[int | str], values: Any, schema: type[BaseModel] | None) -> list[str]:
    """The option names allowed at `location`, following `_target_`s in the values and annotations in schemas."""
    annotation: Any = schema
    for part in [None, *location]:
        if part is not None:
            annotation = _annotation_of(annotation, part)
            values = _child(values, part)
        target = values.get("_target_") if isinstance(values, Mapping) else None
        if isinstance(target, str):
            try:
                annotation = schema_of(target)
            except InputError:
                return []
    model = _model_in(annotation)
    return [field.alias or name for name, field in model.model_fields.items()] if model else []


def _child(values: Any, part: int | str) -> Any:
    try:
        return values[part]
    except (KeyError, IndexError, TypeError):
        return None


def _annotation_of(annotation: Any, part: int | str) -> Any:
    model = None if isinstance(part, int) else _model_in(annotation)
    if model is not None:
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        return fields[str(part)].annotation if part in fields else None
    arguments = typing.get_args(annotation)
    return arguments[-1] if arguments else None


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model in an annotation: itself, or the one inside an Optional."""
    inner = typing.get_args(annotation) if typing.get_origin(annotation) in (typing.Union, types.UnionType) else ()
    for candidate in [annotation, *inner]:
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None
