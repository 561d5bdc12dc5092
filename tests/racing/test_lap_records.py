import json
import os
from dataclasses import replace

import av
import numpy as np
import pytest
from PIL import Image

from paddock.core.errors import InputError
from paddock.racing.laps.film import _scenes, check_gif, film_lap, gif_lap
from paddock.racing.laps.records import RecordedLap, as_ghost, read_lap, read_laps, write_lap
from paddock.racing.race.picture import Standing, race_picture
from paddock.render.scene.renderer import Renderer
from paddock.sim.reference.lap import reference_lap
from paddock.sim.tracks.sources import load_track


def record(driver="Ada", lap_time=2.0, **changes):
    """The reference lap of the oval, or a slower one, as if somebody had driven it."""
    track = load_track("oval")
    lap = reference_lap(track, "gt")
    slower = lap_time / 2.0
    samples = {
        "time": (lap.time_at + 0.01) * slower,
        "s": track.s,
        "x": lap.x,
        "y": lap.y,
        "heading": np.unwrap(lap.heading),
        "speed": lap.speed / slower,
    }
    whole = {"driver": driver, "track": "oval", "car": "gt", "lap_time": lap.lap_time * slower, "sectors": (1.0, 2.0)}
    return RecordedLap(**{**whole, "samples": samples, **changes})


def test_a_lap_survives_its_file(tmp_path):
    lap = record()
    write_lap(tmp_path / "laps" / "ada.json", lap)
    back = read_lap(tmp_path / "laps" / "ada.json")
    assert (back.driver, back.track, back.car, back.sectors) == ("Ada", "oval", "gt", (1.0, 2.0))
    assert back.lap_time == lap.lap_time
    for name, column in lap.samples.items():
        assert back.samples[name] == pytest.approx(column, abs=1e-4)


def test_along_a_lap_that_ends_faster_than_it_began_keeps_both_speeds():
    samples = {
        "time": np.array([0.1, 5.0, 9.9]),
        "s": np.array([1.0, 50.0, 99.0]),
        "speed": np.array([8.0, 10.0, 12.0]),
    }
    lap = RecordedLap("Ada", "oval", "gt", 10.0, (), samples)
    np.testing.assert_allclose(lap.along("speed", np.array([0.0, 50.0, 100.0]), 100.0), [8.0, 10.0, 12.0])
    np.testing.assert_allclose(lap.along("time", np.array([0.0, 50.0, 100.0]), 100.0), [0.0, 5.0, 10.0])


def test_only_laps_of_this_track_and_car_quickest_first(tmp_path):
    write_lap(tmp_path / "a.json", record("slow", 2.4))
    write_lap(tmp_path / "b.json", record("quick", 2.1))
    write_lap(tmp_path / "c.json", record("elsewhere", track="meadow"))
    write_lap(tmp_path / "d.json", record("other car", car="road"))
    assert [lap.driver for lap in read_laps(tmp_path, track="oval", car="gt")] == ["quick", "slow"]
    assert read_laps(tmp_path / "nowhere", track="oval", car="gt") == []


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda values: values.pop("format"), "is not a lap"),
        (lambda values: values.update(version=9), "of version 9"),
        (lambda values: values["samples"].pop("speed"), "no samples of speed"),
        (lambda values: values["samples"]["x"].pop(), "all of one length"),
        (lambda values: values["samples"]["time"].reverse(), "do not increase"),
        (lambda values: values.update(lap_time=-1), "lap_time is -1"),
        (lambda values: values.pop("driver"), "driver"),
        (lambda values: values.update(lap_time=1e6), "lap_time is 1e\\+06; .* at most 7,200 s"),
        (lambda values: values.update(lap_time=float("nan")), "lap_time is nan"),
        (lambda values: values.update(samples=[]), "damaged"),
        (lambda values: values.update(samples={"time": 3}), "damaged"),
        (lambda values: values["samples"].update(x=[0.0] * 400_001), "more than 400,000 samples"),
    ],
)
def test_a_damaged_file_is_told_by_name(tmp_path, damage, message):
    file = tmp_path / "lap.json"
    write_lap(file, record())
    values = json.loads(file.read_text())
    damage(values)
    file.write_text(json.dumps(values))
    with pytest.raises(InputError, match=message) as caught:
        read_lap(file)
    assert "lap.json" in str(caught.value)


