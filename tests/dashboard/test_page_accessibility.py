"""Accessibility of the main screens by axe-core (tests/vendor, MPL-2.0), in both themes: everything has a name and a
role, and text has a contrast of at least 4.5:1."""

import pytest
from pitwall import Server, violations, violations_of_both_themes
from playwright.sync_api import expect
from research_runs import make_runs
from timeline_cases import racing_run


@pytest.fixture(scope="module")
def research(chromium_program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("accessible")
    (folder / "runs").mkdir()
    names = make_runs(folder / "runs")
    names["ended"] = racing_run(folder).name
    opened = Server(folder)
    opened.names = names
    yield opened
    opened.close()


def test_accessibility_of_the_screens_in_both_themes(research, pages):
    one, other = research.names["plain1"], research.names["careful1"]
    places = {"runs": "#/", "start": "#/new", "drive": "#/drive", "run": f"#/run/{one}",
              "comparison": f"#/compare/{one},{other}"}  # fmt: skip
    found = []
    for scheme in ("dark", "light"):
        page = pages.open(research.address, color_scheme=scheme, reduced_motion="reduce")
        for name, place in places.items():
            page.goto(research.address + place)
            expect(page.locator("main h1")).to_be_visible()
            if name in ("run", "comparison"):
                expect(page.locator(".chart canvas").first).to_be_visible()
            if name == "run":
                page.get_by_text("Configuration", exact=True).click()
                expect(page.locator("tr[data-key='workflow.gamma']")).to_be_visible()
            found += [f"{scheme} {name}: {text}" for text in violations(page)]
        page.goto(research.address)
        page.get_by_role("button", name="Change plain").first.click()
        found += [f"{scheme} dialog: {text}" for text in violations(page)]
    assert found == []


def test_accessibility_of_the_first_screen_in_both_themes(empty_server, pages):
    page = pages.open(empty_server.address)
    expect(page.get_by_text("over the reference lap")).to_be_visible()
    assert violations_of_both_themes(page) == []


def test_accessibility_of_an_ending_and_its_timeline_in_both_themes(research, pages):
    page = pages.open(f"{research.address}#/run/{research.names['ended']}")
    expect(page.get_by_role("region", name="Ending")).to_contain_text("after 30k steps")
    page.get_by_role("region", name="Timeline").scroll_into_view_if_needed()
    expect(page.locator(".timeline .replay-name").first).to_be_visible()
    assert violations_of_both_themes(page) == []


def test_accessibility_check_finds_what_is_wrong(research, pages):
    page = pages.open(research.address)
    expect(page.locator("main h1")).to_be_visible()
    page.evaluate("document.querySelector('main').append(document.createElement('button'))")
    assert any("button-name" in text for text in violations(page))
