"""Files that are damaged, endless or hostile give a sentence; whole ones give what they hold."""

import json
import os

import pytest
import yaml

from paddock.core.reading import DamagedError, read_bytes, read_json, read_text, read_yaml

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12)
)


def test_whole_files_give_what_they_hold(tmp_path):
    values = {"name": "run", "numbers": [1, 2.5, None, True], "nested": {"a": {"b": "ü"}}}
    (tmp_path / "a.json").write_text(json.dumps(values))
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(values, allow_unicode=True), encoding="utf-8")
    assert read_json(tmp_path / "a.json") == read_yaml(tmp_path / "a.yaml") == values
    assert json.loads(read_text(tmp_path / "a.json")) == values


def test_yaml_with_modest_aliases_is_read(tmp_path):
    (tmp_path / "a.yaml").write_text("base: &base {a: 1}\nother: [*base, *base]\n")
    assert read_yaml(tmp_path / "a.yaml")["other"] == [{"a": 1}, {"a": 1}]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (BOMB, "aliases"),
        ("a: &a [*a]", "refers to itself"),
        ("- " * 5_000 + "x", "nested deeper"),
        ("[" * 200_000, "nested deeper"),
        ("a: [1, 2", "not YAML"),
        ("!!python/object/apply:os.system ['true']", "not YAML"),
        ("a: \x00", "not YAML"),
        ('a: !!int ""', "not YAML"),
        ("a: !!bool perhaps", "not YAML"),
        ("a: !!timestamp soon", "not YAML"),
    ],
)
def test_hostile_yaml_is_refused_in_a_sentence(tmp_path, text, reason):
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(DamagedError, match=reason):
        read_yaml(tmp_path / "config.yaml")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"[" * 200_000, "nested deeper"),
        (b"[" * 100 + b"]" * 100, "nested deeper"),
        (b"", "not JSON"),
        (b'{"a": 1', "not JSON"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b" " * 2_000, "more than 1,000 bytes"),
    ],
)
def test_hostile_json_is_refused_in_a_sentence(tmp_path, content, reason):
    (tmp_path / "manifest.json").write_bytes(content)
    limit = 1_000 if reason.startswith("more") else 2**20
    with pytest.raises(DamagedError, match=reason) as caught:
        read_json(tmp_path / "manifest.json", limit=limit)
    assert str(tmp_path / "manifest.json") in str(caught.value)


@pytest.mark.parametrize("kind", ["missing", "directory", "fifo", "link", "loop", "device"])
def test_only_regular_files_are_read_and_none_hangs(tmp_path, kind):
    path = tmp_path / "file"
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        (tmp_path / "target").write_text("{}")
        path.symlink_to(tmp_path / "target")
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    with pytest.raises(DamagedError):
        read_bytes(path)
