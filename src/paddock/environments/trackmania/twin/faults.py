"""What a twin can be asked to do wrong, and when."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from paddock.core.errors import InputError, unknown_choice

FAULTS = {
    "stall": "telemetry stops, the connection stays",
    "drop": "the telemetry connection is closed, and every new one too",
    "slow": "frames take ten times as long",
    "menu": "the race is left for a menu",
    "dialog": "a dialog opens; the confirm button closes it",
    "refuse": "the restart button has no effect",
    "refuse_once": "the restart button has no effect the first time",
    "pad": "the pad is unplugged",
    "protocol": "telemetry is in a format that is not known",
}
SLOW_FACTOR = 10


@dataclass(frozen=True)
class Fault:
    """kind: of `FAULTS`. From `begins` until `ends`, s of the twin's time."""

    kind: str
    begins: float = 0.0
    ends: float = math.inf

    def __post_init__(self) -> None:
        if self.kind not in FAULTS:
            raise unknown_choice("fault", self.kind, FAULTS)


def parse_fault(text: str) -> Fault:
    """`KIND`, `KIND@BEGINS` or `KIND@BEGINS+SECONDS`."""
    found = re.fullmatch(r"([a-z_]+)(?:@([0-9.]+))?(?:\+([0-9.]+))?", text)
    if found is None:
        raise InputError(f"the fault '{text}' cannot be read; write KIND, KIND@BEGINS or KIND@BEGINS+SECONDS.")
    begins = float(found[2] or 0.0)
    return Fault(found[1], begins, begins + float(found[3]) if found[3] else math.inf)
