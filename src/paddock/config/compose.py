"""Composing YAML with Hydra: groups, defaults lists, interpolation and overrides, and where each value came from."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from paddock.config import sources
from paddock.config.phases import LIST, PHASES, check_typed, guard_override
from paddock.config.renamed import GROUPS, rename, rename_key, rename_references, renamed_groups, say_renamed
from paddock.core.errors import InputError, unknown_choice
from paddock.core.mappings import flatten

SHIPPED = Path(__file__).parent / "yaml"
PRIMARY = "config"
COMMAND_LINE = "command line"
FUNCTION_GROUP = "reward"  # its choice may also be a function in a file of the user's
TARGET = "_target_"
_HYDRA = threading.Lock()  # Hydra keeps what it composes in global state.


@dataclass(frozen=True)
class Composed:
    """A resolved configuration, not validated yet, and the origin of each leaf by its dotted key.

    superseded: by dotted key the options that were written for another `_target_` than their part has in the end, and
    for which one. left_out: those of them that were taken out because the new one does not share them
    (`paddock.config.inheritance`), with their origins.
    """

    values: dict[str, Any]
    origins: dict[str, str]
    superseded: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Layer:
    """What one file, or the command line, wrote: the place of each dotted key, and the `_target_` of each part.

    around: the `_target_`s of parts that this file's content is put into by the file that names it in its defaults.
    """

    places: dict[str, str]
    targets: dict[str, str]
    around: dict[str, str] = field(default_factory=dict)


def compose(
    experiment: str | None = None,
    *,
    preset: str | None = None,
    user: Path | None = None,
    overrides: Sequence[str] = (),
) -> Composed:
    """Compose an experiment.

    `user` is a directory of YAML that may hold groups like the shipped tree, or one file that is an experiment itself.
    """
    overrides = [text for given in overrides for text in _with_function(_with_group(given))]
    with _search_path(user) as (folders, own_experiment):
        _check_groups(folders[1:])
        experiment = own_experiment or experiment
        choices = {"experiment": experiment, "preset": preset}
        arguments = [f"{group}={_checked(group, name, folders)}" for group, name in choices.items() if name]
        arguments += [_as_override(guard_override(text), folders) for text in overrides]
        sources.register()
        extra_folders = ",".join(f"{sources.SCHEME}://{folder}" for folder in folders[1:])
        arguments.append(f"hydra.searchpath=[{extra_folders}]")
        try:
            with _HYDRA, initialize_config_dir(str(SHIPPED), version_base="1.3"):
                merged = hydra_compose(PRIMARY, arguments)
                loader = GlobalHydra.instance().config_loader()
                merged_files = loader.compute_defaults_list(PRIMARY, arguments, RunMode.RUN).defaults
                layers = [*_file_layers(merged_files, folders), _command_line(overrides, folders)]
                _check_phases(overrides, layers[:-1], merged)
                values, found = _resolved(merged, layers)
        except (HydraException, OmegaConfBaseException, yaml.YAMLError) as error:
            text = _plain(error)
            raise InputError(f"the configuration cannot be composed: {text}{renamed_groups(text)}") from error
        origins = _origins(values, layers, found)
        if user is not None and own_experiment:
            copied = f"{folders[-1] / 'experiment' / own_experiment}.yaml"
            origins = {key: text.replace(copied, str(user)) for key, text in origins.items()}
    say_renamed(found)
    superseded = _superseded(layers, _aliases(merged))
    return Composed(values, origins, {rename_key(key, found): old for key, old in superseded.items()})


def choices(group: str, user: Path | None = None) -> dict[str, Path]:
    """Names available in a group of the shipped tree and of the user's directory, with their files."""
    folders = [SHIPPED] + ([user] if user is not None and user.is_dir() else [])
    return {file.stem: file for folder in folders for file in sorted((folder / group).glob("*.yaml"))}


def describe(file: Path) -> str:
    """The first comment line of a YAML file that is not a Hydra directive: its one-line description."""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("#") and "@package" not in line:
            return line.lstrip("# ").strip()
    return ""


@contextmanager
def _search_path(user: Path | None) -> Iterator[tuple[list[Path], str | None]]:
    """Folders to search, the shipped tree first, and the experiment's name if the user gave one as a file."""
    if user is None:
        yield [SHIPPED], None
    elif user.is_dir():
        yield [SHIPPED, user.resolve()], None
    elif user.is_file():
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "experiment").mkdir()
            shutil.copy(user, Path(folder) / "experiment" / f"{user.stem}.yaml")
            yield [SHIPPED, user.resolve().parent, Path(folder)], user.stem
    else:
        raise InputError(f"--config '{user}' is neither a file nor a directory.")


