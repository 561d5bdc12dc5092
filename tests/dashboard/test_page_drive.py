"""A lap at the wheel, with real key events in a real browser."""

import math
import os
import re
import subprocess
import sys
import time

import pytest
from pitwall import PATIENCE, Server, seen
from playwright.sync_api import expect

STRAIGHT, RADIUS, WIDTH = 60.0, 26.0, 13.0  # m, of a small oval
CRUISE, CREEP, LOOK_AHEAD = 9.0, 5.0, 12.0  # m/s ahead and while pointing elsewhere, m

SET_PACE = """async ([run, factor]) => {
  const body = JSON.stringify({ command: 'speed', factor });
  const headers = { 'Content-Type': 'application/json' };
  return (await fetch(`/api/runs/${run}/control`, { method: 'POST', headers, body })).status;
}"""


def small_oval() -> str:
    """Centre line and half widths, as `paddock tracks import` reads them."""
    arc = [math.pi * k / 24 for k in range(24)]
    points = [(STRAIGHT * k / 15, -RADIUS) for k in range(15)]
    points += [(STRAIGHT + RADIUS * math.sin(a), -RADIUS * math.cos(a)) for a in arc]
    points += [(STRAIGHT * (1 - k / 15), RADIUS) for k in range(15)]
    points += [(-RADIUS * math.sin(a), RADIUS * math.cos(a)) for a in arc]
    rows = "\n".join(f"{x:.3f},{y:.3f},{WIDTH / 2},{WIDTH / 2}" for x, y in points)
    return f"# x_m,y_m,w_tr_right_m,w_tr_left_m\n{rows}\n"


@pytest.fixture
def server(chromium_program, tmp_path, monkeypatch):
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    (tmp_path / "little.csv").write_text(small_oval())
    command = [sys.executable, "-m", "paddock", "tracks", "import", "little.csv"]
    subprocess.run(command, cwd=tmp_path, env=os.environ.copy(), check=True, capture_output=True)
    opened = Server(tmp_path)
    yield opened
    opened.close()


def until(condition) -> None:
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.5)


class KeyboardDriver:
    """Reads where the car is from the page, and answers with arrow keys."""

    def __init__(self, page) -> None:
        self.page, self.down = page, set()
        self.centre = page.evaluate("paddock.state.scene.track.centre")

    def press(self, key: str, wanted: bool) -> None:
        if wanted != (key in self.down):
            (self.page.keyboard.down if wanted else self.page.keyboard.up)(key)
            (self.down.add if wanted else self.down.discard)(key)

    def decide(self) -> None:
        car = self.page.evaluate("({...paddock.state.car(0), wheel: paddock.state.input?.steer ?? 0})")
        gaps = [math.hypot(x - car["x"], y - car["y"]) for x, y in self.centre]
        ahead = round(LOOK_AHEAD * len(self.centre) / (2 * STRAIGHT + 2 * math.pi * RADIUS))
        x, y = self.centre[(gaps.index(min(gaps)) + ahead) % len(self.centre)]
        error = math.atan2(y - car["y"], x - car["x"]) - car["heading"]
        error = math.atan2(math.sin(error), math.cos(error))
        wanted = min(max(1.5 * error, -0.5), 0.5)  # gently: who turns the wheel fully under power spins
        self.press("ArrowLeft", wanted > car["wheel"] + 0.08)
        self.press("ArrowRight", wanted < car["wheel"] - 0.08)
        self.press("ArrowUp", car["speed"] < (CRUISE if abs(error) < 0.35 else CREEP))


def drive_until_a_lap_counts(page) -> dict:
    """Keys arrive late where the machine is busy: after a lap that left the road the world goes at half its pace."""
    driver, pace = KeyboardDriver(page), 1.0
    give_up = time.monotonic() + 6 * PATIENCE
    laps = 0
    while time.monotonic() < give_up:
        driver.decide()
        driven = page.evaluate("paddock.state.laps")
        counted = [lap for lap in driven if lap["valid"]]
        if counted:
            return counted[0]
        if len(driven) > laps:
            laps, pace = len(driven), pace / 2
            status = page.evaluate(SET_PACE, [page.url.rpartition("/")[2], pace])
            assert status == 200
    raise AssertionError("no lap counted")


