"""The views from the car in a real browser with WebGL in software, sound, start lights; and without WebGL."""

import pytest
from pitwall import PATIENCE, WEBGL_FLAGS, Pages, Server, seen
from playwright.sync_api import expect, sync_playwright

NO_WEBGL = """() => {
  const real = HTMLCanvasElement.prototype.getContext;
  HTMLCanvasElement.prototype.getContext = function (kind, ...more) {
    return kind.startsWith('webgl') ? null : real.call(this, kind, ...more);
  };
}"""
START = """async () => {
  const body = JSON.stringify({ track: 'oval', car: 'gt', opponent: 'classical', mode: 'ai' });
  const headers = { 'Content-Type': 'application/json' };
  return (await (await fetch('/api/drive', { method: 'POST', headers, body })).json()).id;
}"""


@pytest.fixture(scope="module")
def server(chromium_program, tmp_path_factory):
    opened = Server(tmp_path_factory.mktemp("third"))
    yield opened
    opened.close()


@pytest.fixture
def webgl_pages(chromium_program):
    expect.set_options(timeout=1000 * PATIENCE)
    with sync_playwright() as playwright:
        opened = Pages(playwright, chromium_program, WEBGL_FLAGS)
        yield opened
        opened.browser.close()


def drive(server, pages):
    """A page on which the classical driver drives."""
    page = pages.open(server.address, width=480, height=420)
    run = page.evaluate(START)
    page.goto(f"{server.address}#/drive/{run}")
    seen(page, "s.snapshot && s.frames > 2")
    return page


def test_sound_and_start_lights_are_off_until_they_are_wanted(server, pages):
    page = drive(server, pages)
    sound = page.get_by_role("button", name="Sound", exact=True)
    expect(sound).to_have_attribute("aria-pressed", "false")
    sound.click()
    seen(page, "s.third.sound")
    page.get_by_role("button", name="Start lights", exact=True).click()
    page.get_by_role("button", name="Manual", exact=True).click()
    seen(page, "s.status?.mode === 'manual'")
    page.keyboard.press("r")
    seen(page, "s.status?.is_waiting && s.car(0).speed < 0.5")
    page.keyboard.down("ArrowUp")
    seen(page, "s.lights.isHeld && s.lights.lit >= 2")
    assert page.evaluate("paddock.state.car(0).speed") < 0.5, "the car waits for the lights"
    seen(page, "!s.lights.isHeld && s.car(0).speed > 1")
    page.keyboard.up("ArrowUp")
    page.reload()
    seen(page, "s.snapshot")
    for name in ("Sound", "Start lights"):
        expect(page.get_by_role("button", name=name, exact=True)).to_have_attribute("aria-pressed", "true")
    pages.assert_quiet(server.address)


def test_views_from_the_car(server, webgl_pages):
    page = drive(server, webgl_pages)
    assert not [url for url in webgl_pages.requests if "three" in url], "it is loaded when it is asked for"
    page.get_by_role("button", name="Chase", exact=True).click()
    seen(page, "s.third.mode === 'chase' && s.third.frames > 1")
    assert [url for url in webgl_pages.requests if "vendor/three" in url]
    page.keyboard.press("c")
    frames = seen(page, "s.third.mode === 'cockpit' && s.third.frames")
    seen(page, f"s.third.frames > {frames}")
    page.reload()
    seen(page, "s.third?.mode === 'cockpit' && s.third.frames > 0")
    webgl_pages.assert_quiet(server.address)


def test_without_webgl_the_plan_stays_and_says_why(server, pages):
    page = pages.open(server.address, width=640, height=480)
    page.add_init_script(f"({NO_WEBGL})()")
    page.reload()
    run = page.evaluate(START)
    page.goto(f"{server.address}#/drive/{run}")
    seen(page, "s.snapshot && s.frames > 2")
    page.get_by_role("button", name="Chase", exact=True).click()
    expect(page.locator(".toast", has_text="needs WebGL")).to_be_visible()
    expect(page.get_by_role("button", name="Above", exact=True)).to_have_attribute("aria-pressed", "true")
    frames = page.evaluate("paddock.state.frames")
    seen(page, f"s.frames > {frames}")
    pages.assert_quiet(server.address)


STRETCHES = """async () => {
  const { stretches } = await import('/world3d/ground.js');
  const at = (k, radius) => [1.6 * radius * Math.cos(k * Math.PI / 60), radius * Math.sin(k * Math.PI / 60)];
  const edges = [100, 112].map((radius) => Array.from({ length: 120 }, (_, k) => at(k, radius + 6 * Math.cos(k / 9))));
  const colour = (k) => (k % 30 < 20 ? 1 + (k > 60) : 0), most = 0.4;
  const colours = Array.from({ length: 120 }, (_, k) => colour(k));
  return { edges, most, colours, parts: stretches(120, colour, edges, most) };
}"""


def test_straight_stretches_of_the_road_keep_to_its_edges(empty_server, pages):
    page = pages.open(empty_server.address)
    found = page.evaluate(STRETCHES)
    covered = [0] * 120
    for start, end, colour in found["parts"]:
        for k in range(start, end):
            covered[k] = colour
        for edge in found["edges"]:
            (ax, ay), (bx, by) = edge[start], edge[end % 120]
            for k in range(start + 1, end):
                (x, y), length = edge[k], ((bx - ax) ** 2 + (by - ay) ** 2) ** 0.5
                assert abs((x - ax) * (by - ay) - (y - ay) * (bx - ax)) / length <= found["most"]
    assert covered == found["colours"]
    assert len(found["parts"]) < 0.6 * sum(map(bool, covered)), "fewer than there are points"
