from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from paddock.core.errors import InputError
from paddock.render.canvas import Canvas, Polygon, Polyline, Text, blend, simplified
from paddock.render.lap_time import format_lap_time
from paddock.render.track_picture import GRASS, RED, ROAD, SPEED_COLOURS, track_picture
from paddock.sim.reference.lap import reference_lap
from paddock.sim.tracks.circuits import load_circuit
from paddock.sim.tracks.sources import load_track


@pytest.mark.parametrize("name", ["meadow", "overpass", "procedural:5:obstacles=4"])
def test_a_picture_has_everything_in_it(tmp_path: Path, name: str) -> None:
    track = load_track(name)
    lap = reference_lap(track, "gt")
    canvas = track_picture(track, lap, car="gt")
    canvas.save(tmp_path / "track.png")
    with Image.open(tmp_path / "track.png") as picture:
        assert picture.size == (canvas.width, canvas.height)
        pixels = np.asarray(picture.convert("RGB")).reshape(-1, 3)
    for colour in (GRASS, ROAD):
        assert np.all(pixels == colour, axis=1).mean() > 0.01
    assert np.all(np.abs(pixels.astype(int) - RED) < 12, axis=1).sum() > 50
    texts = [shape.content for shape in canvas.shapes if isinstance(shape, Text)]
    assert track.name in texts
    assert format_lap_time(lap.lap_time) in texts
    assert {"S2", "S3"} <= set(texts)
    strokes = {shape.colour for shape in canvas.shapes if isinstance(shape, Polyline)}
    assert len(strokes & {blend(SPEED_COLOURS, level / 28) for level in range(29)}) > 10


def test_the_svg_is_well_formed_and_small(tmp_path: Path) -> None:
    track = load_circuit("ridgeway")
    canvas = track_picture(track, reference_lap(track, "gt"), car="gt <fast> & light")
    canvas.save(tmp_path / "track.svg")
    root = ElementTree.parse(tmp_path / "track.svg").getroot()
    assert root.tag.endswith("svg")
    assert len(root) == len(canvas.shapes) + 1
    assert (tmp_path / "track.svg").stat().st_size < 120_000


def test_a_track_can_be_drawn_without_a_lap() -> None:
    image = track_picture(load_circuit("oval")).to_image()
    assert image.size[0] == 1400


def test_an_unknown_ending_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ends in \.png or \.svg, got .*track\.bmp"):
        Canvas(10, 10, (0, 0, 0)).save(tmp_path / "track.bmp")


def test_rounding_in_paths_does_not_add_up() -> None:
    points = np.stack([np.linspace(0.0, 100.0, 1001), np.full(1001, 0.04)], axis=1)
    canvas = Canvas(10, 10, (0, 0, 0), [Polygon(points, (1, 2, 3))])
    steps = canvas.to_svg().split('d="')[1].split("Z")[0].split("l")[1:]
    assert sum(float(step.split()[0]) for step in steps) == pytest.approx(100.0)


def test_simplified_paths_stay_close() -> None:
    angle = np.linspace(0.0, 2.0 * np.pi, 500, endpoint=False)
    ring = 100.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    fewer = simplified(ring, 0.1, is_closed=True)
    assert 20 < len(fewer) < 120
    closed = np.vstack([fewer, fewer[:1]])
    middles = 0.5 * (closed[1:] + closed[:-1])
    assert np.hypot(*middles.T).min() > 99.8


@pytest.mark.parametrize(("seconds", "text"), [(23.4567, "23.457"), (83.4, "1:23.400"), (59.9999, "1:00.000")])
def test_lap_times_are_written_as_on_a_board(seconds: float, text: str) -> None:
    assert format_lap_time(seconds) == text