def _checked(group: str, name: str, folders: Sequence[Path]) -> str:
    """The group's choice as Hydra reads it; of presets there may be several, `a,b`, and the last one counts most."""
    available = {file.stem for folder in folders for file in (folder / group).glob("*.yaml")}
    names = name.split(",") if group == "preset" else [name]
    for one in names:
        if one not in available:
            raise unknown_choice(group, one, available)
    return name if len(names) == 1 else f"[{name}]"


def _check_groups(folders: Sequence[Path]) -> None:
    """A folder with the former name of a group would be passed over without a word."""
    for old, new in GROUPS.items():
        for folder in folders:
            if any((folder / old).glob("*.yaml")):
                raise InputError(f"the group '{old}' is now called '{new}': rename the folder '{folder / old}'.")


def _with_group(text: str) -> str:
    """An override with today's name of its group."""
    key, equals, value = text.partition("=")
    old = key.lstrip("+~").partition("@")[0]
    if old not in GROUPS:
        return text
    say_renamed({old: GROUPS[old]})
    return f"{key.replace(old, GROUPS[old], 1)}{equals}{value}"


def _with_function(text: str) -> list[str]:
    """`reward=FILE.py:FUNCTION` as the set that is made of this function alone; any other override as it is."""
    key, _, reference = text.partition("=")
    if key != FUNCTION_GROUP or ".py:" not in reference:
        return [text]
    name = reference.rpartition(":")[2]
    if not name.isidentifier():
        raise InputError(f"'{text}' does not name a function; write {key}=path/to/file.py:function_name.")
    quoted = reference.replace("\\", "\\\\").replace("'", "\\'")
    return [f"{key}=none", f"{key}.custom.{name}.function='{quoted}'"]


def _as_override(text: str, folders: Sequence[Path]) -> str:
    """A group's choice stays as it is; a value is forced in, so that validation names every unknown key at once."""
    key, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[+~]{0,2}[\w./@-]+", key):
        raise InputError(f"'{text}' is not an override; write key=value, for example training.total_steps=1000.")
    group = key.lstrip("+~").partition("@")[0]  # `+network@components.policy.network` puts a group's choice there.
    if _is_group(group, folders):
        return f"{key}={_checked(group, value, folders)}"
    return text if key[0] in "+~" else f"++{text}"


def _is_group(name: str, folders: Sequence[Path]) -> bool:
    return any((folder / name).is_dir() for folder in folders)


def _plain(error: Exception) -> str:
    return " ".join(line.strip() for line in str(error).splitlines() if "full_key" not in line).strip()


def _check_phases(overrides: Sequence[str], files: Sequence[_Layer], merged: Any) -> None:
    written = (key for layer in files for key in layer.places)
    listed = OmegaConf.select(merged, f"{PHASES}.{LIST}")
    plain = None if listed is None else OmegaConf.to_container(listed, resolve=False)
    check_typed((text.partition("=")[0] for text in overrides), written, plain)


def _resolved(merged: Any, layers: Sequence[_Layer]) -> tuple[dict[str, Any], dict[str, str]]:
    """The values in today's words, and which keys were renamed. Renamed first: what is interpolated from a renamed
    option has to get the value that a person wrote under the old word."""
    raw = OmegaConf.to_container(merged, resolve=False)
    assert isinstance(raw, dict)
    plain = {str(key): value for key, value in raw.items()}
    values, found = rename(plain, partial(_is_of_the_user, _origins(plain, layers, {})))
    resolved = OmegaConf.to_container(OmegaConf.create(rename_references(values)), resolve=True)
    assert isinstance(resolved, dict)
    return {str(key): value for key, value in resolved.items()}, found


def _origins(values: Mapping[str, Any], layers: Sequence[_Layer], found: Mapping[str, str]) -> dict[str, str]:
    """Where each leaf of `values` was last written, under its own or its old name: a file and line, or the command
    line."""
    written: dict[str, str] = {}
    for layer in layers:
        written |= {rename_key(key, found): place for key, place in layer.places.items()}
    return {key: origin for key, _ in flatten(values) if (origin := _longest(key, written))}


def _is_of_the_user(origins: Mapping[str, str], key: str) -> bool:
    """Whether a value was written in a file of the user's or on the command line."""
    written = [origin for leaf, origin in origins.items() if leaf == key or leaf.startswith(f"{key}.")]
    return any(not (SHIPPED / origin.rpartition(":")[0]).is_file() for origin in written)


