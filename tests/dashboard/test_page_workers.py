"""The workers of a run on its page, in a real browser: a run with a relay and two workers of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pitwall import seen
from playwright.sync_api import expect

pytest.importorskip("grpc")

import tiny_tasks

OPTIONS = [
    "experience=workers",
    "environment.id=tiny_tasks:Reach-v0",
    "components.policy.network.hidden=[32, 32]",
    "components.critics.hidden=[32, 32]",
    "buffers.replay.batch_size=64",
    "evaluation.episodes=1",
    "experience.chunk_steps=8",
    "experience.publish_every=20",
    "experience.ahead_steps=32",
    "experience.test_every=5",
    "training.phases.seed.duration_steps=200",
    "training.phases.joint.workflow_hooks.update.ratio=0.5",
    "training.total_steps=null",
    "training.max_seconds=300",
    "logging.every_steps=200",
    "logging.tensorboard=false",
]
COLUMNS = ["Steps/s", "Idle", "Version lag", "Round trip", "Last return", "Last length", "Test return"]


@pytest.fixture
def run(server, monkeypatch):
    """A run over two workers, in the server's folder; its id."""
    monkeypatch.setenv("PADDOCK_PLUGINS", "tiny_tasks")
    beside = [str(Path(tiny_tasks.__file__).parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(beside))
    with (server.folder / "train.log").open("wb") as log:
        command = [sys.executable, "-m", "paddock", "train", "sac_pendulum", *OPTIONS, "--name", "two-workers"]
        process = subprocess.Popen(command, cwd=server.folder, stdout=log, stderr=subprocess.STDOUT)
    yield wait_for_run(server, process)
    process.terminate()
    process.wait(60)


def wait_for_run(server, process) -> str:
    while True:
        runs = [row["id"] for row in server.ask("api/runs") if row["is_live"]]
        if runs:
            return runs[0]
        assert process.poll() is None, (server.folder / "train.log").read_text()


@pytest.mark.timeout(280)
def test_the_page_shows_the_workers_of_a_run(server, pages, run):
    page = pages.open(f"{server.address}#/run/{run}")
    table = page.get_by_role("region", name="Workers")
    expect(table.get_by_text("2 of 2 connected")).to_be_visible()
    seen(page, "s.status?.workers?.every((one) => typeof one.test_return === 'number')")
    for number in (1, 2):
        row = table.get_by_role("row", name=f"worker-{number}")
        expect(row.locator(".status")).to_have_text("connected")
        for column in COLUMNS:
            expect(row.locator(f"td[data-label='{column}']")).to_have_text(re.compile(r"^-?[\d.,]+(k| %| ms)?$"))
        expect(row.locator("td[data-label='Last length']")).to_have_text(str(tiny_tasks.LENGTH))
    expect(table.get_by_text(re.compile(r"^Trainer idle \d+ % · [\d.]+ bytes per step$"))).to_be_visible()

    assert_curves_of_workers_are_folded(page)
    assert_names_are_text(page)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Really stop?").click()
    expect(page.locator(".head .status")).to_have_text(re.compile("stopped|finished|interrupted"))
    expect(table).to_be_hidden()
    pages.assert_quiet(server.address)


def assert_curves_of_workers_are_folded(page):
    panels = page.locator(".chart[data-panel^='Workers: ']")
    page.get_by_role("button", name="Show curves of each worker").click()
    expect(page.locator(".chart[data-panel='Workers: return'] .u-label", has_text="worker-1")).to_be_visible()
    expect(page.locator(".chart[data-panel='Steps/s while collecting'] .u-series")).to_have_count(
        2
    )  # the axis, and one
    page.get_by_role("button", name="Hide curves of each worker").click()
    expect(panels).to_have_count(0)


def assert_names_are_text(page):
    """A table of the page's own module, given a name that would be an element."""
    page.evaluate(
        """async () => {
            const { Workers } = await import('./workers.js');
            const workers = new Workers();
            workers.set([{ name: '<img src=x>', host: '<b>', is_connected: true, pause: '<i>full</i>' }]);
            window.shown = workers.element;
        }"""
    )
    assert page.evaluate("shown.querySelectorAll('img, i').length") == 0
    assert page.evaluate("shown.querySelector('tbody b').textContent") == "<img src=x>"
    assert page.evaluate("shown.querySelector('.status').textContent") == "paused"
    assert page.evaluate("shown.querySelector('.warning').textContent") == "<i>full</i>"
