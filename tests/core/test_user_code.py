"""Code of a person's own: loaded from a file, kept with a run, used from there."""

import importlib
import json
import sys

import pytest

from paddock.core.errors import InputError
from paddock.core.user_code import KeptCode, copy_code, load_file, loaded


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    return tmp_path


def test_user_code_runs_its_copy_whatever_becomes_of_the_file(folder):
    (folder / "mine.py").write_text("value = 1\n")
    copy_code(folder / "run", ["mine.py"], [])
    code = KeptCode.of(folder / "run")
    assert code.changed() == []
    (folder / "mine.py").write_text("value = 2\n")
    assert code.changed() == ["mine.py"]
    with code.in_use():
        module, shown = load_file("mine.py", noun="file")
    assert module.value == 1
    assert shown == folder / "run" / "code" / "mine.py"
    assert loaded[str(shown)] == code.files["mine.py"]["sha256"]
    assert load_file("mine.py", noun="file")[0].value == 2
    (folder / "mine.py").unlink()
    assert code.changed() == []  # It is gone, not changed.


def test_user_code_keeps_files_of_one_name_apart(folder):
    for name in ("a", "b"):
        (folder / name).mkdir()
        (folder / name / "mine.py").write_text(f"value = {name!r}\n")
    copy_code(folder / "run", ["a/mine.py", "b/mine.py", "absent.py"], [])
    code = KeptCode.of(folder / "run")
    assert sorted(code.files) == ["a/mine.py", "b/mine.py"]
    with code.in_use():
        assert [load_file(f"{name}/mine.py", noun="file")[0].value for name in ("a", "b")] == ["a", "b"]
    assert code.with_copies({"x": ["a/mine.py:f", "other.py:f"]}) == {
        "x": [f"{folder}/run/code/mine.py:f", "other.py:f"]
    }


def test_user_code_keeps_a_package_and_only_hashes_what_is_installed(folder, monkeypatch):
    monkeypatch.syspath_prepend(folder)
    (folder / "ownlab").mkdir()
    (folder / "ownlab" / "__init__.py").write_text("value = 1\n")
    (folder / "ownlab" / "notes.txt").write_text("data")
    copy_code(folder / "run", [], ["ownlab", "yaml", "nosuchpackage"])
    code = KeptCode.of(folder / "run")
    assert (code.packages["yaml"]["copy"], len(code.packages["yaml"]["sha256"])) == (None, 64)
    assert "nosuchpackage" not in code.packages
    assert (folder / "run" / "code" / "packages" / "ownlab" / "notes.txt").read_text() == "data"
    (folder / "ownlab" / "__init__.py").write_text("value = 2\n")
    assert code.changed() == ["ownlab"]
    before = code.digests()
    try:
        with code.in_use():
            assert importlib.import_module("ownlab").value == 1
        assert code.digests() == before  # No bytecode was left beside it.
        del sys.modules["ownlab"]
        assert importlib.import_module("ownlab").value == 2  # What a notebook may have done before.
        with pytest.raises(InputError, match="start a new process"), code.in_use():
            pass
    finally:
        sys.modules.pop("ownlab", None)


def test_user_code_that_is_copied_stays_in_its_folder(folder):
    (folder / "run" / "code").mkdir()
    index = folder / "run" / "code" / "index.json"
    for copy in ("../../evil.py", "/tmp/evil.py"):
        index.write_text(json.dumps({"files": {"mine.py": {"copy": copy}}, "packages": {}}))
        with pytest.raises(InputError, match="lies outside the folder"):
            KeptCode.of(folder / "run")
    (folder / "evil.py").touch()
    (folder / "run" / "code" / "mine.py").symlink_to(folder / "evil.py")
    index.write_text(json.dumps({"files": {"mine.py": {"copy": "mine.py"}}, "packages": {}}))
    with pytest.raises(InputError, match="holds links"):
        KeptCode.of(folder / "run")
    (folder / "run" / "code" / "mine.py").unlink()
    for text in ("[]", "{}", '{"files": 1, "packages": {}}', '{"files": {"x": 1}, "packages": {}}', "{"):
        index.write_text(text)
        with pytest.raises(InputError, match="cannot be read"):
            KeptCode.of(folder / "run")


def test_user_code_tells_its_line_when_it_fails(folder):
    (folder / "mine.py").write_text("\n\n1 / 0\n")
    with pytest.raises(InputError, match=r"mine\.py, line 3: ZeroDivisionError while it is loaded"):
        load_file("mine.py", noun="reward file")
    (folder / "mine.py").write_text("def f(:\n")
    with pytest.raises(InputError, match=r"mine\.py, line 1: the file is not valid Python"):
        load_file("mine.py", noun="reward file")
