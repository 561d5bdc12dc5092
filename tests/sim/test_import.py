import os
import time
from pathlib import Path

import numpy as np
import pytest
from real_circuits import NAMES, needs_real_circuits, real_circuit

from paddock.core.errors import InputError
from paddock.sim.tracks.circuits import load_circuit
from paddock.sim.tracks.csv import read_track_csv, write_track_csv
from paddock.sim.tracks.sources import load_track

HEADER = "# x_m,y_m,w_tr_right_m,w_tr_left_m\n"


def ring(count: int = 100, radius: float = 80.0) -> list[list[float]]:
    angle = 2.0 * np.pi * np.arange(count) / count
    return [[radius * np.cos(a), radius * np.sin(a), 5.0, 6.0] for a in angle]


def eight(count: int = 300) -> list[list[float]]:
    angle = 2.0 * np.pi * np.arange(count) / count
    return [[200.0 * np.sin(a), 90.0 * np.sin(2.0 * a), 5.0, 5.0] for a in angle]


def write(path: Path, rows: list[list[float]], header: str = HEADER) -> Path:
    path.write_text(header + "".join(",".join(f"{cell:.4f}" for cell in row) + "\n" for row in rows))
    return path


def refused(tmp_path: Path, rows: list[list[float]]) -> str:
    with pytest.raises(InputError) as error:
        read_track_csv(write(tmp_path / "track.csv", rows))
    return str(error.value)


def test_left_and_right_are_not_mixed_up(tmp_path: Path) -> None:
    track = read_track_csv(write(tmp_path / "ring.csv", ring()))
    assert track.name == "ring"
    assert track.length == pytest.approx(2.0 * np.pi * 80.0, rel=1e-3)
    assert track.right_width == pytest.approx(np.full(len(track), 5.0))
    assert np.hypot(*track.left_edge.T) == pytest.approx(np.full(len(track), 74.0), abs=0.02)


def test_an_open_loop_names_its_ends(tmp_path: Path) -> None:
    message = refused(tmp_path, ring()[:70])
    assert "not a closed loop" in message
    assert "line 71" in message
    assert "line 2" in message


def test_a_gap_in_the_middle_names_its_lines(tmp_path: Path) -> None:
    assert "between line 41 and line 42" in refused(tmp_path, ring()[:40] + ring()[60:])


def test_not_a_number_names_its_line(tmp_path: Path) -> None:
    rows = ring()
    rows[10][1] = float("nan")
    message = refused(tmp_path, rows)
    assert "line 12" in message
    assert "finite" in message


def test_three_columns_name_their_line(tmp_path: Path) -> None:
    rows = ring()
    rows[5] = rows[5][:3]
    message = refused(tmp_path, rows)
    assert "line 7: 3 columns, expected 4 (x_m, y_m, w_tr_right_m, w_tr_left_m)" in message


def test_words_name_their_line(tmp_path: Path) -> None:
    write(tmp_path / "track.csv", ring(), header="x,y,right,left\n")
    with pytest.raises(InputError, match=r"line 1: expected numbers.*Headers start with '#'"):
        read_track_csv(tmp_path / "track.csv")


def test_no_width_names_its_line(tmp_path: Path) -> None:
    rows = ring()
    rows[20][2] = 0.0
    message = refused(tmp_path, rows)
    assert "line 22" in message
    assert "more than 0 m" in message


def test_a_repeated_point_names_its_line(tmp_path: Path) -> None:
    rows = ring()
    rows[31] = rows[30]
    assert "line 33: repeats the point before it" in refused(tmp_path, rows)


def test_a_folded_edge_names_its_line(tmp_path: Path) -> None:
    rows = [[row[0], row[1], 5.0, 90.0] if k == 50 else row for k, row in enumerate(ring())]
    message = refused(tmp_path, rows)
    assert "line 52" in message
    assert "folds over itself" in message


def test_a_road_that_touches_itself_names_both_places(tmp_path: Path) -> None:
    angle = 2.0 * np.pi * np.arange(300) / 300
    pinched = [[150.0 * np.cos(a), (6.0 + 60.0 * np.cos(a) ** 2) * np.sin(a), 7.0, 7.0] for a in angle]
    message = refused(tmp_path, pinched)
    assert "touches itself" in message
    assert message.count("line ") >= 2


def test_a_road_may_pass_over_itself_when_it_says_so(tmp_path: Path) -> None:
    assert "'# bridge'" in refused(tmp_path, eight())
    marked = read_track_csv(write(tmp_path / "eight.csv", eight(), header=HEADER + "# bridge\n"))
    assert marked.bridge
    assert read_track_csv(write(tmp_path / "eight.csv", eight()), bridge=True).bridge
    # A mark does not excuse roads that run into each other at a shallow angle.
    flat = [[x, 0.18 * y, right, left] for x, y, right, left in eight()]
    with pytest.raises(InputError, match="a bridge must cross at 30 degrees or more"):
        read_track_csv(write(tmp_path / "flat.csv", flat), bridge=True)


