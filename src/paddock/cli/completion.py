"""What TAB offers in the shell: runs, experiments, presets, tracks, cars, option keys and their values.

A shell waits for every answer, so nothing here imports more than reading a few files takes.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import typer

import paddock

VARIABLE = "_PADDOCK_COMPLETE"
BASH = "complete_bash"
CARS = ("arcade", "f1tenth", "gt", "road")
CLASSICAL = "classical"
PACKAGE = Path(paddock.__file__).parent
SHIPPED = PACKAGE / "config" / "yaml"
BY_OPTION = ("experiment", "preset")  # groups that are not chosen by `group=name`
Complete = Callable[[typer.Context, str], Sequence[str | tuple[str, str]]]


def complete_runs(context: typer.Context, incomplete: str) -> list[str]:
    """Names given to runs, and their folders, that begin like this."""
    from paddock.experiments.run import base_name, run_names

    folders = run_names(Path(context.params.get("runs_dir") or "runs"))
    names = {base_name(folder) for folder in folders}
    return _beginning([*sorted(names), *folders], incomplete)


def complete_opponents(context: typer.Context, incomplete: str) -> list[str]:
    """The classical driver, the shipped agent, and runs."""
    return [*_beginning([CLASSICAL, "agent"], incomplete), *complete_runs(context, incomplete)]


def complete_tracks(context: typer.Context, incomplete: str) -> list[str]:
    """Shipped circuits and imported tracks."""
    return _beginning(_tracks(), incomplete)


def complete_presets(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Presets, with what they are."""
    return _described("preset", context.params.get("config"), incomplete)


