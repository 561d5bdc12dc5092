"""Loading by dotted name, so that naming a thing does not import it."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from paddock.core.errors import InputError, did_you_mean


def load(dotted: str) -> Any:
    """The object that `package.module.Name` names."""
    module_name, _, attribute = dotted.rpartition(".")
    if not module_name:
        raise InputError(f"'{dotted}' names nothing to load; write it as package.module.Name.")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise InputError(f"'{dotted}' cannot be loaded: there is no module '{error.name}'.") from error
        raise
    if not hasattr(module, attribute):
        public = [name for name in vars(module) if not name.startswith("_")]
        raise InputError(
            f"'{dotted}' cannot be loaded: '{module_name}' has no '{attribute}'." + did_you_mean(attribute, public)
        )
    return getattr(module, attribute)


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional dependency, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise InputError(
            f"{purpose} needs '{module}', which is not installed. Install it: pip install 'paddock[{extra}]'"
        ) from error
