"""What `make demo` leaves behind in a clone."""

from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_what_make_demo_and_drive_write_is_ignored_by_git():
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert {"/runs/", "/races/", "/laps/"} <= set(ignored)
