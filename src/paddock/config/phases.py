"""Phases and their hooks as mappings by name, whichever way they were written.

A mapping is merged with what is there already, in the order in which names first came up; null takes an entry out. A
list, as everything was before schema version 4, stands for itself and takes the place of what is there. Numbers in
place of names (`training.phases.0.duration_steps=64`) mean the entries that are left, counted from 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from paddock.core.errors import InputError, did_you_mean

PHASES = "training.phases"
HOOKS = "workflow_hooks"
LIST = "_list_"  # in a mapping: the list that a user's YAML has in its place


def phases_by_name(phases: Any) -> Any:
    """Phases as a mapping, their hooks too; what is neither list nor mapping stays as it is, for validation to say."""
    named = _by_name(phases, _named_phase)
    if not isinstance(named, dict):
        return named
    return {name: {**one, HOOKS: hooks_by_name(one[HOOKS])} if _has_hooks(one) else one for name, one in named.items()}


def guard_lists(values: Any) -> Any:
    """The content of a file whose lists of phases or hooks are marked, so that they can be merged with mappings."""
    training = values.get("training") if isinstance(values, dict) else None
    if not isinstance(training, dict) or "phases" not in training:
        return values
    return {**values, "training": {**training, "phases": _guarded(training["phases"])}}


def guard_override(text: str) -> str:
    """`training.phases=[...]`, typed by a person, as something that can be merged with a mapping."""
    key, _, value = text.partition("=")
    if not value.lstrip().startswith("[") or not key.startswith(PHASES):
        return text
    return f"{key}.{LIST}={value}" if key == PHASES or key.endswith(f".{HOOKS}") else text


def check_typed(keys: Iterable[str], written: Iterable[str], listed: Any) -> None:
    """Refuse `training.phases.NAME.OPTION` on the command line where no file has this phase: it would make a phase of
    this option alone. Whole phases (`training.phases.NAME={...}`, a list of all) and a `+` in front add them.

    keys: those typed. written: dotted keys of all files. listed: the list of phases that a file has instead, or None.
    """
    typed = list(keys)
    names = phases_by_name(listed) if listed is not None else map(_phase_of, written)
    known = [name for name in dict.fromkeys(names) if name is not None]
    added = {key.removeprefix(f"{PHASES}.") for key in typed}
    for key, name in zip(typed, map(_phase_of, typed), strict=True):
        if PHASES in typed or name is None or name in added:
            continue
        if listed is not None and name in known:
            numbered = key.replace(name, str(known.index(name)), 1)
            raise InputError(f"'{key}': phases that are a list are given by number here; write {numbered}.")
        if name not in known and (not name.isdigit() or int(name) >= len(known)):
            listed_names = ", ".join(known) or "none"
            raise InputError(
                f"'{key}': there is no phase '{name}'.{did_you_mean(name, known)} Phases: {listed_names}. "
                f"To add a phase, write it as a whole: {PHASES}.{name}={{...}}."
            )


def _phase_of(key: str) -> str | None:
    """`seed` of `training.phases.seed.buffer`; None where a key is not an option of a phase."""
    name, dot, _ = key.removeprefix(f"{PHASES}.").partition(".")
    return name if key.startswith(f"{PHASES}.") and dot else None


def hooks_by_name(hooks: Any) -> Any:
    """The hooks of a phase as a mapping, as `phases_by_name` has them."""
    return _by_name(hooks, _named_hook)


def _has_hooks(phase: Any) -> bool:
    return isinstance(phase, dict) and HOOKS in phase


def _by_name(entries: Any, named: Any) -> Any:
    if isinstance(entries, list | tuple):
        return _unique(named(index, entry) for index, entry in enumerate(entries))
    if not isinstance(entries, Mapping):
        return entries
    numbered = {name: entry for name, entry in entries.items() if str(name).isdigit()}
    rest = {name: entry for name, entry in entries.items() if name not in numbered and name != LIST}
    if LIST in entries:
        rest = _unique(named(index, entry) for index, entry in enumerate(entries[LIST] or []))
    found = {name: entry for name, entry in rest.items() if entry is not None}
    for number, entry in numbered.items():
        names = list(found)
        name = names[int(number)] if int(number) < len(names) else str(number)
        if isinstance(entry, Mapping) and set(entry) == {name}:  # `workflow_hooks.2.evaluate.every_steps`
            entry = entry[name]
        found[name] = _merged(found.get(name), entry)
    return found


def _named_phase(index: int, phase: Any) -> tuple[str, Any]:
    if not isinstance(phase, Mapping):
        return str(index), phase
    return str(phase.get("name", index)), {key: value for key, value in phase.items() if key != "name"}


def _named_hook(index: int, hook: Any) -> tuple[str, Any]:
    """From `collect`, `collect: {steps: 64}` or `{name: collect, steps: 64}`."""
    if isinstance(hook, str):
        return hook, {}
    if isinstance(hook, Mapping) and "name" in hook:
        return str(hook["name"]), {key: value for key, value in hook.items() if key != "name"}
    if isinstance(hook, Mapping) and len(hook) == 1:
        ((name, cadence),) = hook.items()
        return str(name), {} if cadence is None else cadence
    return str(index), hook


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """A hook that comes a second time gets a name of its own, and says which one it is."""
    found: dict[str, Any] = {}
    for name, entry in pairs:
        key, count = name, 1
        while key in found:
            count += 1
            key = f"{name}_{count}"
        found[key] = entry if key == name or not isinstance(entry, Mapping) else {**entry, "hook": name}
    return found


def _guarded(phases: Any) -> Any:
    if isinstance(phases, list):
        return {LIST: phases}
    if not isinstance(phases, dict):
        return phases
    lists = {name: one[HOOKS] for name, one in phases.items() if _has_hooks(one) and isinstance(one[HOOKS], list)}
    return {**phases, **{name: {**phases[name], HOOKS: {LIST: hooks}} for name, hooks in lists.items()}}


def _merged(before: Any, after: Any) -> Any:
    if not isinstance(before, Mapping) or not isinstance(after, Mapping) or LIST in after:
        return after
    return {**before, **{key: _merged(before.get(key), value) for key, value in after.items()}}
