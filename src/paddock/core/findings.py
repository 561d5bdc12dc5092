"""What an examination found: sentences with a fix and an exit code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "fault"]


@dataclass(frozen=True)
class Finding:
    """subject: what was looked at. sentence: what was found. fix: what to do. code: the exit code of a fault."""

    subject: str
    level: Level
    sentence: str
    fix: str = ""
    code: int = 0


def exit_code(findings: Sequence[Finding]) -> int:
    """That of the first fault; 0 without one."""
    return next((finding.code for finding in findings if finding.level == "fault"), 0)
