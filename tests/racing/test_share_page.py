"""The replay that `paddock race --share` writes: one file, opened from a folder in a real browser."""

import base64
import json
import re
import time

import numpy as np
import pytest

from paddock.core.errors import InputError
from paddock.racing.laps.records import RecordedLap
from paddock.racing.laps.replays import FINEST_STEP, MOST_POINTS, Drive, as_replay, replay_step
from paddock.racing.race.page import share_race, write_race_page
from paddock.racing.race.race import Race, Standing
from paddock.racing.race.share import LARGEST_PAGE, check_share, share_page
from paddock.sim.reference.lap import reference_lap
from paddock.sim.tracks.sources import load_track

HOSTILE = '</script><img src=http://x.example/a onerror="window.broken=1"><b>\''


def lap(driver: str, slower: float = 1.0) -> RecordedLap:
    """The reference lap of the oval, or a slower one."""
    track, best = load_track("oval"), reference_lap(load_track("oval"), "gt")
    samples = {"time": (best.time_at + 0.01) * slower, "s": track.s, "x": best.x, "y": best.y, "speed": best.speed}
    samples["heading"] = np.unwrap(best.heading)
    return RecordedLap(driver, "oval", "gt", best.lap_time * slower, (1.0, 2.0), samples)


def race(*drivers: tuple[str, float]) -> Race:
    track = load_track("oval")
    laps = [lap(name, slower) for name, slower in drivers]
    standings = [Standing(one.driver, "agent", one, 1, 1, one.lap_time, 0.0) for one in laps]
    return Race(track, "gt", reference_lap(track, "gt"), standings, home=None)


def wait_for(browser, condition: str) -> None:
    give_up = time.monotonic() + 30
    while not browser.run(condition):
        assert time.monotonic() < give_up, condition
        time.sleep(0.05)


def test_share_page_plays_laps_from_a_file_and_asks_for_nothing(browser, tmp_path):
    file = share_race(tmp_path / "mail" / "race.html", race(("Ada", 1.02), (HOSTILE, 1.1)))
    assert file.stat().st_size < LARGEST_PAGE
    browser.open(file, width=390, height=844)
    wait_for(browser, "replay.frames > 3 && replay.time > 0")
    names = browser.run("[...document.querySelectorAll('.replay-name')].map((one) => one.textContent)")
    assert names == ["Ada", HOSTILE, "Reference lap"]
    assert browser.run("document.images.length") == 0
    assert browser.run("window.broken") is None
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")

    browser.run("document.querySelector('.replay-play').click()")
    assert not browser.run("replay.isPlaying")
    browser.run("replay.scrubber.value = 9; replay.scrubber.dispatchEvent(new Event('input'))")
    assert browser.run("replay.time") == pytest.approx(9.0, abs=0.02)
    browser.run("document.querySelectorAll('.replay-name')[0].click()")
    wait_for(browser, "replay.camera.mode === 'follow' && replay.told.textContent.includes('km/h')")
    gap = "document.querySelectorAll('.replay-laps tbody tr')[1].cells[3].textContent"
    wait_for(browser, f"{gap} !== ''")
    expected = browser.run("replay.laps[0].lap_time") * 0.08 / 1.02 * 9.0 / browser.run("replay.laps[0].lap_time")
    assert float(browser.run(gap).replace("−", "-")) == pytest.approx(expected, abs=0.06), "8 % slower, after 9 s"
    browser.run("document.querySelector('[data-rate=\"4\"]').click()")
    assert browser.run("replay.rate") == 4
    for theme in ("light", "dark"):
        if browser.run("document.documentElement.dataset.theme") != theme:
            browser.run("document.querySelector('.theme').click()")
        assert browser.run("document.documentElement.dataset.theme") == theme
    assert browser.problems == []
    assert [url for url in browser.requests if not url.startswith(("file://", "data:"))] == []


def test_share_page_holds_no_markup_and_no_script_from_elsewhere():
    scene = {
        "track": {"name": HOSTILE, "length": 100.0},
        "car": {"name": HOSTILE},
        "reference": None,
    }
    text = share_page(HOSTILE, scene, [Drive.of_lap(lap(HOSTILE), "agent")])
    assert text.count("</script>") == 2, "that of the data, and that of the code"
    assert "<img" not in text
    assert re.search(r"script-src 'sha256-[\w+/=]+'", text)
    data = json.loads(re.search(r'type="application/json">(.*?)</script>', text, re.DOTALL)[1])
    assert data["laps"][0]["driver"] == HOSTILE


def test_replays_of_many_laps_stay_within_their_points():
    drives = [Drive("a", "agent", None, 1500.0, {"time": [0, 1500], "x": [0, 1], "y": [0, 1]})] * 16
    step = replay_step(drives)
    assert step > FINEST_STEP
    assert sum(len(as_replay(drive, step)["x"]) for drive in drives) <= MOST_POINTS + len(drives)


def test_share_refuses_what_cannot_be_shared(tmp_path):
    with pytest.raises(InputError, match="there is no lap to share"):
        share_race(tmp_path / "a.html", race())
    with pytest.raises(InputError, match=r"ends with \.html"):
        check_share(tmp_path / "a.txt")
    check_share(None)


def test_race_page_has_the_same_replay_behind_a_button(browser, tmp_path):
    one = race(("Ada", 1.02))
    write_race_page(tmp_path / "race.html", one)
    browser.open(tmp_path / "race.html")
    button = "document.querySelector('a[download]')"
    assert browser.run(f"{button}.textContent") == "Share replay"
    content = base64.b64decode(browser.run(f"{button}.href").partition(",")[2])
    assert content == share_race(tmp_path / "own.html", one).read_bytes()
    assert browser.problems == []
