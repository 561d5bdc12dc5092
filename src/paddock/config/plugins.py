"""Packages of a person's own that a `_target_` may name: registering them, finding them, and what went wrong in them.

They are looked for in the current folder, which a program on the path does not see by itself, and among what is
installed. The names stand in the environment, so that processes which are started from here know them, too.
"""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from paddock.core import permission
from paddock.core.errors import InputError, PaddockError, did_you_mean
from paddock.core.lazy import load
from paddock.core.trust import PLUGINS_VARIABLE, plugins


def register_plugins(names: Sequence[str]) -> None:
    """Allow `_target_` to name these packages, here and in processes that are started from here."""
    for name in names:
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            word = re.search(r"[A-Za-z_]\w*", name)
            raise InputError(
                f"the plugin '{name}' is not the name of a package: write the name of the folder or of the .py file "
                f"alone, for example --plugin {word[0] if word else 'lab'}."
            )
        if _find(name) is None:
            beside = [module.name for module in pkgutil.iter_modules([str(Path.cwd())])]
            folders = [path.name for path in Path.cwd().iterdir() if path.is_dir()]
            raise InputError(f"{_not_found(name)}{did_you_mean(name, [*beside, *folders])}")
    os.environ[PLUGINS_VARIABLE] = ",".join(dict.fromkeys([*plugins(), *names]))


def load_plugin(target: str) -> Any:
    """What a `_target_` names in a registered package, or in one that a trusted run was made with."""
    package, _, rest = target.partition(".")
    spec = _find(package)
    if spec is None:
        raise InputError(f"_target_ '{target}' cannot be loaded. {_not_found(package)}")
    try:
        return load(target)
    except InputError as error:
        modules = [module.name for module in pkgutil.iter_modules(spec.submodule_search_locations or [])]
        hint = did_you_mean(rest.split(".")[0], modules) if "no module" in str(error) else ""
        raise InputError(f"{error}{hint} The package '{package}' is in '{_place(spec)}'.") from error
    except PaddockError:
        raise
    except Exception as error:  # Anything can happen while code of a person's own is imported.
        raise InputError(f"_target_ '{target}' cannot be loaded: {_told(error)}") from error


def _find(package: str) -> ModuleSpec | None:
    """Where a package is, or None. One in the current folder goes before one of that name elsewhere."""
    if package in sys.modules:
        module = sys.modules[package]
        return module.__spec__ or ModuleSpec(package, None, origin=getattr(module, "__file__", None))
    here = Path.cwd()
    is_kept = package in permission.current().packages  # The run's own copy is on the path already, and goes first.
    is_here = not is_kept and ((here / package).is_dir() or (here / f"{package}.py").is_file())
    spec = importlib.util.find_spec(package)
    if is_here and (spec is None or not _place(spec).is_relative_to(here)):
        # At the end, unless something hides it: other files of this folder should hide nothing.
        sys.path.insert(len(sys.path) if spec is None else 0, str(here))
        importlib.invalidate_caches()
        spec = importlib.util.find_spec(package)
    return spec


def _place(spec: ModuleSpec) -> Path:
    locations = list(spec.submodule_search_locations or [])
    return Path(locations[0] if locations else str(spec.origin))


def _not_found(package: str) -> str:
    return (
        f"There is no package '{package}': looked in the current folder, '{Path.cwd()}', for {package}/ and "
        f"{package}.py, and among what is installed for {sys.executable}."
    )


def _told(error: Exception) -> str:
    """An error and the line of the person's own code where it happened."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: the file is not valid Python: {error.msg}."
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and not Path(frame.filename).is_relative_to(Path(__file__).parents[1])
        and "importlib" not in frame.filename
    ]  # fmt: skip
    place = f"{own[-1].filename}, line {own[-1].lineno}: " if own else ""
    return f"{place}{type(error).__name__}: {error}"
