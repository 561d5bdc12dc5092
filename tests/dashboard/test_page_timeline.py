"""The timeline in a real browser: scrubbing over policies, two of them on one circuit, and the replay to send."""

from pathlib import Path

import pytest
from pitwall import Server
from playwright.sync_api import expect
from timeline_cases import racing_run

REPLAY = ".timeline .replay-laps tbody tr"


@pytest.fixture(scope="module")
def place(chromium_program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("timeline")
    runs = [racing_run(folder), racing_run(folder, name="earlier", has_drives=False)]
    opened = Server(folder)
    yield opened, [run.name for run in runs]
    opened.close()


@pytest.mark.parametrize(("width", "height", "scheme"), [(1440, 900, "dark"), (390, 844, "light")])
def test_timeline_shows_what_each_policy_drove(place, pages, tmp_path, width, height, scheme):
    server, (run, earlier) = place
    page = pages.open(f"{server.address}#/run/{run}", width=width, height=height, color_scheme=scheme)
    card = page.get_by_label("Timeline", exact=True)
    card.scroll_into_view_if_needed()
    expect(card).to_contain_text("Step 30k · best lap")
    expect(page.locator(REPLAY).first).to_contain_text("step 30k")
    scrubber = page.get_by_label("Evaluated policy, oldest first")
    scrubber.focus()
    page.keyboard.press("ArrowLeft")
    expect(card).to_contain_text("Step 20k")
    expect(card).to_contain_text("kept")
    page.keyboard.press("Home")
    expect(card).to_contain_text("Step 1k · no lap, 6 s driven · policy not kept")
    expect(page.locator(REPLAY).first).to_contain_text("no lap")

    page.get_by_label("Second policy").select_option("30000")
    expect(page.locator(REPLAY)).to_have_count(3)
    expect(page.locator(REPLAY).nth(1)).to_contain_text("step 30k")
    page.wait_for_function("() => document.querySelector('.timeline .replay-clock b').textContent > '0:00.2'")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    with page.expect_download() as started:
        page.get_by_role("link", name="Share these laps").click()
    file = tmp_path / started.value.suggested_filename
    started.value.save_as(file)
    text = Path(file).read_text()
    assert file.suffix == ".html"
    assert "step 1,000" in text
    assert "step 30,000" in text

    page.goto(f"{server.address}#/run/{earlier}")
    expect(page.locator("main h1")).to_contain_text("earlier")
    card.scroll_into_view_if_needed()  # It asks for the drives once it is seen.
    expect(card).to_contain_text("No laps are stored in this run")
    pages.assert_quiet(server.address)
