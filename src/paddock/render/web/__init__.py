"""The web kit: elements, number formats, palette, theme switch, and the drawing of circuits and cars.

The pit wall serves the files as ES modules; a page in a single file has them inlined.
"""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parent
SCRIPTS = ("elements.js", "numbers.js", "theme.js")
PALETTE = "palette.css"
_IMPORT = re.compile(r"^import \{([^}]*)\} from '\./([\w.]+)';\n", re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:const|let|class|function) (\w+))", re.MULTILINE)


def inlined_scripts() -> str:
    """The kit's scripts as one classic script: without imports, and without what modules export by."""
    code = "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in SCRIPTS)
    return re.sub(r"^export ", "", re.sub(r"^import .*\n", "", code, flags=re.MULTILINE), flags=re.MULTILINE)


def bundled_script(entry: str) -> str:
    """A module of the kit and all that it imports as one classic script; modules keep their names to themselves."""
    parts: dict[str, str] = {}

    def add(name: str) -> None:
        if name in parts:
            return
        code = (FOLDER / name).read_text(encoding="utf-8")
        for _, imported in _IMPORT.findall(code):
            add(imported)
        exported = ", ".join(found[1] for found in _EXPORT.findall(code))
        code = _IMPORT.sub(lambda found: f"const {{{found[1]}}} = kit['{found[2]}'];\n", code)
        code = _EXPORT.sub(r"\1", code)
        parts[name] = f"kit['{name}'] = (() => {{\n{code}\nreturn {{ {exported} }};\n}})();\n"

    add(entry)
    return "const kit = {};\n" + "".join(parts.values())


def style(name: str) -> str:
    """One of the kit's style sheets."""
    return (FOLDER / name).read_text(encoding="utf-8")


def palette() -> str:
    """The colours of both themes, as CSS variables."""
    return style(PALETTE)
