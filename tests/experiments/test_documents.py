"""What the files of a run may hold, and lines of logs that are long, torn, or being written."""

import json

import pytest

from paddock.core.reading import DamagedError
from paddock.experiments import documents
from paddock.experiments.documents import LineReader, parse_event, parse_point, read_lines


@pytest.mark.parametrize(
    ("read", "values", "words"),
    [
        (documents.read_config, {"evaluation": "text"}, "'evaluation' does not fit: expected keys and values"),
        (documents.read_config, {"evaluation": {"metric": 3}}, "'evaluation.metric' does not fit"),
        (documents.read_config, {"environment": {"1": {2: 3}}}, "'environment.1.2' is not text"),
        (documents.read_config, {"tags": ["a", 3]}, "'tags"),
        (documents.read_config, [1], "a list in place of keys and values"),
        (documents.read_manifest, {"seconds": 1e300}, "'seconds' does not fit"),
        (documents.read_manifest, {"agent_steps": 10**40}, "'agent_steps' does not fit"),
        (documents.read_manifest, {"status": "\ud800"}, "'status' is not text"),
        (documents.read_labels, {"tags": {}, "pinned": True}, "'tags' does not fit"),
    ],
)
def test_documents_of_wrong_types_are_damaged(tmp_path, read, values, words):
    file = tmp_path / "file"
    file.write_text(json.dumps(values) if read is not documents.read_config else yaml_of(values))
    with pytest.raises(DamagedError, match="cannot be read") as caught:
        read(file)
    assert words in str(caught.value)


def yaml_of(values):
    import yaml

    return yaml.safe_dump(values)


def test_documents_keep_keys_that_nobody_here_knows(tmp_path):
    (tmp_path / "manifest.json").write_text('{"status": "finished", "new": {"a": [1]}}')
    assert documents.read_manifest(tmp_path / "manifest.json") == {"status": "finished", "new": {"a": [1]}}
    assert documents.read_manifest(tmp_path / "none.json") == {}


def test_a_line_reader_skips_an_endless_line_and_knows_where_it_stands(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "LONGEST_LINE", 64)
    file = tmp_path / "log"
    file.write_bytes(b"a\n" + b"x" * 1_000 + b"\nb\n" + b"y" * 64 + b"\ntorn")
    with file.open("rb") as opened:
        reader = LineReader(opened)
        assert list(reader) == [b"a\n", b"", b"b\n", b""]
        assert (reader.position, reader.is_torn) == (file.stat().st_size - 4, True)
    with file.open("rb") as opened:
        assert list(LineReader(opened, 1_003)) == [b"b\n", b""]


def test_logs_leave_out_lines_that_cannot_be_read_and_say_which(tmp_path):
    good = {"agent_steps": 1, "seconds": 0.5, "phase": "train", "eval/return": 2}
    bad = [b"", b"{", b"[" * 100_000, b'{"agent_steps": 1}', b'{"agent_steps": -1, "seconds": 0}', b"\xff", b"3"]
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(b"\n".join([json.dumps(good).encode(), *bad, json.dumps(good).encode(), b'{"agent']))
    rows, state = read_lines(file, parse_point)
    assert rows == [good, good]
    assert (state.skipped, state.first, state.is_torn) == (7, 2, True)
    assert state.damage(file) == [f"'{file}' has 7 lines that cannot be read and are left out, the first is line 2."]


def test_an_event_that_a_kill_cut_short_is_left_out_without_a_word(tmp_path):
    file = tmp_path / "events.jsonl"
    file.write_bytes(b'{"time": "now", "event": "a"}\n{"time": "no\n{"time": "now", "event": "b"}\n')
    rows, state = read_lines(file, parse_event)
    assert [row["event"] for row in rows] == ["a", "b"]
    assert state.damage(file) == []
