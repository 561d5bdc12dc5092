"""The line of a run on a terminal: complete at every width, refreshed while the run lives."""

import io
import re
import time

import pytest
from rich.console import Console

from paddock.core.pace import Pace
from paddock.orchestration.loggers import Row
from paddock.orchestration.terminal import Limits, ProgressLines, Standing, Terminal

METRICS = [
    "eval best lap 52.4", "eval best ratio 1.065", "eval finish rate 1", "distance 5251", "return 98.76",
    "eval mean lap 53.18", "eval wheels off 8.81",
]  # fmt: skip


def shown(lines, width):
    """The lines as a terminal of that width shows them."""
    console = Console(file=io.StringIO(), width=width, color_system="standard", force_terminal=True)
    console.print(lines)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())
    return [line.rstrip() for line in plain.splitlines()]


@pytest.mark.parametrize("width", [60, 80, 110, 120, 200])
@pytest.mark.parametrize("phase", ["train", "model_pretraining_from_recordings"])
def test_bar_phase_elapsed_and_remaining_time_are_visible_at_every_width(width, phase):
    standing = Standing(1_032_192, 3_700.0, phase)
    first = Standing(0, 0.0, phase)
    views = iter([first, standing])
    lines = shown(ProgressLines(lambda: next(views), Limits(11_000_000), lambda: METRICS), width)
    assert all(len(line) <= width for line in lines)
    assert lines[0].startswith(phase[:5])
    assert lines[0].count("━") + lines[0].count("╸") + lines[0].count("╺") >= 8
    assert "9 %" in lines[0]
    assert "1:01:40 elapsed" in lines[0]
    assert re.search(r"\d+:\d\d:\d\d left$", lines[0])
    assert ("1,032,192/11,000,000 steps" in lines[0]) == (width >= 110)
    assert any("1,032,192/11,000,000 steps" in line for line in lines)
    below = "  ".join(lines[1:])
    assert all(text in below for text in METRICS), "metrics have lines of their own"


def test_remaining_time_counts_to_the_nearer_limit():
    standing = Standing(1_000, 50.0, "train")
    assert Limits(2_000, None).left(standing, 20.0) == 50.0
    assert Limits(2_000, 60.0).left(standing, 20.0) == 10.0
    assert Limits(2_000, 60.0).share(standing) == pytest.approx(50 / 60)
    assert Limits(None, None).left(standing, 20.0) is None
    assert Limits(2_000, None).left(standing, 0.0) is None


def test_an_evaluation_is_named_and_has_no_steps_per_second():
    views = iter([Standing(0, 0.0, "train"), Standing(10, 1.0, "train", "evaluate")])
    lines = shown(ProgressLines(lambda: next(views), Limits(100), list), 80)
    assert lines[0].startswith("evaluating ")
    assert "steps/s" not in "".join(lines)


def test_the_terminal_is_refreshed_while_nothing_is_logged():
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    terminal = Terminal(console, ["collect/return"], Limits(1_000), 0)
    began = time.monotonic()
    terminal.follow(lambda: Standing(int(100 * (time.monotonic() - began)), time.monotonic() - began, "train"))
    time.sleep(2.2)  # A long rollout.
    terminal.close()
    text = console.file.getvalue()
    assert {"0 s elapsed", "1 s elapsed", "2 s elapsed"} <= set(re.findall(r"\d s elapsed", text))
    assert "steps/s" in text


def test_in_a_log_there_are_plain_lines():
    console = Console(file=io.StringIO(), width=200)
    terminal = Terminal(console, ["collect/return"], Limits(1_000), 0)
    terminal.follow(lambda: Standing(0, 0.0, "train"))
    terminal.log(Row({"agent_steps": 250}, "train", 1.0, {"collect/return": 12.345}))
    terminal.close()
    (line,) = console.file.getvalue().splitlines()
    assert re.fullmatch(r"train  step 250 \(25 %\)  [\d,]+ steps/s  .* left  return 12\.3[45]", line)
    assert "\x1b" not in line


def test_pace_is_over_the_last_seconds_only(monkeypatch):
    clock = iter([100.0, 101.0, 104.0, 110.0, 116.0, 118.0])
    monkeypatch.setattr("paddock.orchestration.terminal.time.monotonic", lambda: next(clock))
    pace = Pace(window=5.0)
    assert [pace(steps) for steps in (0, 1_000, 4_000, 4_000, 4_000, 8_000)] == [
        0.0,
        1_000.0,
        1_000.0,
        0.0,
        0.0,
        2_000.0,
    ]
