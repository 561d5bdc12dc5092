"""Options typed by a person on top of a saved configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from paddock.config.phases import guard_override
from paddock.config.renamed import rename, say_renamed
from paddock.core.errors import InputError


def with_overrides(saved: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """The saved values with `key=value` applied; old words in what was typed become today's.

    What was typed may refer to other values and to the environment, as on the command line of a new run. A saved text
    stays the text that it is, `${oc.env:HOME}` included: it was resolved when the run was made, or it came from
    elsewhere.
    """
    texts: list[str] = []
    try:
        typed = OmegaConf.from_dotlist([guard_override(text) for text in overrides])
        merged = OmegaConf.merge(OmegaConf.create(_hidden(saved, texts)), typed)
        values = OmegaConf.to_container(merged, resolve=True)
    except (ValueError, OmegaConfBaseException) as error:
        given = f"the overrides {' '.join(overrides)}" if overrides else "the saved configuration"
        raise InputError(f"{given} cannot be read: {' '.join(str(error).split())}") from error
    shown = _shown(values, texts)
    assert isinstance(shown, dict)
    renamed, found = rename({str(key): value for key, value in shown.items()})
    say_renamed(found)
    return renamed


def _hidden(values: Any, texts: list[str]) -> Any:
    """The same values with every text that could refer to something replaced by its number in `texts`."""
    if isinstance(values, Mapping):
        return {key: _hidden(value, texts) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return [_hidden(value, texts) for value in values]
    if isinstance(values, str) and ("$" in values or values.startswith(_MARK) or "\\" in values):
        texts.append(values)
        return f"{_MARK}{len(texts) - 1}"
    return values


def _shown(values: Any, texts: Sequence[str]) -> Any:
    if isinstance(values, dict):
        return {key: _shown(value, texts) for key, value in values.items()}
    if isinstance(values, list):
        return [_shown(value, texts) for value in values]
    is_hidden = isinstance(values, str) and values.startswith(_MARK)
    return texts[int(values.removeprefix(_MARK))] if is_hidden else values


_MARK = "\x00saved "
