"""What the page says of an agent that has been trained: how fast it learned, and which roads it knows."""

import re
import subprocess
import sys

import pytest
from pitwall import seen
from playwright.sync_api import expect

TRAINING = [
    "environment.track=kidney", "environment.num_envs=16", "workflow.rollout_steps=640", "workflow.minibatch_size=320",
    "workflow.epochs=1", "training.total_steps=2560", "evaluation.episodes=1", "logging.every_steps=640",
    "logging.tensorboard=false",
]  # fmt: skip


@pytest.fixture
def trained(server):
    """A finished run on the circuit `kidney`; gives the server and what the command line said of it."""
    command = [sys.executable, "-m", "paddock", "train", "racing", "--name", "mine", *TRAINING]
    done = subprocess.run(command, cwd=server.folder, capture_output=True, text=True, timeout=250, check=True)
    return server, done.stdout


def test_steps_per_second_is_one_number_and_an_agent_is_met_on_a_road_that_it_knows(trained, pages):
    server, printed = trained
    page = pages.open(server.address)
    page.get_by_role("link", name="mine").click()
    steps_per_second_agrees_with_the_command_line(page, printed)
    run = page.url.rpartition("/")[2]
    page.goto(f"{server.address}#/drive")
    note = page.locator("aside [role=status]")
    opponent = page.get_by_label("Opponent")
    track = page.locator("input[name=track]:checked")
    expect(track).to_have_value("oval")
    opponent.select_option(f"{run}/latest")
    expect(track).to_have_value("kidney")
    expect(note).to_have_text("Trained on kidney.")
    expect(page.get_by_label("Car")).to_have_value("gt")
    page.locator("label:has(input[value=oval])").click()
    expect(note).to_contain_text("has never driven oval")
    opponent.select_option("classical")
    expect(note).to_have_text("")
    opponent.select_option(f"{run}/latest")
    expect(track).to_have_value("oval")
    page.goto(f"{server.address}#/drive?opponent={run}/latest")
    expect(track).to_have_value("kidney")
    page.goto(f"{server.address}#/drive?opponent={run}/latest&track=oval")
    expect(note).to_contain_text(f"{run}/latest was trained on kidney only")
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url("**/#/drive/*")
    seen(page, "s.snapshot && s.scene")
    expect(page.get_by_text("The agent was trained on kidney only and has never driven oval")).to_be_visible()
    page.get_by_role("button", name="End the drive").click()
    page.wait_for_url("**/#/drive")
    pages.assert_quiet(server.address)


def steps_per_second_agrees_with_the_command_line(page, printed: str) -> None:
    told = float(re.findall(r"([\d,]+) steps/s overall", printed)[-1].replace(",", ""))
    tile = page.locator(".tiles div", has_text="Steps/s overall").locator("b")
    expect(tile).to_have_text(re.compile(r"^[\d.]+k?$"))
    shown = tile.inner_text()
    value = float(shown.removesuffix("k")) * (1000 if shown.endswith("k") else 1)
    assert value == pytest.approx(told, rel=0.02)
    expect(page.locator(".charts")).to_contain_text("Steps/s while collecting")
    expect(page.locator(".charts")).not_to_contain_text("Throughput")
