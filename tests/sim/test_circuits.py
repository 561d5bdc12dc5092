import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from paddock.core.errors import InputError
from paddock.sim.tracks.circuits import COLUMNS, Circuit, build_circuit, circuit_design, circuit_names, load_circuit
from paddock.sim.tracks.corners import find_corners
from paddock.sim.tracks.sources import DEFAULT_TRACK

DIFFICULTIES = ("very easy", "easy", "medium", "hard", "very hard")


def test_there_are_circuits_for_everybody() -> None:
    names = circuit_names()
    assert len(names) >= 8
    levels = [DIFFICULTIES.index(circuit_design(name).difficulty) for name in names]
    assert levels == sorted(levels)
    assert set(levels) == set(range(len(DIFFICULTIES)))
    lengths = [load_circuit(name).length for name in names]
    assert min(lengths) > 900.0
    assert max(lengths) > 5000.0


def test_the_default_suits_a_newcomer() -> None:
    track = load_circuit(DEFAULT_TRACK)
    assert 1000.0 <= track.length <= 1500.0
    assert len(find_corners(track)) >= 6
    turns = {np.sign(corner.turn) for corner in find_corners(track)}
    assert turns == {-1.0, 1.0}


@pytest.mark.parametrize("name", circuit_names())
def test_a_circuit_is_smooth_wide_enough_and_starts_on_a_straight(name: str) -> None:
    track, design = load_circuit(name), circuit_design(name)
    width = track.left_width + track.right_width
    assert 8.9 <= width.min() <= width.max() <= 14.1
    assert np.abs(track.curvature).max() < 1.0 / 14.0
    # No kinks: over one metre the steering of a full-size car moves only a little.
    assert np.abs(np.diff(track.curvature)).max() < 0.006
    assert np.abs(track.curvature[:20]).max() < 0.005
    assert design.description
    assert len(design.description) < 72


def test_only_the_overpass_passes_over_itself() -> None:
    assert [name for name in circuit_names() if load_circuit(name).bridge] == ["overpass"]


def test_arcs_that_overlap_name_their_control_points() -> None:
    square = np.array([[0, 0, 80], [100, 0, 80], [100, 100, 20], [0, 100, 20]], dtype=float)
    design = Circuit("box", "", "easy", square, np.full(4, 10.0), 0.5, bridge=False)
    with pytest.raises(InputError, match=r"control points 0 and 1 overlap by 60\.0 m"):
        build_circuit(design)


def test_unknown_circuits_get_a_suggestion() -> None:
    with pytest.raises(InputError, match="Did you mean 'serpent'"):
        circuit_design("serpant")


def test_a_kept_circuit_is_the_built_one_and_needs_no_splines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path))
    load = load_circuit.__wrapped__
    built = load("overpass")
    (kept,) = (tmp_path / "cache" / "circuits").iterdir()
    program = (
        "import sys; from paddock.sim.tracks.circuits import load_circuit; track = load_circuit('overpass');"
        "print(track.fingerprint, track.length, track.bridge, 'scipy.interpolate' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert told.split() == [built.fingerprint, repr(built.length), "True", "False"]
    kept.write_bytes(kept.read_bytes()[:-100])
    again = load("overpass")
    assert all(np.array_equal(getattr(again, column), getattr(built, column)) for column in COLUMNS)
