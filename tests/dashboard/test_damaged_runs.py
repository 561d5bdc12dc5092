"""The page's server beside damaged runs: they are listed as damaged, the others as they are, and nothing hangs."""

import os
import shutil
import urllib.error

import pytest
from pitwall import Server

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.fixture
def server(real_runs, tmp_path):
    for name in ("bomb", "deep", "pipe", "text", "torn", "sound"):
        shutil.copytree(sorted(real_runs.glob("fast-*"))[0], tmp_path / "runs" / name, symlinks=True)
    runs = tmp_path / "runs"
    (runs / "bomb" / "config.yaml").write_text(BOMB)
    (runs / "deep" / "manifest.json").write_text("[" * 200_000)
    (runs / "pipe" / "config.yaml").unlink()
    os.mkfifo(runs / "pipe" / "config.yaml")
    (runs / "text" / "config.yaml").write_text("schema_version: 3\nevaluation: text\ntraining: text\n")
    with (runs / "torn" / "metrics.jsonl").open("ab") as file:
        file.write(b"\x00\xff\n")
    made = Server(tmp_path)
    yield made
    made.close()


def test_damaged_runs_are_listed_as_damaged_and_the_others_answer(server):
    rows = {row["id"]: row for row in server.ask("api/runs")}
    assert {name: row["status"] for name, row in rows.items()} == {
        "bomb": "damaged", "deep": "damaged", "pipe": "damaged", "text": "damaged", "torn": "damaged",
        "sound": "finished",
    }  # fmt: skip
    assert "with its aliases written out" in rows["bomb"]["damage"][0]
    assert server.ask("api/runs/sound")["config"]["name"] == "fast"
    torn = server.ask("api/runs/torn")
    assert "1 line that cannot be read" in torn["damage"][0]
    assert server.ask("api/runs/torn/metrics?names=eval/return")["names"]["eval/return"]["y"]
    for name in ("bomb", "deep", "pipe", "text"):
        with pytest.raises(urllib.error.HTTPError) as refusal:
            server.ask(f"api/runs/{name}")
        with refusal.value as answer:
            assert answer.code == 409
            assert "is damaged" in answer.read().decode()
    assert len(server.ask("api/policies")) >= 1
