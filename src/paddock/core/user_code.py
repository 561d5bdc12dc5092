"""Code of a person's own: loading `file.py`, and the copies of files and packages that are kept with a run.

`code/index.json` in a run's folder says which file or package, as the configuration names it, was copied to where.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import json
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

from paddock.core import permission
from paddock.core.errors import InputError, did_you_mean
from paddock.core.files import replace_file
from paddock.core.reading import DamagedError, read_bytes, read_json

CODE, INDEX, PACKAGES = "code", "index.json", "packages"
LARGEST_FILE = 4 * 2**20  # bytes of one file of Python
LARGEST_PACKAGE, MOST_FILES = 32 * 2**20, 2_000  # bytes and files of a package that is copied

loaded: dict[str, str] = {}
"""What this process has run: file -> sha256 of its bytes."""


def split_reference(reference: str) -> tuple[str, str]:
    """`path/to/file.py:function` as file and function; the function is empty where none is named."""
    file, colon, name = reference.rpartition(":")
    return (file, name) if colon and file.lower().endswith(".py") else (reference, "")


def load_file(given: str, *, noun: str) -> tuple[ModuleType, Path]:
    """The module that a Python file defines, and the file to name in messages. noun: `reward file`, say.

    Where a run keeps a copy of the file, the copy is what runs.
    """
    permission.demand(f"the {noun} '{given}'")
    file = permission.current().copies.get(given, Path(given))
    if not file.is_file():
        raise InputError(f"the {noun} '{given}' does not exist (relative to {Path.cwd()}).")
    # A copy is a file of its own; only the person's own file may be a link.
    source = read_bytes(file if given in permission.current().copies else file.resolve(), limit=LARGEST_FILE)
    digest = hashlib.sha256(source).hexdigest()
    original = Path(given)
    shown = original if file_digest(original) == digest else file
    module = ModuleType(f"paddock_user_{original.stem}_{digest[:12]}")
    module.__file__ = str(shown.resolve())
    _execute(module, source, shown)
    loaded[str(file.resolve())] = digest
    return module, shown


def load_function(
    given: str, name: str, *, noun: str, is_fit: Callable[[Any], bool] = callable
) -> tuple[Callable[..., Any], Path]:
    """The function `name` of a Python file, and the file to name in messages. is_fit: what counts as a function."""
    module, file = load_file(given, noun=noun)
    function: Any = getattr(module, name, None)
    if is_fit(function):
        return function, file
    found = [key for key, value in vars(module).items() if inspect.isfunction(value)]
    listed = f"It defines: {', '.join(found)}." if found else "It defines no function."
    raise InputError(f"{file} has no function '{name}'.{did_you_mean(name, found)} {listed}")


def _execute(module: ModuleType, source: bytes, shown: Path) -> None:
    sys.modules[module.__name__] = module  # Dataclasses and pickles look for it there.
    try:
        exec(compile(source, str(shown), "exec"), module.__dict__)
    except SyntaxError as error:
        raise InputError(f"{shown}, line {error.lineno}: the file is not valid Python: {error.msg}.") from error
    except (Exception, SystemExit) as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(shown)]
        line = frames[-1].lineno if frames else 1
        raise InputError(f"{shown}, line {line}: {type(error).__name__} while it is loaded: {error}") from error


@dataclass(frozen=True)
class KeptCode:
    """The `code/` folder of a run.

    files, packages: what the configuration names -> `copy` (below the folder, None where none was made), `original`
    (where it was), `sha256`.
    """

    folder: Path | None
    files: Mapping[str, Mapping[str, Any]]
    packages: Mapping[str, Mapping[str, Any]]

    @classmethod
    def none(cls) -> KeptCode:
        return cls(None, {}, {})

    @classmethod
    def of(cls, folder: Path) -> KeptCode:
        """What was kept with a run, or with the run that a policy is part of."""
        places = [folder / CODE]
        if (folder / "policy.json").is_file():
            places.append(folder.resolve().parent.parent / CODE)
        for place in places:
            if (place / INDEX).exists():
                return cls._read(place)
        return cls.none()

    @classmethod
    def _read(cls, place: Path) -> KeptCode:
        index = read_json(place / INDEX)
        files, packages = (_table(index, name, place) for name in ("files", PACKAGES))
        for entry in [*files.values(), *packages.values()]:
            copy = PurePosixPath(str(entry.get("copy") or "x"))
            if copy.is_absolute() or ".." in copy.parts:
                raise DamagedError(place / INDEX, f"the copy '{copy}' lies outside the folder")
        if any(file.is_symlink() for file in place.rglob("*")):
            raise DamagedError(place, "it holds links, which no copy has")
        return cls(place, files, packages)

    def path_of(self, file: str) -> Path | None:
        """The copy of a file, by how the configuration names it."""
        copy = self.files.get(file, {}).get("copy")
        return self.folder / copy if self.folder is not None and copy else None

    def has_copy(self, name: str) -> bool:
        """Whether a file or package was copied, by how the configuration names it."""
        return bool({**self.packages, **self.files}.get(name, {}).get("copy"))

    def with_copies(self, values: Any) -> Any:
        """The same values with every reference to a file led to its copy."""
        if isinstance(values, Mapping):
            return {name: self.with_copies(value) for name, value in values.items()}
        if isinstance(values, list):
            return [self.with_copies(value) for value in values]
        file, name = split_reference(values) if isinstance(values, str) else ("", "")
        copy = self.path_of(file) if name else None
        return values if copy is None else f"{copy.resolve()}:{name}"

    def digest_of_file(self, file: str) -> str | None:
        path = self.path_of(file)
        return file_digest(path) if path is not None else None

    def digest_of_package(self, package: str) -> str | None:
        copy = self.packages.get(package, {}).get("copy")
        return tree_digest(self.folder / copy) if self.folder is not None and copy else None

    def digests(self) -> list[tuple[str, str | None]]:
        """Every file below the folder, with its sha256: nothing can be added or changed unseen."""
        if self.folder is None:
            return []
        files = sorted(file for file in self.folder.rglob("*") if not file.is_dir() or file.is_symlink())
        return [(file.relative_to(self.folder).as_posix(), file_digest(file)) for file in files]

    def changed(self) -> list[str]:
        """What is not any more as it was when the run began, by how the configuration names it."""
        versions = {name: self.versions_of(name) for name in [*self.files, *self.packages]}
        return [name for name, (then, now) in versions.items() if now is not None and then != now]

    def versions_of(self, name: str) -> tuple[str | None, str | None]:
        """The beginnings of the sha256 of a file or package when the run began, and now; None where it is gone."""
        is_file = name in self.files
        entry = self.files[name] if is_file else self.packages[name]
        original = Path(str(entry.get("original")))
        now = file_digest(original) if is_file else tree_digest(original)
        return str(entry.get("sha256"))[:12], now[:12] if now else None

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Run the copies, not the originals."""
        if self.folder is None:
            yield
            return
        copies = {name: path for name in self.files if (path := self.path_of(name)) is not None}
        wrote_bytecode, home = sys.dont_write_bytecode, str(self.folder / PACKAGES)
        for name in self.packages:
            self._refuse_other(name)
        # Bytecode beside the copies would be code that no digest was taken of.
        sys.dont_write_bytecode = True
        sys.path.insert(0, home)
        importlib.invalidate_caches()
        try:
            with permission.permitting(replace(permission.current(), copies=copies)):
                yield
        finally:
            sys.dont_write_bytecode = wrote_bytecode
            with suppress(ValueError):
                sys.path.remove(home)

    def _refuse_other(self, package: str) -> None:
        """A package that is imported already cannot be imported again from the copy."""
        module = sys.modules.get(package)
        if module is None or self.digest_of_package(package) is None:
            return
        place = _place_of(package)
        if place is not None and tree_digest(place) != self.digest_of_package(package):
            raise InputError(
                f"the package '{package}' of '{place}' is imported already and differs from the copy in "
                f"'{self.folder}'; start a new process, or resume with paddock train --resume."
            )


