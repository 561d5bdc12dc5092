"""Bringing saved configurations of older versions up to date, one version at a time."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from paddock.config.renamed import rename, rename_metrics
from paddock.core.errors import InputError

SCHEMA_VERSION = 4


def migrate(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same configuration as this version writes it."""
    migrated: dict[str, Any] = copy.deepcopy(dict(values))
    version = migrated.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InputError(f"the configuration has schema_version {version!r}; it has to be a number from 1 up.")
    if version > SCHEMA_VERSION:
        raise InputError(
            f"the configuration has schema_version {version}, this Paddock knows up to {SCHEMA_VERSION}. "
            "It was written by a newer one: upgrade Paddock."
        )
    for step in range(version, SCHEMA_VERSION):
        try:
            migrated = MIGRATIONS[step](migrated)
        except (AttributeError, LookupError, TypeError) as error:
            raise InputError(f"the configuration of schema_version {step} does not have its form: {error}.") from error
        migrated["schema_version"] = step + 1
    return migrated


def _name_controllers(values: dict[str, Any]) -> dict[str, Any]:
    """Version 1 had one `controller` and counted checkpoints in `checkpoint.interval`."""
    if "controller" in values:
        values["controllers"] = {"default": "policy", "available": {"policy": values.pop("controller")}}
    checkpoint = values.get("checkpoint", {})
    if "interval" in checkpoint:
        checkpoint["every_steps"] = checkpoint.pop("interval")
    return values


def _scale_once(values: dict[str, Any]) -> dict[str, Any]:
    """Version 2 told a world model's decoder again whether its encoder reads numbers in symlog."""
    values.get("components", {}).get("world_model", {}).get("decoder", {}).pop("symlog", None)
    return values


def _say_it_in_the_fields_words(values: dict[str, Any]) -> dict[str, Any]:
    """Version 3 had words of its own for options and metrics, and lists of phases: see `paddock.config.renamed`."""
    values, _ = rename(values)
    evaluation = values.get("evaluation") or {}
    if "metric" in evaluation:
        evaluation["metric"] = rename_metrics(str(evaluation["metric"]))
    if isinstance(evaluation.get("records"), dict):
        evaluation["records"] = {rename_metrics(name): better for name, better in evaluation["records"].items()}
    phases = ((values.get("training") or {}).get("phases") or {}).values()
    alerts = ((values.get("monitoring") or {}).get("alerts") or {}).values()
    for part, key in [*((phase, "until") for phase in phases), *((alert, "when") for alert in alerts)]:
        if isinstance(part, dict) and isinstance(part.get(key), str):
            part[key] = rename_metrics(part[key])
    return values


MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {
    1: _name_controllers,
    2: _scale_once,
    3: _say_it_in_the_fields_words,
}
"""What turns version N into version N + 1."""
