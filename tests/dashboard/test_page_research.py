"""The research screens in a real browser: table of runs, labels, curves, configuration, log, events, comparison."""

import csv
import json
import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from pitwall import Server, seen
from playwright.sync_api import expect
from research_runs import make_runs

from quiet_runs import quiet_run
from viewer import token_of

SMALL = [
    "environment.num_envs=2", "workflow.rollout_steps=64", "workflow.minibatch_size=32", "workflow.epochs=1",
    "training.total_steps=128", "evaluation.episodes=1", "checkpoint.every_steps=64",
]  # fmt: skip


@pytest.fixture(scope="module")
def research(chromium_program, tmp_path_factory):
    """A server over four finished runs, and one that was really trained and can be resumed."""
    folder = tmp_path_factory.mktemp("research")
    (folder / "runs").mkdir()
    names = make_runs(folder / "runs")
    orchestrator = quiet_run(folder / "runs", "ppo_cartpole", *SMALL, name="real")
    orchestrator.run()
    opened = Server(folder)
    opened.names = {**names, "real": orchestrator.run_folder.name}
    yield opened
    opened.close()


def first_names(page) -> list[str]:
    return page.locator("table.runs td.name a").all_inner_texts()


def test_runs_table_is_sorted_grouped_and_remembers_it(research, pages):
    page = pages.open(research.address)
    expect(page.locator("table.runs tbody tr[data-run]")).to_have_count(5)
    page.get_by_role("button", name="Sort by score").click()
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("Score")
    assert first_names(page)[:2] == ["careful", "careful"]
    page.get_by_role("button", name="Sort by score").click()
    assert first_names(page)[-2:] == ["careful", "careful"]
    page.get_by_label("Group the runs").select_option("recipe")
    expect(page.locator("table.runs tr.group")).to_have_count(3)
    tints = page.locator("table.runs tr[data-run] .swatch").evaluate_all("(all) => all.map((one) => one.className)")
    assert len(set(tints)) == 3, "each group has a colour of its own"
    page.reload()
    expect(page.locator("table.runs tr.group")).to_have_count(3)
    pages.assert_quiet(research.address)


def test_a_run_is_tagged_noted_renamed_resumed_and_deleted(research, pages):
    page = pages.open(research.address)
    page.get_by_role("button", name="Change plain").first.click()
    page.get_by_label("Tags").fill("paper figure2")
    page.get_by_label("Note").fill("the one in the appendix")
    page.get_by_label("Name").fill("baseline")
    page.get_by_role("button", name="Save").click()
    row = page.locator("table.runs tr[data-run]", has_text="baseline")
    expect(row).to_contain_text("figure2")
    expect(row).to_contain_text("the one in the appendix")
    labels = Path(research.folder / "runs" / row.get_attribute("data-run") / "labels.json")
    kept = json.loads(labels.read_text())
    assert kept == {
        "tags": ["figure2", "paper"],
        "pinned": False,
        "note": "the one in the appendix",
        "name": "baseline",
    }

    page.get_by_role("button", name="Change baseline").click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Really delete").click()
    expect(row).to_have_count(0)
    assert not labels.parent.exists()

    page.get_by_role("button", name="Change real").click()
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Really resume").click()
    page.wait_for_url("**/#/run/real-*")
    page.get_by_text("Log", exact=True).click()
    expect(page.locator("pre.log")).to_contain_text(re.compile("steps|finished|nothing", re.IGNORECASE))
    pages.assert_quiet(research.address)