def copy_code(folder: Path, files: Iterable[str], packages: Iterable[str]) -> dict[str, Any]:
    """Copy files and packages of a person's own into `folder/code`; gives the index, empty where there are none."""
    place = folder / CODE
    kept: dict[str, dict[str, Any]] = {"files": {}, PACKAGES: {}}
    for given in dict.fromkeys(files):
        with suppress(DamagedError):  # What does not exist is missed, and named, when it is to run.
            kept["files"][given] = _keep_file(Path(given), place, taken=len(kept["files"]))
    for package in dict.fromkeys(packages):
        original = _place_of(package)
        if original is not None:
            kept[PACKAGES][package] = _keep_package(original, place / PACKAGES)
    if not any(kept.values()):
        return {}
    place.mkdir(exist_ok=True)
    replace_file(place / INDEX, json.dumps(kept, indent=1).encode())
    return kept


def _keep_file(original: Path, place: Path, *, taken: int) -> dict[str, Any]:
    source = read_bytes(original.resolve(), limit=LARGEST_FILE)
    place.mkdir(exist_ok=True)
    copy = original.name
    if (place / copy).exists():
        copy = f"{original.stem}-{taken + 1}{original.suffix}"
    replace_file(place / copy, source)
    return {"copy": copy, "original": str(original.resolve()), "sha256": hashlib.sha256(source).hexdigest()}