def complete_from(*names: str) -> Complete:
    """One of a few words."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        return _beginning(names, incomplete)

    return complete


def complete_training(context: typer.Context, incomplete: str) -> Sequence[str | tuple[str, str]]:
    """Arguments of `paddock train`: an experiment first, then `key=value` of that experiment."""
    user, resumed = context.params.get("config"), context.params.get("resume")
    given = [text for text in context.params.get("arguments") or [] if "=" not in text]
    if resumed:
        return _options(_saved_keys(context, resumed), {}, incomplete)
    offered: list[str | tuple[str, str]] = []
    if not given and not user:
        offered += _described("experiment", user, incomplete)
    if not given and not user and not incomplete:
        return offered
    groups = _groups(user)
    return offered + _options(_composed_keys(given[0] if given else None, user), groups, incomplete)


def complete_evaluation(context: typer.Context, incomplete: str) -> Sequence[str | tuple[str, str]]:
    """`key=value` of `paddock evaluate`: what may be changed of a run."""
    keys = _saved_keys(context, context.params.get("subject") or "")
    allowed = {key: value for key, value in keys.items() if key.startswith(("environment.", "controllers."))}
    return _options({"controller": "", **allowed}, {}, incomplete)


def _options(
    keys: Mapping[str, str], groups: Mapping[str, Sequence[str]], incomplete: str
) -> list[str | tuple[str, str]]:
    """`key=` while the key is typed, then values of it."""
    key, equals, _ = incomplete.partition("=")
    if equals:
        return [*_beginning([f"{key}={value}" for value in _values(key, keys, groups)], incomplete)]
    known = {**dict.fromkeys(groups, ""), **keys}
    if not incomplete:  # Hundreds of keys: their first words will do.
        return sorted({f"{name}=" if "." not in name else name.split(".")[0] + "." for name in known})
    found = [name for name in known if name.startswith(incomplete)]
    offered: list[str | tuple[str, str]] = [(f"{name}=", known[name]) if known[name] else f"{name}=" for name in found]
    if len(found) == 1:  # A second candidate keeps the shell from putting a space after the equals sign.
        offered += [f"{found[0]}={value}" for value in _values(found[0], keys, groups)[:1]]
    return offered


def _values(key: str, keys: Mapping[str, str], groups: Mapping[str, Sequence[str]]) -> list[str]:
    if key in groups:
        return list(groups[key])
    if key.endswith(".track"):
        return _tracks()
    if key.endswith(".car"):
        return list(CARS)
    now = keys.get(key, "")
    if now in ("true", "false"):
        return [now, "false" if now == "true" else "true"]
    return [now] if re.fullmatch(r"[\w.+-]+", now) else []


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _tracks() -> list[str]:
    from paddock.core.paths import paddock_home

    shipped = sorted(file.stem for file in (PACKAGE / "sim" / "tracks" / "circuits").glob("*.yaml"))
    return [*shipped, *sorted(file.stem for file in (paddock_home() / "tracks").glob("*.csv"))]


def _files(group: str, user: Any) -> dict[str, Path]:
    folders = [SHIPPED, *([Path(user)] if user and Path(user).is_dir() else [])]
    return {file.stem: file for folder in folders for file in sorted((folder / group).glob("*.yaml"))}


def _described(group: str, user: Any, incomplete: str) -> list[tuple[str, str]]:
    files = _files(group, user)
    return [(name, _first_comment(files[name])) for name in _beginning(files, incomplete)]


def _first_comment(file: Path) -> str:
    with file.open(encoding="utf-8") as lines:
        found = (line for line in lines if line.startswith("#") and "@package" not in line)
        return next(found, "").lstrip("# ").strip()


def _groups(user: Any) -> dict[str, list[str]]:
    """Names by group, of the groups that `key=value` chooses from."""
    names = [folder.name for folder in sorted(SHIPPED.iterdir()) if folder.is_dir() and folder.name not in BY_OPTION]
    return {name: list(_files(name, user)) for name in names}


def _composed_keys(experiment: str | None, user: Any) -> dict[str, str]:
    """Dotted keys of an experiment and their values. What ships is composed once and then remembered."""
    from paddock.core.paths import paddock_home

    if user is not None:
        return _compose_keys(experiment, Path(user))
    if experiment is not None and experiment not in _files("experiment", None):
        return {}
    newest = max(file.stat().st_mtime_ns for file in SHIPPED.rglob("*.yaml"))
    stamp = [paddock.__version__, str(SHIPPED), newest]
    file = paddock_home() / "completion" / f"{experiment or 'base'}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        remembered = json.loads(file.read_text(encoding="utf-8"))
        if remembered["stamp"] == stamp:
            return dict(remembered["keys"])
    keys = _compose_keys(experiment, None)
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"stamp": stamp, "keys": keys}), encoding="utf-8")
    return keys


def _compose_keys(experiment: str | None, user: Path | None) -> dict[str, str]:
    from paddock.config.compose import compose

    return _keys(compose(experiment, user=user).values)


def _saved_keys(context: typer.Context, given: str) -> dict[str, str]:
    from paddock.experiments.run import RunFolder

    return _keys(RunFolder.find(Path(context.params.get("runs_dir") or "runs"), given).read_config())


def _keys(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Leaves by dotted key, as text; lists are leaves, for nobody can write into one."""
    found: dict[str, str] = {}
    for name, value in values.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and value:
            found |= {} if key == "environment.reward" else _keys(value, f"{key}.")  # It is `reward`, once more.
        elif not str(name).startswith("_"):
            found[key] = json.dumps(value) if not isinstance(value, str) else value
    return found


def answer_bash(run: Callable[[], None]) -> None:
    """Answer bash, which takes `=` and `:` for the ends of words: put them together first, and give back the ends."""
    words, prefix = joined_words(os.environ.get("COMP_WORDS", ""), int(os.environ.get("COMP_CWORD", "0")))
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join(words), str(len(words) - 1)
    answer = io.StringIO()
    with suppress(SystemExit), redirect_stdout(answer):
        run()
    for line in answer.getvalue().splitlines():
        print(line.removeprefix(prefix))


def joined_words(text: str, current: int) -> tuple[list[str], str]:
    """The words up to the one that is being typed, and how much of that one bash takes for words before it."""
    words = text.split("\n") if "\n" in text else text.split()
    words = [*words[: current + 1], *[""] * (current + 1 - len(words))]
    joined: list[str] = []
    for number, word in enumerate(words):
        is_part = number > 0 and (word in ("=", ":") or words[number - 1] in ("=", ":"))
        if is_part and joined:
            joined[-1] += word
        else:
            joined.append(word)
    last = "" if words[-1] in ("=", ":") else words[-1]
    return joined, joined[-1][: len(joined[-1]) - len(last)]


def silently(run: Callable[[], None]) -> None:
    """Answer a shell; a mistake on the line has no answer, and no message in the middle of the line."""
    from paddock.core.errors import PaddockError

    with suppress(PaddockError), redirect_stderr(io.StringIO()):
        answer_bash(run) if os.environ[VARIABLE] == BASH else run()
