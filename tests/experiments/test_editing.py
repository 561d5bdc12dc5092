"""What a person changes about a run: tags, note, name, pin; and deleting it."""

import pytest

from paddock.core.errors import InputError
from paddock.experiments.run import RunFolder
from paddock.experiments.store.editing import delete_run, label_run
from paddock.experiments.store.store import open_store


def test_notes_and_names_are_kept_found_and_listed(tmp_path, make_run):
    run = make_run(tmp_path, "first", tags=["old"])
    label_run(run, note="the good one", name="champion")
    label_run(run, tags=["a", "b"])  # What is not given stays.
    assert run.read_labels() == {"tags": ["a", "b"], "pinned": False, "note": "the good one", "name": "champion"}
    assert RunFolder.find(tmp_path, "champion").path == run.path
    store = open_store(tmp_path)
    (summary,) = store.summaries()
    store.close()
    assert (summary.name, summary.note, summary.tags) == ("champion", "the good one", ("a", "b"))


@pytest.mark.parametrize("given", [{"name": "a/b"}, {"name": ""}, {"tags": ["two words"]}, {"note": "x" * 2_001}])
def test_labels_that_do_not_fit_are_refused(tmp_path, make_run, given):
    run = make_run(tmp_path, "first")
    with pytest.raises(InputError):
        label_run(run, **given)
    assert not run.has_labels()


def test_delete_run_leaves_pinned_held_and_linked_runs(tmp_path, make_run):
    run = make_run(tmp_path, "first")
    label_run(run, is_pinned=True)
    with pytest.raises(InputError, match="pinned"):
        delete_run(run)
    label_run(run, is_pinned=False)
    with run.lock(), pytest.raises(InputError, match="being trained"):
        delete_run(RunFolder(run.path))
    link = tmp_path / "link"
    link.symlink_to(run.path)
    with pytest.raises(InputError, match="link"):
        delete_run(RunFolder(link))
    delete_run(run)
    assert not run.path.exists()
