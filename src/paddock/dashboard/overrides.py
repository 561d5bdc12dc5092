"""What a run that is started through the server may set: numbers and known words. Nothing that names a file, a folder,
code, a command or a host; for those there is the command line."""

from __future__ import annotations

import re
from typing import Any

from paddock.config.compose import choices
from paddock.core.errors import did_you_mean, unknown_choice
from paddock.dashboard.catalog import PROCEDURAL, track_names
from paddock.dashboard.errors import Refused

MOST, LONGEST = 64, 1_000
# Of Hydra's grammar only `key=value`: no prefixes, no packages, no functions, no interpolation, no quotes.
OVERRIDE = re.compile(r"([A-Za-z]\w*(?:\.\w+)*)=(.*)", re.DOTALL | re.ASCII)
COMMAND_LINE = "paddock train EXPERIMENT KEY=VALUE"
GROUPS = (
    "environment", "reward", "workflow", "preset", "dreamer_size", "dreamer_optimizer", "tdmpc_size", "latent_value",
)  # fmt: skip
SECTIONS = (
    "buffers", "checkpoint", "components", "controllers", "environment", "evaluation", "optimizers", "reward",
    "training", "workflow",
)  # fmt: skip
SINGLE = (
    "seed", "threads", "debug", "tags", "device", "logging.every_steps", "logging.tensorboard", "logging.terminal",
    "logging.shown", "monitoring.system_every_seconds",
)  # fmt: skip
# Names of files, folders, code, or of anything that is handed on to other programs.
CLOSED = (
    "alerts", "arguments", "command", "custom", "driver", "evaluator", "file", "folder", "function", "host", "judge",
    "path", "probes", "sources", "url", "webhook",
)  # fmt: skip
NUMBER = r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
WORD = r"[A-Za-z]\w*(?:-\w+)*"
METRIC = r"\w+(?:/\w+)+"
# Words of keys that take more than a plain word.
SPECIAL = {
    "device": r"cpu|auto|mps|cuda(?::\d{1,3})?",
    "environment.id": rf"(?:paddock/)?{WORD}",
    "evaluation.metric": METRIC,
    "logging.shown": METRIC,
}


def check_overrides(given: Any) -> list[str]:
    """Overrides as they came in a request, if each of them may be set there."""
    if not isinstance(given, list) or len(given) > MOST:
        raise Refused(f'overrides must be a list of at most {MOST} texts like "training.total_steps=1000".')
    return [_checked(text) for text in given]


def _checked(text: Any) -> str:
    found = OVERRIDE.fullmatch(text) if isinstance(text, str) and len(text) <= LONGEST else None
    if found is None:
        raise Refused(
            f"'{str(text)[:80]}' is not an override that the page takes; write key=value, like "
            f"training.total_steps=1000. Other forms work on the command line: {COMMAND_LINE}."
        )
    key, value = found[1], found[2].strip()
    if key in GROUPS:
        if value not in (known := choices(key)):
            raise unknown_choice(key, value[:80], known)
    else:
        _check_key(key)
        _check_value(key, value)
    return f"{key}={value}"


def _check_key(key: str) -> None:
    names = key.split(".")
    is_known = key in SINGLE or (names[0] in SECTIONS and len(names) > 1)
    if not is_known or any(name in CLOSED or name.startswith("_") for name in names):
        guess = did_you_mean(names[0], SECTIONS) if names[0] not in SECTIONS else ""
        raise Refused(f"'{key[:80]}' cannot be set from the page; the command line takes it: {COMMAND_LINE}.{guess}")


def _check_value(key: str, value: str) -> None:
    if key == "environment.track":
        for name in value.removeprefix("[").removesuffix("]").split(","):
            _check_track(name.strip())
        return
    item = rf"(?:{NUMBER}|{SPECIAL.get(key, WORD)})"
    row = rf"\[\s*(?:{item}(?:\s*,\s*{item})*)?\s*\]"
    table = rf"\[\s*{row}(?:\s*,\s*{row})*\s*\]"
    if not re.fullmatch(rf"{item}|{row}|{table}", value, re.ASCII):
        raise Refused(
            f"'{key[:80]}' cannot be set to '{value[:80]}' from the page, which takes numbers, true, false, null, "
            f"plain words and lists of these. The command line takes the rest: {COMMAND_LINE}."
        )


def _check_track(name: str) -> None:
    known = [track for track in track_names() if re.fullmatch(r"[\w.-]+", track)]
    if name not in known and not PROCEDURAL.fullmatch(name):
        raise unknown_choice("environment.track", name[:80], [*known, "procedural:SEED"])
