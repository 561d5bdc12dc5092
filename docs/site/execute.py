"""Execute the tutorials with their own budgets in a folder of their own, and keep what they print: `make notebooks`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

TUTORIALS = Path(__file__).parents[1] / "tutorials"


def execute(file: Path) -> None:
    """Run every cell anew and write the outputs into the file."""
    notebook = nbformat.read(file, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=1_200, resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # Times of execution would differ every time.
    nbformat.write(notebook, file)


if __name__ == "__main__":
    for one in sys.argv[1:] or sorted(map(str, TUTORIALS.glob("*.ipynb"))):
        execute(Path(one))
        print(one)
