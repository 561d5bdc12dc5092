"""A real run through the page in a real browser: started, watched, steered, saved, and found again."""

import re

from pitwall import seen, start_run
from playwright.sync_api import expect

WHEELS_OFF = re.compile("wheels[ _]off")


def test_a_run_is_started_seen_tuned_and_saved(server, pages):
    page = pages.open(server.address)
    start_run(page)
    assert_cars_move(page)
    weight = change_a_reward(page)
    steps = pause_and_resume(page)
    policy = save_and_load(page)

    seen(page, "document.querySelectorAll('.chart canvas').length >= 5")
    page.reload()
    seen(page, f"s.snapshot && s.status?.agent_steps > {steps}")
    assert float(page.get_by_label("Weight of wheels off", exact=True).input_value()) == weight
    expect(page.locator("ol.events li", has_text=WHEELS_OFF).first).to_be_visible()
    expect(page.locator(f".policies li[data-policy='{policy}']")).to_be_visible()

    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Really stop?").click()
    expect(page.locator(".head .status")).to_have_text(re.compile("stopped|finished|interrupted"))
    pages.assert_quiet(server.address)


def assert_cars_move(page):
    seen(page, "s.snapshot && s.scene && s.snapshot.cars === s.scene.cars && s.snapshot.cars > 1")
    before = page.evaluate("({x: paddock.state.car(0).x, sequence: paddock.state.snapshot.sequence})")
    pixels = "document.querySelectorAll('.track canvas')[1].toDataURL()"
    picture = page.evaluate(pixels)
    seen(page, f"s.snapshot.sequence > {before['sequence']} && s.car(0).x !== {before['x']} && s.frames > 5")
    assert page.evaluate(pixels) != picture, "the cars stand still on the canvas"


def change_a_reward(page) -> float:
    slider = page.get_by_label("Weight of wheels off", exact=True)
    expect(slider).to_be_enabled()
    before = float(slider.input_value())
    slider.focus()
    page.keyboard.press("End")
    weight = float(slider.input_value())
    assert weight > before
    seen(page, f"s.status?.rewards.wheels_off === {weight}")
    expect(page.locator("ol.events li", has_text=WHEELS_OFF).first).to_contain_text(f"{weight:g}")
    return weight


def pause_and_resume(page) -> int:
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".status.paused")).to_be_visible()
    steps = seen(page, "s.status.status === 'paused' && s.status.agent_steps")
    page.wait_for_timeout(1200)
    assert page.evaluate("paddock.state.status.agent_steps") == steps
    page.get_by_role("button", name="Resume").click()
    seen(page, f"s.status.agent_steps > {steps}")
    return steps


def save_and_load(page) -> str:
    page.get_by_role("button", name="Save policy").click()
    row = page.locator(".policies li").first
    expect(row).to_be_visible()
    policy = row.get_attribute("data-policy")
    page.get_by_role("button", name=f"Load {policy}").click()
    expect(page.locator(f".policies li[data-policy='{policy}']")).to_contain_text("in use")
    return policy


def test_two_browsers_and_a_server_that_was_killed(server, pages):
    first = pages.open(server.address)
    run = start_run(first)
    seen(first, "s.snapshot && s.status")
    second = pages.open(f"{server.address}#/run/{run}", width=390, height=844)
    seen(second, "s.snapshot && s.frames > 3")
    first.get_by_role("button", name="5×").click()
    expect(second.get_by_role("button", name="5×")).to_have_attribute("aria-pressed", "true")

    steps = seen(first, "s.status.agent_steps")
    server.kill()
    for page in (first, second):
        seen(page, "s.connection === 'lost'")
        expect(page.get_by_text("Server not reachable")).to_be_visible()
    server.start()
    for page in (first, second):
        seen(page, f"s.connection === 'open' && s.status.agent_steps > {steps}")
        expect(page.get_by_text("Server not reachable")).to_be_hidden()
        sequence = seen(page, "s.snapshot.sequence")
        seen(page, f"s.snapshot.sequence !== {sequence}")
    pages.assert_quiet(server.address, away=True)
