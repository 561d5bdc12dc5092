"""The tutorials are notebooks, and every cell of them runs: in one kernel, each in a folder of its own, with small
budgets. Between two of them all names are forgotten, so that none leans on another."""

import pytest

from documentation import ROOT

nbformat = pytest.importorskip("nbformat", reason="notebooks need nbclient and ipykernel")
nbclient = pytest.importorskip("nbclient", reason="notebooks need nbclient and ipykernel")

FOLDER = ROOT / "docs/tutorials"
BUDGETS = {
    "first_agent": "total_steps, more_steps, episodes = 1_024, 1_536, 1",
    "own_algorithm": "total_steps, episodes = 1_024, 1",
    "world_model": "total_steps, seed_steps, episodes, candidates = 288, 256, 1, 24",
    "own_reward": "total_steps, num_envs, episodes = 2_048, 8, 1",
}
PRINTED = ("the pole stood for", "return of REINFORCE", "cem      return", "paid in five seconds")


def test_every_tutorial_is_tested():
    assert {file.stem for file in FOLDER.glob("*.ipynb")} == set(BUDGETS)


@pytest.mark.timeout(1_200)
@pytest.mark.filterwarnings("default")  # Of libraries around the kernel; the cells run in another process.
def test_tutorial_notebooks_run(tmp_path):
    whole = nbformat.v4.new_notebook()
    for name, budget in BUDGETS.items():
        (tmp_path / name).mkdir()
        start = f"%reset -f\nimport os\nos.chdir({str(tmp_path / name)!r})"
        whole.cells += [nbformat.v4.new_code_cell(start), *tutorial(name, budget)]
    nbclient.NotebookClient(whole, timeout=900).execute()
    outputs = [output for cell in whole.cells if cell.cell_type == "code" for output in cell.outputs]
    text = "".join(output.get("text", "") for output in outputs)
    assert [words for words in PRINTED if words not in text] == []
    for name in BUDGETS:
        assert list(tmp_path.glob(f"{name}/runs/*/policy/latest/policy.json")), name


def tutorial(name, budget):
    """The cells of a notebook, with the test's budget after its own."""
    cells = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4).cells
    at = next(k for k, cell in enumerate(cells) if "parameters" in cell.metadata.get("tags", []))
    return [*cells[: at + 1], nbformat.v4.new_code_cell(budget), *cells[at + 1 :]]
