"""The page in a real browser before anything runs: what it says, for which screens, how soon."""

import re
from pathlib import PurePosixPath

import pytest
from pitwall import seen
from playwright.sync_api import expect

from paddock.dashboard.server import STATIC
from paddock.render.web import FOLDER as KIT


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


def imported(file):
    """The modules that a module imports at once, as the page addresses them; what `import()` loads is left out."""
    text = (STATIC / file if not file.startswith("kit/") else KIT / file.removeprefix("kit/")).read_text()
    folder = PurePosixPath(file).parent
    return {
        str(folder / name) for name in re.findall(r"^(?:import|export)[^;]*? from '\./([^']+)';", text, re.MULTILINE)
    }


def test_every_module_of_the_first_screen_is_asked_for_at_once():
    """What is found out about only when another module has arrived makes the page late."""
    needed, found = {"app.js"}, set()
    while needed - found:
        found |= (more := needed - found)
        needed |= set().union(*(imported(file) for file in more if not file.startswith("vendor/")))
    page = (STATIC / "index.html").read_text()
    assert set(re.findall(r'modulepreload" href="([^"]+)"', page)) == needed - {"app.js"}
    assert not any(word in file for file in needed for word in ("uPlot", "three", "world3d")), "loaded when needed"
    for library in ("uPlot", "three"):
        assert "MIT" in (STATIC / "vendor" / f"{library}.LICENSE").read_text()


def test_the_page_is_light(empty_server, pages):
    """What makes it usable within a second: few files, small ones, none found out about late."""
    page = pages.open(empty_server.address)
    expect(page.locator("main h1")).to_be_visible()
    sizes = page.evaluate("performance.getEntriesByType('resource').map((one) => one.decodedBodySize)")
    assert len(sizes) < 50
    assert sum(sizes) < 400_000
