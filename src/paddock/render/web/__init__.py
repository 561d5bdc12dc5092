"""The web kit: elements, number formats, palette and theme switch, which the pit wall and the reports share.

The pit wall serves the files as ES modules; a report is one file, which has them inlined.
"""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parent
SCRIPTS = ("elements.js", "numbers.js", "theme.js")
PALETTE = "palette.css"


def inlined_scripts() -> str:
    """The kit's scripts as one classic script: without imports, and without what modules export by."""
    code = "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in SCRIPTS)
    return re.sub(r"^export ", "", re.sub(r"^import .*\n", "", code, flags=re.MULTILINE), flags=re.MULTILINE)


def palette() -> str:
    """The colours of both themes, as CSS variables."""
    return (FOLDER / PALETTE).read_text(encoding="utf-8")
