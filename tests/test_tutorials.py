"""The tutorials are notebooks, and every cell of them runs: in a kernel of its own, with small budgets."""

from pathlib import Path

import pytest

from documentation import ROOT

nbformat = pytest.importorskip("nbformat", reason="notebooks need nbclient and ipykernel")
nbclient = pytest.importorskip("nbclient", reason="notebooks need nbclient and ipykernel")

FOLDER = ROOT / "docs/tutorials"
BUDGETS = {
    "first_agent": "total_steps, more_steps, episodes = 2_048, 3_072, 2",
    "own_reward": "total_steps, num_envs, episodes = 4_096, 8, 2",
    "own_algorithm": "total_steps, episodes = 2_048, 2",
    "world_model": "total_steps, seed_steps, episodes, candidates = 320, 256, 1, 16",
}
PRINTED = {
    "first_agent": "the pole stood for",
    "own_reward": "paid in five seconds",
    "own_algorithm": "return",
    "world_model": "cem      return",
}


def test_every_tutorial_is_tested():
    assert {file.stem for file in FOLDER.glob("*.ipynb")} == set(BUDGETS)


@pytest.mark.filterwarnings("default")  # Of libraries around the kernel; the cells run in another process.
@pytest.mark.parametrize("name", BUDGETS)
def test_tutorial_notebook_runs(name, tmp_path):
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    at = next(k for k, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", []))
    notebook.cells.insert(at + 1, nbformat.v4.new_code_cell(BUDGETS[name]))
    client = nbclient.NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    assert PRINTED[name] in printed(notebook)
    assert list(Path(tmp_path).glob("runs/*/policy/latest/policy.json"))


def printed(notebook) -> str:
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return "".join(output.get("text", "") for output in outputs)
