"""A person's own experiments and rewards, from the one folder that was named when the server was started.

Files are read as text and never imported here. A request names an entry of this list, and nothing else.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from paddock.config.compose import describe
from paddock.core.errors import InputError, unknown_choice
from paddock.core.reading import DamagedError, read_bytes

MOST_FILES = 200
LARGEST_FILE = 2**20  # bytes


class Mine:
    """The choices of one folder: `NAME.yaml` is an experiment, each function of a `NAME.py` is a reward."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise InputError(f"--mine '{folder}' is not a folder.")
        self._folder = folder.resolve()

    def choices(self) -> dict[str, Any]:
        """`experiments` and `rewards` of this moment, and sentences about files that cannot be read (`problems`)."""
        problems: list[str] = []
        experiments = [{"name": file.name, "description": _described(file, problems)} for file in self._files("*.yaml")]
        rewards = [entry for file in self._files("*.py") for entry in _functions(file, problems)]
        return {"folder": self._folder.name, "experiments": experiments, "rewards": rewards, "problems": problems}

    def experiment(self, given: Any) -> Path:
        """The file of an experiment that a request names."""
        files = {file.name: file for file in self._files("*.yaml")}
        if not isinstance(given, str) or given not in files:
            raise unknown_choice("experiment of your folder", str(given)[:80], files)
        return files[given]

    def reward(self, given: Any) -> str:
        """`FILE:FUNCTION` with the file's whole path, for a function that a request names as the list does."""
        known = {one["name"]: one for one in self.choices()["rewards"]}
        if not isinstance(given, str) or given not in known:
            raise unknown_choice("reward of your folder", str(given)[:80], known)
        file, _, function = given.partition(":")
        return f"{self._folder / file}:{function}"

    def _files(self, pattern: str) -> list[Path]:
        files = sorted(file for file in self._folder.glob(pattern) if not file.name.startswith("."))
        return [file for file in files if file.is_file() and not file.is_symlink()][:MOST_FILES]


def _described(file: Path, problems: list[str]) -> str:
    try:
        read_bytes(file, limit=LARGEST_FILE)
        return describe(file)
    except (DamagedError, UnicodeDecodeError) as error:
        problems.append(f"{file.name}: {error}")
        return ""


def _functions(file: Path, problems: list[str]) -> list[dict[str, str]]:
    """Public functions that take something, by name with the first line of their docstring."""
    try:
        tree = ast.parse(read_bytes(file, limit=LARGEST_FILE))
    except DamagedError as error:
        problems.append(f"{file.name}: {error.reason}.")
        return []
    except (SyntaxError, ValueError, RecursionError) as error:
        where = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        problems.append(f"{file.name}{where}: this is not Python.")
        return []
    found = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and node.args.args:
            text = (ast.get_docstring(node) or "").partition("\n")[0]
            found.append({"name": f"{file.name}:{node.name}", "description": text})
    return found
