"""Text from files and names, made safe for a terminal."""

from __future__ import annotations

import re

# Control characters, lone halves of surrogate pairs, and marks that turn the direction of what follows.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]")


def printable(text: object, *, keep: str = "") -> str:
    """The text with what a terminal would act on in place of showing it written out, as in `\\x1b[2J`; characters in
    `keep` stay as they are."""
    return _UNSEEN.sub(lambda match: match[0] if match[0] in keep else _written_out(match[0]), str(text))


def _written_out(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
