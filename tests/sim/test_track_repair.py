"""Repairs of `paddock tracks import`: the least narrowing, bridges, points given twice; nothing else is touched."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from real_circuits import ALL_NAMES, needs_real_circuits, real_circuit

from hard_surveys import figure_of_eight, rounded_box, write
from paddock.core.errors import InputError
from paddock.sim.reference.classical_laps import classical_laps
from paddock.sim.tracks.builder import curvature_at_points, sample_uniformly
from paddock.sim.tracks.checks import check_geometry
from paddock.sim.tracks.csv import Survey, read_survey, read_track_csv, survey_track
from paddock.sim.tracks.repair import FINER, FOLD_LIMIT, narrow_folds, repair_survey
from paddock.sim.tracks.sources import keep_track, load_track
from paddock.sim.tracks.track import Track

UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # a simpler road is no simpler to look at


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def widths(survey: Survey) -> np.ndarray:
    return np.stack([survey.left_width, survey.right_width], axis=1)


def assert_drivable_however(track: Track) -> None:
    for road in (track, track.reversed(), track.scaled(0.1), track.scaled(0.1).reversed()):
        check_geometry(road, str)


def assert_only_narrowed(before: Survey, after: Survey) -> np.ndarray:
    """[P, 2] m, how much was taken from the left and the right; the centreline is where it was."""
    assert np.array_equal(before.points, after.points)
    taken = widths(before) - widths(after)
    assert taken.min() >= 0.0
    return taken


folded_corners = {
    "fold": st.floats(0.1, 4.0),  # m of road beyond the corner's centre
    "radius": st.floats(6.0, 12.0),
    "step": st.floats(2.0, 6.0),
    "clockwise": st.booleans(),
    "noise": st.floats(0.0, 0.05),
    "seed": st.integers(0, 2**16),
}


def folded(path: Path, fold: float, radius: float, step: float, clockwise: bool, noise: float, seed: int) -> Survey:
    """One corner of four has too much road on its inside."""
    points = rounded_box(radius, step=step, clockwise=clockwise)
    points = points + np.random.default_rng(seed).normal(0.0, noise, points.shape)
    inside = np.full(len(points), 4.0)
    near = np.hypot(*(points - points[np.argmax(points.sum(axis=1))]).T) < radius + 8.0
    inside[near] = radius + fold
    right, left = (inside, 5.0) if clockwise else (5.0, inside)
    return read_survey(write(path, points, right, left))


@settings(max_examples=30, deadline=None, phases=UNSHRUNK)
@given(**folded_corners)
def test_a_folded_edge_is_narrowed_and_nothing_else(tmp_path_factory, **corner) -> None:
    survey = folded(tmp_path_factory.mktemp("fold") / "road.csv", **corner)
    with pytest.raises(InputError, match="folds over itself"):
        survey_track(survey)
    repaired, sentences = repair_survey(survey, "road")
    assert_drivable_however(survey_track(repaired))
    # However finely the road is looked at, and from whichever start line, it does not fold.
    for spacing in (0.3, 1.7, 4.0):
        survey_track(repaired, spacing=spacing)
    taken = assert_only_narrowed(survey, repaired)
    road, place = sample_uniformly("road", survey.points, widths(survey), 0.1, bridge=False)
    fold = np.abs(road.curvature) * np.where(road.curvature > 0.0, road.left_width, road.right_width)
    bend = curvature_at_points(survey.points)
    fold_at_points = np.abs(bend) * np.where(bend > 0.0, survey.left_width, survey.right_width)
    pieces = np.floor(place[fold > FOLD_LIMIT - 1e-3]).astype(int)
    pieces = np.union1d(pieces, np.flatnonzero(fold_at_points > FOLD_LIMIT))
    concerned = np.union1d(pieces, (pieces + 1) % len(taken))
    assert set(np.flatnonzero(taken.max(axis=1) > 0.0)) <= set(concerned)
    assert any("narrowed the" in sentence and "m along the lap" in sentence for sentence in sentences)
    assert "line" in sentences[0]


def naive_least_change(survey: Survey, rounds: int = 1000) -> float:
    """The least sum of squared changes by brute patience: one violated place after the other is put right by the
    smallest step, and gives back what it took when others made it needless (Hildreth's method)."""
    given_widths, total = widths(survey), 0.0
    road, place = sample_uniformly("road", survey.points, given_widths, 1.0, bridge=False)
    road, place = sample_uniformly("road", survey.points, given_widths, road.spacing / FINER, bridge=False)
    place = np.concatenate([place, np.arange(len(given_widths))])
    curvature = np.concatenate([road.curvature, curvature_at_points(survey.points)])
    for side, sampled in enumerate((road.left_width, road.right_width)):
        bend = curvature if side == 0 else -curvature
        excess = np.concatenate([sampled, given_widths[:, side]]) - FOLD_LIMIT / np.maximum(bend, 1e-9)
        bad = np.flatnonzero(excess > 0.0)
        change, prices = np.zeros(len(given_widths)), np.zeros(len(bad))
        for _ in range(rounds if bad.size else 0):
            for row, sample in enumerate(bad):
                i = int(place[sample])
                j, share = (i + 1) % len(change), place[sample] - i
                short = excess[sample] - (1.0 - share) * change[i] - share * change[j]
                step = max(short / ((1.0 - share) ** 2 + share**2), -prices[row])
                prices[row] += step
                change[i] += step * (1.0 - share)
                change[j] += step * share
        total += float((change**2).sum())
    return total


@settings(max_examples=8, deadline=None, phases=UNSHRUNK)
@given(**folded_corners)
def test_the_narrowing_is_the_least_amount(tmp_path_factory, **corner) -> None:
    survey = folded(tmp_path_factory.mktemp("least") / "road.csv", **corner)
    narrowed, _ = narrow_folds(survey)
    taken = widths(survey) - narrowed
    written = 1e-4 * 2.0 * np.abs(taken).sum() + 1e-6  # widths are written to a tenth of a millimetre
    # The naive search comes near the least amount from below.
    assert (taken**2).sum() <= 1.001 * naive_least_change(survey) + written


def test_a_corner_with_room_is_left_alone(tmp_path: Path) -> None:
    survey = read_survey(write(tmp_path / "road.csv", rounded_box(14.0), 6.0, 6.0))
    repaired, sentences = repair_survey(survey, "road")
    assert sentences == []
    assert repaired is survey


@pytest.mark.parametrize("clockwise", [False, True])
def test_a_wide_road_at_tight_corners_says_where_and_by_how_much(tmp_path: Path, clockwise: bool) -> None:
    points = rounded_box(8.0, clockwise=clockwise)
    right, left = (9.0, 4.0) if clockwise else (4.0, 9.0)
    kept = keep_track(write(tmp_path / "wide.csv", points, right, left))
    assert len(kept.repairs) == 4
    text = (tmp_path / "wide.csv").read_text().splitlines()
    for sentence in kept.repairs:
        assert f"narrowed the {'right' if clockwise else 'left'} of the road at " in sentence
        amount = float(sentence.split("by up to ")[1].split(" m")[0])
        assert 0.2 < amount < 4.0
    copy = kept.path.read_text().splitlines()
    changed = [number for number, line in enumerate(text, start=1) if copy[number - 1] != line]
    assert f"lines {changed[0]} to" in kept.repairs[0]
    assert all(line.startswith("# repaired on import: narrowed") for line in copy[len(text) :])


def test_a_kink_that_no_width_can_mend_is_refused_with_its_line(tmp_path: Path) -> None:
    points = rounded_box(30.0)
    points[10] += (0.0, 4.5)  # one point out of place, by nearly a step
    points[11] -= (4.0, 0.0)
    with pytest.raises(InputError, match=r"line 1\d: the corner's radius of 0\.\d m is not more than the 6\.0 m"):
        keep_track(write(tmp_path / "kink.csv", points, 6.0, 6.0))


def test_a_road_that_folds_nearly_everywhere_is_refused_in_time_and_memory(tmp_path: Path) -> None:
    angle = 2.0 * np.pi * np.arange(20_000) / 20_000
    ring = 199.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    with pytest.raises(InputError, match="folds over itself"):
        keep_track(write(tmp_path / "folded.csv", ring, 5.0, 200.0))


@pytest.mark.parametrize("radius", [1e6, 1e300])
def test_a_road_at_the_end_of_the_world_is_refused_in_one_sentence(tmp_path: Path, radius: float) -> None:
    angle = 2.0 * np.pi * np.arange(100) / 100
    ring = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    with pytest.raises(InputError, match="more than 100 km from the origin"):
        keep_track(write(tmp_path / "far.csv", ring, 5.0, 5.0))


@pytest.mark.parametrize("degrees", [35.0, 50.0, 70.0, 90.0])
@pytest.mark.parametrize("backwards", [False, True])
def test_a_crossing_is_taken_for_a_bridge(tmp_path: Path, degrees: float, backwards: bool) -> None:
    points = figure_of_eight(degrees)
    kept = keep_track(write(tmp_path / "eight.csv", points[::-1] if backwards else points, 4.0, 4.0))
    assert kept.track.bridge
    assert_drivable_however(kept.track)
    (sentence,) = kept.repairs
    assert "for a bridge" in sentence
    assert f"{degrees:.0f} degrees" in sentence
    assert read_track_csv(kept.path).bridge


@pytest.mark.parametrize("degrees", [15.0, 20.0, 25.0])
def test_a_crossing_too_flat_for_a_bridge_is_refused_with_its_angle(tmp_path: Path, degrees: float) -> None:
    with pytest.raises(InputError, match="a bridge must cross at 30 degrees or more"):
        keep_track(write(tmp_path / "flat.csv", figure_of_eight(degrees, size=600.0, count=900), 3.0, 3.0))


def test_roads_side_by_side_are_no_bridge(tmp_path: Path) -> None:
    angle = 2.0 * np.pi * np.arange(300) / 300
    pinched = np.stack([150.0 * np.cos(angle), (6.0 + 60.0 * np.cos(angle) ** 2) * np.sin(angle)], axis=1)
    assert keep_track(write(tmp_path / "near.csv", pinched, 5.9, 5.9)).repairs == ()
    with pytest.raises(InputError, match="touches itself"):
        keep_track(write(tmp_path / "touching.csv", pinched, 6.5, 6.5))
    assert not (tmp_path / "home" / "tracks" / "touching.csv").exists()


def test_points_given_twice_are_left_out(tmp_path: Path) -> None:
    points = np.repeat(rounded_box(20.0), np.where(np.arange(len(rounded_box(20.0))) % 9 == 4, 3, 1), axis=0)
    kept = keep_track(write(tmp_path / "twice.csv", points, 5.0, 5.0))
    plain = read_track_csv(write(tmp_path / "once.csv", rounded_box(20.0), 5.0, 5.0))
    assert np.array_equal(kept.track.x, plain.x)
    assert "repeat the one before them" in kept.repairs[0]
    assert sum(line.startswith("# left out: ") for line in kept.path.read_text().splitlines()) == len(points) - len(
        rounded_box(20.0)
    )
    with pytest.raises(InputError, match="repeats the point before it"):
        keep_track(tmp_path / "twice.csv", name="strict", strict=True)


@pytest.mark.parametrize("overlap", [2, 3, 7])
@pytest.mark.parametrize("clockwise", [False, True])
def test_a_lap_that_runs_past_its_start_is_cut_there(tmp_path: Path, overlap: int, clockwise: bool) -> None:
    lap = rounded_box(20.0, clockwise=clockwise)
    beyond = lap[:overlap] + (lap[1 : overlap + 1] - lap[:overlap]) * 0.4 + 0.05
    kept = keep_track(write(tmp_path / "past.csv", np.vstack([lap, beyond]), 5.0, 5.0))
    assert f"left out the last {overlap} points" in kept.repairs[0]
    assert np.array_equal(kept.track.x, read_track_csv(write(tmp_path / "plain.csv", lap, 5.0, 5.0)).x)


@settings(max_examples=15, deadline=None, phases=UNSHRUNK)
@given(seed=st.integers(0, 2**16), radius=st.floats(7.0, 20.0), road=st.floats(3.0, 9.0), clockwise=st.booleans())
def test_unevenly_spaced_noisy_surveys_are_repaired_or_refused(
    tmp_path_factory, seed: int, radius: float, road: float, clockwise: bool
) -> None:
    """What import accepts loads again as the same road; what it refuses is refused in a sentence."""
    random = np.random.default_rng(seed)
    points = rounded_box(radius, step=2.5, clockwise=clockwise)
    points = points[np.sort(random.choice(len(points), size=int(0.7 * len(points)), replace=False))]
    points = points + random.normal(0.0, 0.08, points.shape)
    folder = tmp_path_factory.mktemp("noise")
    file = write(folder / "noisy.csv", points, road, road)
    try:
        kept = keep_track(file, name=f"noisy{seed}", replace=True)
    except InputError:
        return
    assert_drivable_however(kept.track)
    assert np.array_equal(read_track_csv(kept.path).x, kept.track.x)
    assert_only_narrowed(read_survey(file), read_survey(kept.path))


def test_strict_refuses_what_would_be_repaired(tmp_path: Path) -> None:
    wide = write(tmp_path / "wide.csv", rounded_box(8.0), 4.0, 9.0)
    with pytest.raises(InputError, match="folds over itself"):
        keep_track(wide, strict=True)
    eight = write(tmp_path / "eight.csv", figure_of_eight(60.0), 4.0, 4.0)
    with pytest.raises(InputError, match="'# bridge'"):
        keep_track(eight, strict=True)
    assert keep_track(eight, strict=True, bridge=True).repairs == ()


def test_repaired_roads_are_lapped_by_the_classical_driver(tmp_path: Path) -> None:
    wide = keep_track(write(tmp_path / "wide.csv", rounded_box(9.0), 5.0, 10.0)).track
    other = keep_track(write(tmp_path / "other.csv", rounded_box(9.0, clockwise=True), 12.0, 5.0)).track
    eight = keep_track(write(tmp_path / "eight.csv", figure_of_eight(45.0), 5.0, 5.0)).track
    roads = [wide, other, eight]
    for lap in [*classical_laps(roads, "gt"), *classical_laps([road.scaled(0.1) for road in roads], "f1tenth")]:
        assert lap.off_track == 0, lap
        assert lap.ratio < 1.25, lap


@needs_real_circuits
@pytest.mark.parametrize("name", ALL_NAMES)
def test_real_circuits_are_imported_as_they_are_but_for_folds_and_bridges(name: str) -> None:
    kept = keep_track(Path(real_circuit(name)))
    taken = assert_only_narrowed(read_survey(real_circuit(name)), read_survey(kept.path))
    assert taken.max() < 1.5
    assert np.count_nonzero(taken.max(axis=1)) <= 6
    # What import accepts loads ever after, by its name, as the same road.
    assert np.array_equal(load_track(name).curvature, kept.track.curvature)
    again = keep_track(kept.path, replace=True)
    assert again.repairs == ()
    assert np.array_equal(load_track(name).left_width, kept.track.left_width)
    assert_drivable_however(kept.track)


@needs_real_circuits
def test_repaired_real_circuits_are_lapped_by_the_classical_driver() -> None:
    """Those that need no repair are lapped as they are in tests/sim/test_driver.py."""
    kept = [keep_track(Path(real_circuit(name))) for name in ALL_NAMES]
    roads = [one.track for one in kept if one.repairs]
    assert "Norisring" in [road.name for road in roads]
    for lap in classical_laps(roads, "gt"):
        assert lap.off_track == 0, lap
        assert lap.ratio < 1.08, lap
