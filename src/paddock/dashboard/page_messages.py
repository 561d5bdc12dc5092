"""Writes the page's copy of the messages, `static/messages.js`, from `paddock.control.messages`.

python -m paddock.dashboard.page_messages
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, get_args

import msgspec

from paddock.control import messages

FILE = Path(__file__).parent / "static" / "messages.js"
GETTERS = {"B": "getUint8", "H": "getUint16", "I": "getUint32", "d": "getFloat64"}


def page_messages() -> str:
    """The module's text."""
    header = {name: [at, GETTERS[code]] for (name, code), at in zip(messages.SNAPSHOT_HEADER, _offsets(), strict=True)}
    constants: dict[str, Any] = {
        "COMMANDS": {name: _command(kind) for name, kind in messages.COMMANDS.items()},
        "MODES": messages.MODES,
        "EVENTS": messages.EVENTS,
        "REFUSED": messages.REFUSED,
        "FASTEST_RATE": int(messages.FASTEST_RATE),
        "SNAPSHOT_VERSION": messages.SNAPSHOT_VERSION,
        "HEADER": header,
        "HEADER_SIZE": messages.HEADER.size,
        "HAS_RAYS": messages.HAS_RAYS,
        "NO_CAR": messages.NO_CAR,
        "COLUMNS": [_camel(name) for name in messages.CAR_COLUMNS],
        **messages.STATES,
    }
    lines = [f"export const {name} = {_literal(value)};" for name, value in constants.items()]
    head = "// Written by `python -m paddock.dashboard.page_messages` from control/messages.py; not to be edited."
    return "\n".join([head, "", *lines, ""])


def _literal(value: Any) -> str:
    """JSON, a mapping with a line for each entry."""
    if not isinstance(value, dict):
        return json.dumps(value)
    rows = [f"  {json.dumps(key)}: {json.dumps(entry)}," for key, entry in value.items()]
    return "\n".join(["{", *rows, "}"])


def _command(kind: type[messages.Command]) -> dict[str, Any]:
    """done: what the page says after it; arguments: with their limits, and whether they may be left out."""
    fields = [field for field in msgspec.structs.fields(kind) if field.name not in kind.internal]
    return {"done": kind.done, "arguments": {field.name: _argument(field) for field in fields}}


def _argument(field: msgspec.structs.FieldInfo) -> dict[str, Any]:
    limits = messages.limits_of(field.type)
    found: dict[str, Any] = {"needed": field.required, "nullable": type(None) in get_args(field.type)}
    return found | {name: value for name, value in (("least", limits.ge), ("most", limits.le)) if value is not None}


def _offsets() -> list[int]:
    codes = [code for _, code in messages.SNAPSHOT_HEADER]
    return [struct.calcsize("<" + "".join(codes[:index])) for index in range(len(codes))]


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


if __name__ == "__main__":
    FILE.write_text(page_messages(), encoding="utf-8")