@pytest.mark.parametrize("content", ["", "# nothing\n", "1,2,3,4\n1,3,3,4\n"])
def test_too_little_is_told(tmp_path: Path, content: str) -> None:
    (tmp_path / "few.csv").write_text(content)
    with pytest.raises(InputError, match=r"holds no points|too few"):
        read_track_csv(tmp_path / "few.csv")


def test_binary_and_missing_files_are_told(tmp_path: Path) -> None:
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x81\xff")
    with pytest.raises(InputError, match="not a text file"):
        read_track_csv(tmp_path / "binary.csv")
    with pytest.raises(InputError, match="cannot be read"):
        read_track_csv(tmp_path / "missing.csv")


@pytest.mark.parametrize("name", ["meadow", "overpass", "procedural:5:obstacles=4"])
def test_a_written_track_reads_back_as_the_same_road(tmp_path: Path, name: str) -> None:
    track = load_track(name)
    write_track_csv(track, tmp_path / "copy.csv")
    copy = read_track_csv(tmp_path / "copy.csv")
    assert copy.length == pytest.approx(track.length, abs=0.05)
    assert copy.x == pytest.approx(track.x, abs=0.02)
    assert copy.curvature == pytest.approx(track.curvature, abs=0.005)
    assert copy.bridge == track.bridge
    assert copy.obstacles == pytest.approx(track.obstacles, abs=0.001)


def test_spacing_is_resampled(tmp_path: Path) -> None:
    track = load_circuit("kidney")
    write_track_csv(track, tmp_path / "kidney.csv")
    coarse = read_track_csv(tmp_path / "kidney.csv", spacing=4.0)
    assert coarse.spacing == pytest.approx(4.0, abs=0.02)
    assert coarse.length == pytest.approx(track.length, abs=0.1)


@pytest.mark.parametrize(
    ("radius", "message"),
    [(1e7, "more than 100 km from the origin"), (4e4, "a lap has at most 100 km"), (1e300, "more than 100 km")],
)
def test_a_road_too_large_for_memory_is_refused_at_once(tmp_path: Path, radius: float, message: str) -> None:
    began = time.monotonic()
    assert message in refused(tmp_path, ring(radius=radius))
    assert time.monotonic() - began < 5.0


def test_a_spacing_too_fine_for_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at most 200,000 are kept"):
        read_track_csv(write(tmp_path / "ring.csv", ring()), spacing=1e-6)


def test_a_road_wider_than_any_is_refused(tmp_path: Path) -> None:
    message = refused(tmp_path, [[x, y, 5.0, 1e9 if k == 7 else 6.0] for k, (x, y, _, _) in enumerate(ring())])
    assert "line 9" in message
    assert "at most 200 m" in message


def test_a_road_wound_upon_itself_without_end_takes_no_memory(tmp_path: Path) -> None:
    angle = 2.0 * np.pi * 71 * np.arange(4000) / 4000
    wound = np.stack([100.0 * np.cos(angle) + 30.0 * np.cos(angle / 71), 100.0 * np.sin(angle)], axis=1)
    assert "share ground" in refused(tmp_path, [[x, y, 60.0, 60.0] for x, y in wound])


def test_more_points_than_a_road_has_are_refused_before_they_are_kept(tmp_path: Path) -> None:
    (tmp_path / "many.csv").write_text("1,2,3,4\n" * 200_010)
    with pytest.raises(InputError, match="more than 200,000 points"):
        read_track_csv(tmp_path / "many.csv")
    (tmp_path / "huge.csv").write_bytes(b"#" * (16 * 2**20 + 1))
    with pytest.raises(InputError, match="more than 16,777,216 bytes"):
        read_track_csv(tmp_path / "huge.csv")


def test_track_files_are_regular_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    for name in (str(tmp_path / "pipe.csv"), "/dev/zero"):
        with pytest.raises(InputError, match="not a regular file"):
            load_track(name)
    write(tmp_path / "ring.csv", ring())
    (tmp_path / "link.csv").symlink_to(tmp_path / "ring.csv")
    assert len(load_track(str(tmp_path / "link.csv"))) > 400


@pytest.mark.parametrize("obstacle", ["nan, 0, 1", "0, 0, -1", "1e30, 0, 1", "0, 0, 1e9"])
def test_obstacles_that_cannot_be_are_refused(tmp_path: Path, obstacle: str) -> None:
    with pytest.raises(InputError, match="an obstacle at"):
        read_track_csv(write(tmp_path / "ring.csv", ring(), header=f"{HEADER}# obstacle: {obstacle}\n"))


@needs_real_circuits
@pytest.mark.parametrize("name", NAMES)
def test_real_circuits_import(name: str) -> None:
    track = load_track(real_circuit(name))
    assert 2000.0 < track.length < 6000.0
    gaps = np.hypot(np.roll(track.x, -1) - track.x, np.roll(track.y, -1) - track.y)
    assert np.ptp(gaps) < 0.01
