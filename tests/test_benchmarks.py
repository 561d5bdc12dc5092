"""Most benchmarks take too long to be run here, but what they use of Paddock has to exist."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BENCHMARKS = sorted((ROOT / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("file", BENCHMARKS, ids=lambda file: file.stem)
def test_what_it_imports_exists(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("paddock"):
            module = importlib.import_module(node.module)
            missing = [one.name for one in node.names if not hasattr(module, one.name)]
            assert not missing, f"{node.module} has no {', '.join(missing)}"


def test_kills_of_a_run_leave_it_whole_and_end_identical(tmp_path):
    """The campaign of docs/reliability.md, with a handful of kills in place of a thousand."""
    command = [sys.executable, "benchmarks/kills.py", "--algorithms", "offline", "--kills", "5", "--seed", "3"]
    done = subprocess.run([*command, "--folder", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    cells = [cell.strip() for cell in done.stdout.splitlines()[-1].strip("|").split("|")]
    assert cells[:3] == ["together", "1", "5"]
    assert cells[-5:] == ["0", "0", "1/1", "1/1", "1/1"]