def _keep_package(original: Path, place: Path) -> dict[str, Any]:
    """What is installed has a version and stays where it is; what a person works on is copied."""
    entry: dict[str, Any] = {"copy": None, "original": str(original), "sha256": tree_digest(original)}
    files = _tree(original)
    if _is_installed(original) or not _is_small(files):
        return entry
    for file in files:
        target = place / original.name / file.relative_to(original) if original.is_dir() else place / original.name
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_file(target, file.read_bytes())
    return {**entry, "copy": f"{PACKAGES}/{original.name}"}


def file_digest(file: Path) -> str | None:
    """sha256 of a file; None where it cannot be read."""
    try:
        return hashlib.sha256(read_bytes(file, limit=LARGEST_PACKAGE)).hexdigest()
    except DamagedError:
        return None


def tree_digest(place: Path) -> str | None:
    """sha256 of a package's files and their names, or of a module's one file; None where there is none.

    Of what is installed, which can be very large, the sizes of the files stand for their content.
    """
    files = _tree(place)
    if not files:
        return None
    of_content = not _is_installed(place) and _is_small(files)
    listed = [(file.relative_to(place).as_posix(), file_digest(file) if of_content else _size(file)) for file in files]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()


def package_digest(package: str) -> str | None:
    """Of a package as it would be imported now."""
    place = _place_of(package)
    return tree_digest(place) if place is not None else None


def _tree(place: Path) -> list[Path]:
    """The files that make a package: no bytecode, nothing hidden, no links."""
    if place.is_file():
        return [place]
    found = (file for file in place.rglob("*") if file.is_file() and not file.is_symlink())
    return sorted(file for file in found if not _is_left_out(file.relative_to(place)))


def _is_small(files: Sequence[Path]) -> bool:
    return len(files) <= MOST_FILES and sum(map(_size, files)) <= LARGEST_PACKAGE


def _size(file: Path) -> int:
    return file.lstat().st_size


def _is_left_out(path: Path) -> bool:
    return path.suffix == ".pyc" or any(part == "__pycache__" or part.startswith(".") for part in path.parts)


def _place_of(package: str) -> Path | None:
    """The folder of a package or the file of a module; it is found, not imported."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    if spec is None or (spec.origin in (None, "built-in", "frozen") and not spec.submodule_search_locations):
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    return Path(str(spec.origin))


def _is_installed(place: Path) -> bool:
    roots = [sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")]
    return any(place.resolve().is_relative_to(Path(root).resolve()) for root in roots)


def _table(index: Any, name: str, place: Path) -> dict[str, Mapping[str, Any]]:
    """One table of an index that may hold anything."""
    table = index.get(name) if isinstance(index, dict) else None
    if not isinstance(table, dict) or not all(isinstance(entry, dict) for entry in table.values()):
        raise DamagedError(place / INDEX, "it does not list files and packages")
    return table
