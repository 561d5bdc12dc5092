"""The budget of a real-time run's time-steps on its page, the car of a worker's world, and a person beside it."""

import re
import subprocess
import sys

import pytest
from pitwall import seen
from playwright.sync_api import expect
from test_page_workers import wait_for_run

OPTIONS = [
    "environment.track=oval", "environment.max_episode_steps=40", "training.phases.seed.duration_steps=100000",
    "environment.opponents={count: 1, driver: person}", "experience.workers=1",
    "training.max_seconds=200", "logging.every_steps=20", "logging.tensorboard=false", "training.total_steps=null",
]  # fmt: skip


@pytest.fixture
def run(server):
    with (server.folder / "train.log").open("wb") as log:
        command = [sys.executable, "-m", "paddock", "train", "racing_realtime", *OPTIONS]
        process = subprocess.Popen(command, cwd=server.folder, stdout=log, stderr=subprocess.STDOUT)
    yield wait_for_run(server, process)
    process.terminate()
    process.wait(60)


@pytest.mark.timeout(280)
def test_the_page_shows_the_time_step_budget_and_the_car_of_a_realtime_run(server, pages, run):
    page = pages.open(f"{server.address}#/run/{run}")
    budget = page.get_by_role("region", name="Time-step budget")
    expect(budget).to_be_visible()
    expect(budget.get_by_text(re.compile(r"^of 50 ms"))).to_be_visible()
    for name in ("capture", "send", "inference", "slack"):
        expect(budget.locator(f"dl .{name} dd")).to_have_text(re.compile(r"^[\d.]+ ms$"))
    widths = page.evaluate(
        "[...document.querySelectorAll('.budget .spent i')].map((one) => parseFloat(one.style.width))"
    )
    assert sum(widths) == pytest.approx(100.0, abs=0.5)
    for name in ("capture", "send", "inference", "slack"):
        box = budget.locator(f".spent .{name}").bounding_box()
        assert box["height"] > 10
        assert box["width"] > 0
    # The trainer shows the car of its worker's world, which is in a third process.
    seen(page, "s.snapshot && s.frames > 5")
    drive_beside_the_agent(page)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.evaluate(
        """async () => {
            const { TimeBudget } = await import('./time_budget.js');
            const budget = new TimeBudget();
            budget.set({ 'collect/realtime/time_step': 0.05, 'collect/realtime/inference': 0.08 });
            window.overrun = budget.element;
            window.other = new TimeBudget();
            other.set({});
        }"""
    )
    assert page.evaluate("overrun.classList.contains('over')")
    assert page.evaluate("other.element.hidden")
    pages.assert_quiet(server.address)


def drive_beside_the_agent(page) -> None:
    """A person takes the second car of the world in which the agent learns, and gives it back."""
    steps = page.evaluate("paddock.state.status.agent_steps")
    page.get_by_role("link", name="Drive beside the agent").click()
    seen(page, "s.route.startsWith('/drive/') && s.status?.car === 1 && s.status.mode === 'manual'")
    page.keyboard.down("ArrowUp")
    seen(page, "s.car(1).speed > 4 && (s.car(1).state & 4) && s.input.throttle === 1")
    assert page.evaluate("(paddock.state.car(0).state & 4) === 0"), "the agent's car is the agent's"
    seen(page, f"s.status.agent_steps > {steps}")
    page.keyboard.up("ArrowUp")
    page.keyboard.down("ArrowDown")
    seen(page, "s.car(1).throttle < -0.5")
    page.keyboard.up("ArrowDown")
    page.get_by_role("button", name="Back to the run").click()
    seen(page, "s.route.startsWith('/run/') && s.status?.mode === 'ai' && s.snapshot && s.frames > 5")