def test_a_lap_file_that_is_huge_deep_or_no_file_is_told_by_name(tmp_path):
    (tmp_path / "deep.json").write_text("[" * 200_000)
    (tmp_path / "huge.json").write_bytes(b" " * (64 * 2**20 + 1))
    os.mkfifo(tmp_path / "pipe.json")
    for name, message in (("deep", "nested deeper"), ("huge", "more than 67,108,864 bytes"), ("pipe", "regular")):
        with pytest.raises(InputError, match=message) as caught:
            read_lap(tmp_path / f"{name}.json")
        assert f"{name}.json" in str(caught.value)


def test_a_ghost_of_an_endless_lap_takes_no_memory():
    lap = record()
    with pytest.raises(InputError, match="at most 7,200 s"):
        as_ghost("best", "agent", 1e7, lap.samples)


def test_one_damaged_lap_is_passed_over_with_a_warning(tmp_path, caplog):
    write_lap(tmp_path / "a.json", record("Ada"))
    (tmp_path / "b.json").write_text("[" * 200_000)
    assert [lap.driver for lap in read_laps(tmp_path, track="oval", car="gt")] == ["Ada"]
    assert "b.json" in caplog.text


def test_a_race_becomes_a_picture_with_everybody_in_it(tmp_path):
    track = load_track("oval")
    lap = record()
    standings = [
        Standing("Ada", "person", lap, 1, 1, lap.lap_time, 0.0),
        Standing("nobody", "agent", None, 0, 4, float("nan"), 3.0),
    ]
    canvas = race_picture(track, reference_lap(track, "gt"), standings, car="gt")
    canvas.save(tmp_path / "race.png")
    texts = canvas.to_svg()
    assert "Ada" in texts
    assert "nobody" in texts
    assert "no lap" in texts
    assert np.asarray(canvas.to_image()).std() > 10


def test_a_lap_becomes_a_film_with_a_ghost(tmp_path):
    track, lap = load_track("oval"), record()
    short = RecordedLap(lap.driver, lap.track, lap.car, 0.4, lap.sectors, lap.samples)
    ghost = record("ghost", 2.2)
    assert film_lap(tmp_path / "lap.mp4", track, short, ghost, size=(160, 120), frames_per_second=20) == 38
    assert (tmp_path / "lap.mp4").stat().st_size > 1000


def test_a_film_has_1280x720_pixels_and_60_frames_a_second(tmp_path):
    track, lap = load_track("oval"), record()
    short = RecordedLap(lap.driver, lap.track, lap.car, 0.05, lap.sectors, lap.samples)
    film_lap(tmp_path / "lap.mp4", track, short, None)
    with av.open(str(tmp_path / "lap.mp4")) as film:
        stream = film.streams.video[0]
        assert (stream.width, stream.height, stream.average_rate) == (1280, 720, 60)


def test_a_film_shows_the_gap_to_the_ghost():
    track, lap, ghost = load_track("oval"), record(), record("ghost", 2.2)
    scene = _scenes(track, lap, ghost, is_caption=False)
    for share in (0.25, 0.5, 0.75, 1.0):
        time = share * lap.lap_time
        assert scene(time).hud.gap == pytest.approx(-0.1 * time, rel=0.02), "the ghost takes 10 % longer everywhere"
    renderer = Renderer(track, (320, 240), minimap=False)
    told, untold = scene(5.0), _scenes(track, lap, None, is_caption=False)(5.0)
    assert np.isnan(untold.hud.gap)
    plain = renderer.draw(replace(told, hud=replace(told.hud, gap=np.nan)))
    assert (renderer.draw(told) != plain).any(), "it is in the picture"


def test_a_lap_becomes_a_small_gif_of_the_whole_circuit(tmp_path):
    track, lap = load_track("oval"), record()
    count = gif_lap(tmp_path / "lap.gif", track, lap, record("ghost", 2.2), size=(320, 180))
    with Image.open(tmp_path / "lap.gif") as picture:
        assert picture.n_frames == count > 100
        assert picture.info["loop"] == 0
    assert (tmp_path / "lap.gif").stat().st_size < 1_000_000
    with pytest.raises(InputError, match=r"ends with \.gif"):
        check_gif(tmp_path / "lap.webp")
