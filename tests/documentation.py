"""The code blocks of a Markdown page, as a reader would copy them.

The convention: a block whose first comment line is a path, such as `# lab/predictor.py` (in YAML `# @package` may stand
before it), is that file. A block without a language holds commands; those that begin with `paddock` are run. A Python
block without a path is a script.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"^(?:# @package .*\n)?# ([\w./-]+\.(?:py|yaml))$", re.MULTILINE)


@dataclass
class Page:
    """What a section of a page has its reader write and type, in the page's order."""

    files: dict[str, str] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)


def section(page: str, heading: str) -> Page:
    """The blocks of one section: from its heading to the next of the same or a higher level."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines(keepends=True)
    start, level = lines.index(f"{heading}\n") + 1, heading.index(" ")
    is_code, end = False, start
    while end < len(lines):
        is_code ^= lines[end].startswith("```")
        if not is_code and re.match(rf"#{{1,{level}}} ", lines[end]):
            break
        end += 1
    return blocks("".join(lines[start:end]))


def blocks(text: str) -> Page:
    found = Page()
    for language, body in BLOCK.findall(text):
        name = FILE_NAME.match(body)
        if name:
            found.files[name[1]] = body
        elif language == "python":
            found.scripts.append(body)
        elif language == "":
            found.commands += [
                line.partition("  #")[0].strip() for line in body.splitlines() if line.startswith("paddock ")
            ]
    return found


def write_files(page: Page, folder: Path) -> None:
    for name, body in page.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(body, encoding="utf-8")


def run_command(command: str, *more: str, folder: Path, timeout: float = 280) -> subprocess.CompletedProcess[str]:
    """Run a command of the documentation by the console script, which does not see the current folder by itself."""
    program, *arguments = shlex.split(command)
    assert program == "paddock"
    script = Path(sys.executable).parent / "paddock"
    return _run([str(script), *arguments, *more], folder, timeout)


def run_script(text: str, *, folder: Path, timeout: float = 280) -> subprocess.CompletedProcess[str]:
    """Run a Python block as a file of its own."""
    (folder / "script.py").write_text(text, encoding="utf-8")
    return _run([sys.executable, "script.py"], folder, timeout)


def _run(command: list[str], folder: Path, timeout: float) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PADDOCK_PLUGINS"}
    result = subprocess.run(
        command, cwd=folder, env={**environment, "COLUMNS": "200"}, capture_output=True, text=True, timeout=timeout
    )
    assert result.returncode == 0, f"{shlex.join(command)}\n{result.stdout}\n{result.stderr}"
    return result
