"""The page in a real browser before anything runs: what it says, for which screens, how soon."""

import re
from importlib import resources

import pytest
from pitwall import seen
from playwright.sync_api import expect

LOADED_WHEN_ASKED_FOR = {"charts.js", "vendor/uPlot.esm.js", "kit/replay.js", "kit/share.js"}


def test_it_says_what_is_wrong_and_what_to_do(empty_server, pages):
    page = pages.open(empty_server.address)
    expect(page.get_by_role("heading", name="Teach a car to race")).to_be_visible()
    expect(page.get_by_text("paddock train racing")).to_be_visible()
    page.goto(f"{empty_server.address}#/run/nothing-like-it")
    expect(page.get_by_role("heading", name="Not here")).to_be_visible()
    page.goto(f"{empty_server.address}#/nowhere")
    expect(page.get_by_role("heading", name="No such page")).to_be_visible()
    page.goto(f"{empty_server.address}#/new")
    page.get_by_label("Overrides").fill("training.max_secondz=3")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("max_seconds")
    pages.assert_quiet(empty_server.address, refused=2)


@pytest.mark.parametrize(("width", "height", "scheme"), [(390, 844, "dark"), (1920, 1080, "light")])
def test_nothing_sticks_out_of_a_screen(empty_server, pages, width, height, scheme):
    page = pages.open(empty_server.address, width=width, height=height, color_scheme=scheme)
    for place in ("#/", "#/new", "#/drive"):
        page.goto(empty_server.address + place)
        seen(page, f"s.route === '{place[1:]}'")
        expect(page.locator("main h1")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    pages.assert_quiet(empty_server.address)


def test_the_keyboard_reaches_everything(empty_server, pages):
    page = pages.open(empty_server.address, color_scheme="light")
    expect(page.locator("main h1")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.get_by_role("button", name="Switch between dark and light").press("Enter")
    page.goto(f"{empty_server.address}#/new")
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark", "the choice is remembered"
    expect(page.get_by_label("Overrides")).to_be_visible()
    named = "one.textContent.trim() || one.ariaLabel || one.labels?.length"
    unnamed = f"[...document.querySelectorAll('button, a, input, select, textarea')].filter((one) => !({named})).length"
    assert page.evaluate(unnamed) == 0
    pages.assert_quiet(empty_server.address)


def test_every_module_is_asked_for_at_once():
    files = resources.files("paddock.dashboard") / "static"
    page = (files / "index.html").read_text()
    modules = {file.name for file in files.iterdir() if file.name.endswith(".js")} | {"vendor/uPlot.esm.js"}
    kit = resources.files("paddock.render") / "web"
    modules |= {f"kit/{file.name}" for file in kit.iterdir() if file.name.endswith(".js")}
    preloaded = set(re.findall(r'modulepreload" href="([^"]+)"', page))
    assert preloaded == modules - {"app.js", "welcome.js"} - LOADED_WHEN_ASKED_FOR
    assert "MIT" in (files / "vendor" / "uPlot.LICENSE").read_text()
    assert "MIT" in (files / "vendor" / "three.LICENSE").read_text()
    assert not any("three" in module or "world3d" in module for module in preloaded), "loaded when a view needs it"


def test_the_page_is_light(empty_server, pages):
    """What makes it usable within a second: few files, small ones, none found out about late."""
    page = pages.open(empty_server.address)
    expect(page.locator("main h1")).to_be_visible()
    sizes = page.evaluate("performance.getEntriesByType('resource').map((one) => one.decodedBodySize)")
    assert len(sizes) < 50
    assert sum(sizes) < 400_000
