"""Driving inside a dream, with real key events in a real browser."""

import subprocess
import sys

import pytest
from pitwall import seen
from playwright.sync_api import expect

from quiet_runs import quiet_run
from world_model_cases import BASE

DODGE = [
    *BASE,
    "environment.id=paddock/Dodge-v0",
    "environment.vectorization=custom",
    "representation@components.vae=conv_vae_16",
    "training.phases.evolve.duration_cycles=1",
]


@pytest.fixture
def dream(server):
    """A session in the dream of a small run, in the server's folder; gives its id."""
    trained = quiet_run(server.folder / "runs", None, *DODGE, name="dodge")
    trained.run()
    command = [sys.executable, "-m", "paddock", "drive", "--dream", trained.run_folder.name, "--session"]
    process = subprocess.Popen(command, cwd=server.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield f"dream-{trained.run_folder.name}"
    process.kill()
    process.wait()


def test_a_person_drives_inside_the_dream_and_sees_road_and_reconstruction_beside_it(server, dream, pages, tmp_path):
    page = pages.open(server.address)
    row = page.locator("tr", has_text=dream).get_by_role("link").first
    row.click()
    page.wait_for_url("**/#/drive/*")
    image = page.locator("img.video-frame")
    expect(image).to_be_visible()
    page.wait_for_function("() => document.querySelector('img.video-frame')?.naturalWidth > 700")
    expect(page.locator(".captions")).to_have_text("RoadReconstructionDream")
    expect(page.get_by_text("Your laps")).to_be_hidden()
    expect(page.get_by_text("Inside the dream of dodge")).to_be_visible()
    steps = seen(page, "s.status?.agent_steps > 3 && s.status.agent_steps")
    page.keyboard.down("ArrowLeft")
    seen(page, "s.input?.steer > 0.3")
    seen(page, f"s.status.agent_steps > {steps} + 5")
    page.keyboard.up("ArrowLeft")
    page.screenshot(path=tmp_path / "dream.png")
    before = seen(page, "s.status.agent_steps > 40 && s.status.agent_steps")
    page.keyboard.press("KeyR")  # anew
    seen(page, f"s.status.agent_steps < {before}")  # so the request is answered before the drive ends
    page.get_by_role("button", name="End the drive").click()
    page.wait_for_url("**/#/drive")
    pages.assert_quiet(server.address)