def _superseded(layers: Sequence[_Layer], aliases: Mapping[str, str]) -> dict[str, str]:
    """Options that were last written for another `_target_` than their part's last one. What one layer writes belongs
    together: an option may stand before the `_target_` that it is for."""
    targets: dict[str, str] = {}
    written_for: dict[str, str] = {}
    for layer in layers:
        targets |= layer.targets
        present = targets | layer.around
        for key in {prefix for place in layer.places for prefix in _prefixes(place)}:
            part, _, option = key.rpartition(".")
            if part in present and option != TARGET:
                written_for[key] = present[part]
    found = {key: target for key, target in written_for.items() if target != targets[key.rpartition(".")[0]]}
    for alias, source in aliases.items():
        found |= {alias + key.removeprefix(source): old for key, old in found.items() if key.startswith(f"{source}.")}
    return found


def _prefixes(key: str) -> Iterator[str]:
    """`a`, `a.b` and `a.b.c` of `a.b.c`."""
    parts = key.split(".")
    return (".".join(parts[:length]) for length in range(1, len(parts) + 1))


def _aliases(merged: Any) -> dict[str, str]:
    """Keys whose whole value is another's, as in `target_critics: ${components.critics}`, and whose."""
    leaves = flatten(OmegaConf.to_container(merged, resolve=False))
    whole = {key: re.fullmatch(r"\$\{([\w.]+)\}", value) for key, value in leaves if isinstance(value, str)}
    return {key: match[1] for key, match in whole.items() if match}


def _file_layers(merged: Sequence[Any], folders: Sequence[Path]) -> list[_Layer]:
    """One layer for each file, in the order in which they were merged."""
    found = []
    for source in merged:
        if source.config_path is not None and not source.config_path.startswith("hydra"):
            file = _find(source.config_path, folders)
            if file is not None:
                found.append((source, _file_layer(file, source.package or "")))
    for source, layer in found:
        for parent, other in found:
            if parent.config_path == source.parent:
                inside = {part: target for part, target in other.targets.items() if _is_inside(source.package, part)}
                layer.around.update(inside)
    return [layer for _, layer in found]


def _is_inside(package: str | None, part: str) -> bool:
    return (package or "").startswith(f"{part}.")


def _command_line(overrides: Sequence[str], folders: Sequence[Path]) -> _Layer:
    layer = _Layer({}, {})
    for override in OverridesParser.create().parse_overrides(list(overrides)):
        key = override.key_or_group
        layer.places[key] = COMMAND_LINE
        if override.is_delete() or _is_group(key, folders):
            continue
        for leaf, value in flatten({key: override.value()}):
            layer.places[leaf] = COMMAND_LINE
            part, _, option = leaf.rpartition(".")
            if option == TARGET:
                layer.targets[part] = str(value)
    return layer


def _find(config_path: str, folders: Sequence[Path]) -> Path | None:
    candidates = [folder / f"{config_path}.yaml" for folder in folders]
    return next((file for file in candidates if file.is_file()), None)


def _file_layer(file: Path, package: str) -> _Layer:
    """Dotted key -> `file:line` for every key in a YAML file, and the `_target_`s that it names."""
    text = file.read_text(encoding="utf-8")
    name = f"{file.relative_to(SHIPPED)}" if file.is_relative_to(SHIPPED) else str(file)
    targets: dict[str, str] = {}

    def walk(node: yaml.Node, prefix: str) -> Iterator[tuple[str, str]]:
        if isinstance(node, yaml.MappingNode):
            for key, child in node.value:
                if key.value == "<<":  # A block that YAML merges in here.
                    yield from walk(child, prefix)
                    continue
                path = f"{prefix}.{key.value}" if prefix else key.value
                yield path, f"{name}:{key.start_mark.line + 1}"
                if key.value == TARGET and isinstance(child, yaml.ScalarNode):
                    targets[prefix] = child.value
                yield from walk(child, path)
        elif isinstance(node, yaml.SequenceNode):
            for index, child in enumerate(node.value):
                yield f"{prefix}.{index}", f"{name}:{child.start_mark.line + 1}"
                yield from walk(child, f"{prefix}.{index}")

    root = yaml.compose(text)
    return _Layer(dict(walk(root, package)) if root is not None else {}, targets)


def _longest(key: str, written: Mapping[str, str]) -> str | None:
    """The origin of the key itself, or of the nearest parent that was written as a whole."""
    while key:
        if key in written:
            return written[key]
        key = key.rpartition(".")[0]
    return None