def test_curves_are_smoothed_logarithmic_and_saved_as_csv_and_png(research, pages):
    page = pages.open(f"{research.address}#/run/{research.names['careful1']}")
    panel = page.locator("figure[data-panel='Losses']")
    expect(panel.locator("canvas")).to_be_visible()
    picture = "document.querySelector(\"figure[data-panel='Return'] canvas\").toDataURL()"
    before = page.evaluate(picture)
    page.get_by_label("Smoothing").fill("0.9")
    page.wait_for_function(f"(before) => {picture} !== before", arg=before)
    page.get_by_role("button", name="Log axis").click()
    expect(page.get_by_role("button", name="Log axis")).to_have_attribute("aria-pressed", "true")
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV of Losses").click()
    rows = list(csv.reader(Path(download.value.path()).read_text().splitlines()))
    assert rows[0] == ["agent_steps", "careful train/value_loss"]
    assert [float(rows[1][1]), float(rows[40][1])] == [10.0, 0.25], "as logged, not smoothed"
    with page.expect_download() as download:
        page.get_by_role("button", name="PNG of Return").click()
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")
    pages.assert_quiet(research.address)


def test_events_are_filtered_and_options_have_origins(research, pages):
    page = pages.open(f"{research.address}#/run/{research.names['careful1']}")
    items = page.locator("ol.events li")
    expect(items).to_have_count(5)
    expect(page.locator("ol.events li[data-event=control]")).to_contain_text("progress 0 → 1")
    page.get_by_role("button", name="Problems").click()
    expect(items).to_have_count(1)
    expect(items).to_contain_text("nan_loss")
    page.get_by_text("Configuration", exact=True).click()
    clip = page.locator("tr[data-key='workflow.clip_ratio']")
    expect(clip).to_contain_text("command line")
    expect(page.locator("tr[data-key='workflow.gae_lambda']")).to_contain_text("experiment/ppo_cartpole.yaml:")
    page.get_by_role("button", name="Only what was changed").click()
    expect(page.locator("tr[data-key='workflow.gae_lambda']")).to_have_count(0)
    expect(clip).to_be_visible()
    pages.assert_quiet(research.address)


def test_comparison_shows_intervals_options_and_the_report(research, pages):
    ids = [research.names[name] for name in ("plain1", "careful1", "careful2")]
    page = pages.open(f"{research.address}#/compare/{','.join(ids)}")
    expect(page.locator("table.scores tbody tr", has_text="careful")).to_contain_text("[")
    expect(page.locator("table.options tbody tr")).to_have_count(1)
    expect(page.locator("table.options")).to_contain_text("workflow.clip_ratio")
    expect(page.locator("svg.lap-overlay polyline")).to_have_count(3)  # The reference, and the best lap of each group.
    expect(page.locator("section", has_text="Laps on ring").last).to_contain_text("0:21.000")
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Report").click()
    report = opened.value
    expect(report.locator("#page h1")).to_contain_text("careful")
    assert report.evaluate("self.origin") == "null", "the report is in a sandbox"
    seen(page, "document.querySelectorAll('.chart canvas').length >= 2")
    pages.assert_quiet(research.address)


def ask(server, path: str, values: dict) -> tuple[int, dict]:
    headers = {"Authorization": f"Bearer {token_of(server.port)}", "Content-Type": "application/json"}
    request = urllib.request.Request(server.address + path, json.dumps(values).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_changes_of_runs_are_refused_with_a_sentence(research):
    run = f"api/runs/{research.names['careful2']}"
    status, values = ask(research, f"{run}/delete", {})
    assert (status, "confirm" in values["error"]) == (400, True)
    status, values = ask(research, f"{run}/labels", {"name": "../../etc"})
    assert (status, "cannot name a run" in values["error"]) == (400, True)
    assert ask(research, f"{run}/labels", {"tags": "no list"})[0] == 400
    assert ask(research, f"{run}/labels", {"pinned": True})[1]["pinned"] is True
    status, values = ask(research, f"{run}/delete", {"confirm": research.names["careful2"]})
    assert (status, "pinned" in values["error"]) == (400, True)
    assert ask(research, f"{run}/labels", {"pinned": False})[0] == 200
    assert ask(research, "api/runs/other/delete", {"confirm": "other"})[0] == 404
    assert (research.folder / "runs" / research.names["careful2"]).is_dir()