def test_a_press_outlives_what_is_found_out_about_a_track_meanwhile(empty_server, pages):
    page = pages.open(empty_server.address)
    asked = []

    def tracks(route):
        """Nothing is known about them at first."""
        rows = route.fetch().json()
        rows = rows if asked else [{**row, "length": None, "outline": None} for row in rows]
        asked.append(len(rows))
        route.fulfill(json=rows)

    page.route("**/api/tracks", tracks)
    page.goto(f"{empty_server.address}#/drive")
    oval, kidney = (page.locator(f"label:has(input[value={name}])") for name in ("oval", "kidney"))
    expect(oval.locator("input")).to_be_checked()
    kidney.hover()
    page.mouse.down()
    expect(kidney.locator("path")).to_have_attribute("d", re.compile("^M"))
    page.mouse.up()
    expect(kidney.locator("input")).to_be_checked()


def test_a_bad_track_shows_the_servers_sentence_and_the_others_stay(server, pages):
    """An inside edge that folds over itself: kept by an earlier version, or put there by hand."""
    rows = small_oval().replace(f",{WIDTH / 2},{WIDTH / 2}", f",{WIDTH / 2},30.0")
    (server.folder / "home" / "tracks" / "bent.csv").write_text(rows)
    facts = {}

    def are_known():
        facts.update({track["name"]: track for track in server.ask("api/tracks")})
        return facts["oval"]["length"] and facts["bent"]["error"]  # Asked before the file was there: asked again.

    until(are_known)
    assert "`paddock tracks remove bent`" in facts["bent"]["error"]
    assert facts["little"]["error"] is None
    assert facts["little"]["length"] > 200
    page = pages.open(f"{server.address}#/drive?track=little")
    bent = page.locator("label:has(input[value=bent])")
    expect(bent).to_contain_text("folds over itself")
    expect(bent.locator("input")).to_be_disabled()
    expect(page.locator("label:has(input[value=little]) path")).to_have_attribute("d", re.compile("^M"))
    (server.folder / "home" / "tracks" / "bent.csv").unlink()
    until(lambda: "bent" not in [track["name"] for track in server.ask("api/tracks") if track["length"]])


def test_a_lap_with_the_keyboard(server, pages):
    page = pages.open(f"{server.address}#/drive?track=little")
    expect(page.locator("input[name=track][value=little]")).to_be_checked()
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url("**/#/drive/*")
    seen(page, "s.snapshot && s.scene && s.car(0).state & 4")
    lap = drive_until_a_lap_counts(page)
    assert lap["lap_time"] > 5
    row = page.locator("ol.laps li").filter(has_not_text="off the road").first
    expect(row).to_contain_text(f"{lap['lap_time'] % 60:06.3f}")
    expect(page.locator("table.sectors thead")).to_contain_text("Reference")

    page.keyboard.down("ArrowUp")
    seen(page, "s.input.throttle === 1")
    page.evaluate("window.dispatchEvent(new Event('blur'))")
    seen(page, "s.input.throttle === 0 && s.car(0).throttle <= 0")
    for mode in ("AI", "Assisted", "Manual"):
        page.get_by_role("button", name=mode, exact=True).click()
        seen(page, f"s.status.mode === '{mode.lower()}'")
    page.keyboard.press("m")
    page.keyboard.press("m")
    seen(page, "s.status.mode === 'ai'")  # two presses are two steps, however quick
    page.get_by_role("button", name="End the drive").click()
    page.wait_for_url("**/#/drive")
    kept = [row["lap_time"] for row in server.ask("api/laps?track=little")]
    assert lap["lap_time"] in [pytest.approx(time, abs=1e-3) for time in kept], kept
    page.goto(f"{server.address}#/drive?track=little")
    expect(page.get_by_text("Laps driven here")).to_be_visible()
    pages.assert_quiet(server.address)
