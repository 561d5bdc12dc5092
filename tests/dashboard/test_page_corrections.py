"""Corrections in a real browser: the policy drives, a person takes over by keys and gives back, the page says what it
learned from, and the marked stretch is in the data."""

import re

import pytest
from pitwall import Server, seen
from playwright.sync_api import expect

from paddock.buffers.demonstrations import load_episodes
from quiet_runs import quiet_run

TINY = [
    "environment.track=oval", "environment.num_envs=2", "components.policy.network.width=16",
    "components.policy.network.blocks=1", "buffers.demonstrations.demonstrator.laps=1",
    "buffers.demonstrations.validation=0.0", "buffers.demonstrations.batch_size=16", "workflow.updates=3",
    "workflow.warmup_updates=1", "evaluation.episodes=1",
]  # fmt: skip


@pytest.fixture
def server(chromium_program, tmp_path):
    """A server over a folder with the run of a cloned policy."""
    quiet_run(tmp_path / "runs", "bc_racing", *TINY, name="cloned").run()
    opened = Server(tmp_path)
    yield opened
    opened.close()


def test_a_person_corrects_a_driving_policy_in_the_browser(server, pages):
    page = pages.open(f"{server.address}#/drive?track=oval&mode=ai")
    page.wait_for_function("() => document.querySelectorAll('#drive-opponent option').length > 2")
    page.locator("#drive-opponent").select_option(index=2)
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url("**/#/drive/*")
    seen(page, "s.snapshot && s.scene && s.status?.mode === 'ai' && s.status.agent_steps > 120")
    note = page.locator(".corrections")
    expect(note).to_contain_text("Take over with Manual")

    page.get_by_role("button", name="Manual", exact=True).click()
    seen(page, "s.status.mode === 'manual' && s.car(0).state & 4")
    page.keyboard.down("ArrowUp")
    steps = seen(page, "s.status.agent_steps")
    seen(page, f"s.status.agent_steps > {steps} + 150")
    page.keyboard.up("ArrowUp")

    page.get_by_role("button", name="AI", exact=True).click()
    seen(page, "s.status.mode === 'ai' && s.status.corrections.stretches === 1")
    expect(note).to_contain_text(re.compile(r"Learned from 1 correction \(\d+ decisions\) in \d+ updates?"))
    (run,) = (server.folder / "runs" / "drives").glob("drive-*")
    (episode,) = load_episodes(run / "demonstration")
    assert episode.marks["is_intervention"].all()
    assert len(episode) == page.evaluate("paddock.state.status.corrections.steps")
    assert (run / "policy" / "corrected" / "policy.json").is_file()
    page.get_by_role("button", name="End the drive").click()
    pages.assert_quiet(server.address)
