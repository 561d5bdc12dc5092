"""What a part keeps when its `_target_` is changed.

The rule: an option that was written for another `_target_` stays where it is the same option, that is, where both
schemas have it from one class (`CNNConfig` is an `MLPConfig`, so `activation` stays); otherwise it is left out. What is
written together with the new `_target_`, or after it, always counts.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from paddock.config.compose import TARGET, Composed
from paddock.config.schema import TargetSchema, schema_of
from paddock.core.errors import InputError


def settle(composed: Composed) -> Composed:
    """The composed configuration without the options that their part's `_target_` does not share with the one that
    they were written for."""
    strange = [key for key, old in composed.superseded.items() if not _is_shared(key, old, composed.values)]
    if not strange:
        return replace(composed, superseded={})
    values = copy.deepcopy(composed.values)
    for key in strange:
        _remove(values, key)
    left_out: dict[str, str] = {}
    origins: dict[str, str] = {}
    for leaf, origin in composed.origins.items():
        option = next((key for key in strange if leaf == key or leaf.startswith(f"{key}.")), None)
        if option is None:
            origins[leaf] = origin
        else:
            left_out.setdefault(option, origin)
    return Composed(values, origins, left_out=left_out)


def _is_shared(key: str, old_target: str, values: Mapping[str, Any]) -> bool:
    """Whether an option means the same to the `_target_` that its part has now."""
    part, _, option = key.rpartition(".")
    new_target = (_at(values, part) or {}).get(TARGET)
    try:
        new_schema = schema_of(str(new_target))
    except InputError:
        return True  # Validation says what is wrong with the new one.
    try:
        old_schema = schema_of(old_target)
    except InputError:
        return False
    return bool(_declaring(new_schema, option) & _declaring(old_schema, option))


def _declaring(schema: type[TargetSchema], option: str) -> set[type]:
    """The classes that declare a schema's option: its own, and those that it inherits from."""
    names = {field.alias or name: name for name, field in schema.model_fields.items()}
    return {base for base in schema.__mro__ if option in names and names[option] in inspect.get_annotations(base)}


def _at(values: Any, key: str) -> Any:
    for name in key.split("."):
        values = values.get(name) if isinstance(values, Mapping) else None
    return values if isinstance(values, Mapping) else None


def _remove(values: dict[str, Any], key: str) -> None:
    part, _, option = key.rpartition(".")
    parent = _at(values, part)
    if isinstance(parent, dict):
        parent.pop(option, None)
