"""The report in a real browser: it draws everything, complains of nothing and asks nobody for anything."""

import json
import math

import pytest

from paddock.experiments.compare.compare import compare
from paddock.experiments.report.report import write_report


def opened(file, browser):
    browser.open(file)
    outside = [address for address in browser.requests if not address.startswith(("file:", "data:"))]
    assert (browser.problems, outside) == ([], [])
    assert [address for address in browser.requests if address.startswith("file:")] == [file.resolve().as_uri()]


def texts(browser, selector):
    return browser.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.textContent)")


def test_real_runs_side_by_side(real_runs, tmp_path, browser):
    file = write_report(tmp_path / "report.html", compare(real_runs, ["fast", "slow"]))
    opened(file, browser)
    assert texts(browser, "h1") == ["fast vs slow"]
    assert texts(browser, "h2") == [
        "Learning curves", "Final scores", "Against each other", "Every run", "Configuration, where it differs",
        "Protocol and machine",
    ]  # fmt: skip
    assert browser.run("document.querySelectorAll('figure svg').length") == 2 + 4 + 2
    assert len(texts(browser, "section.long:nth-of-type(1) tbody tr, section:nth-of-type(4) tbody tr")) >= 4
    assert {"workflow.clip_ratio", "optimizers.main.learning_rate"} <= set(texts(browser, "td.key"))
    bands = "document.querySelectorAll('g[data-group=fast] path[opacity=\"0.16\"]').length"
    assert browser.run(bands) == 3, "two curves and a profile"


def test_what_can_be_clicked_works(real_runs, tmp_path, browser):
    file = write_report(tmp_path / "report.html", compare(real_runs, ["fast", "slow"]))
    browser.open(file)
    click = "[...document.querySelectorAll('button')].find((one) => one.textContent === '{}').click()"
    browser.run(click.format("against wall clock"))
    assert any("wall clock" in text for text in texts(browser, "figure svg text"))
    before = browser.run("document.documentElement.dataset.theme")
    browser.run(click.format("Light / dark"))
    assert browser.run("document.documentElement.dataset.theme") != before
    browser.run("document.querySelector('.legend button').click()")
    assert browser.run("document.querySelectorAll('g[data-group][hidden]').length") >= 2
    browser.run("[...document.querySelectorAll('th.sortable')].find((one) => one.textContent === 'Seed').click()")
    seeds = texts(browser, "section.long tbody tr td:nth-child(4)")[:4]
    assert seeds == ["2", "2", "1", "1"]
    browser.run(
        "{const image = document.querySelector('figure svg'), box = image.getBoundingClientRect();"
        "image.dispatchEvent(new MouseEvent('mousemove', {clientX: box.left + box.width / 2, clientY: box.top + 50}))}"
    )
    assert "fast" in texts(browser, ".tip")[0] or "slow" in texts(browser, ".tip")[0]
    assert browser.problems == []


def test_it_prints(real_runs, tmp_path, browser):
    file = write_report(tmp_path / "report.html", compare(real_runs, ["fast", "slow"]))
    browser.open(file)
    assert len(browser.ask("Page.printToPDF")["data"]) > 10_000


def lap(time, wobble):
    places = [k / 50 for k in range(50)]
    return {
        "lap_time": time,
        "sectors": [time / 3] * 3,
        "samples": {
            "s": [300 * p for p in places],
            "time": [time * p for p in places],
            "x": [50 * math.cos(2 * math.pi * p) + wobble for p in places],
            "y": [50 * math.sin(2 * math.pi * p) for p in places],
            "speed": [20 + 5 * math.sin(4 * math.pi * p) for p in places],
        },
    }


def traces(time):
    ring = [[math.cos(k / 10), math.sin(k / 10)] for k in range(63)]
    track = {
        "name": "ring", "length": 300.0, "left": [[45 * x, 45 * y] for x, y in ring],
        "right": [[55 * x, 55 * y] for x, y in ring], "reference": lap(15.0, 0.0),
        "heat": {"x": -60.0, "y": -60.0, "cell": 1.0, "cells": [[10, 60, 5, 0], [5, 60, 2, 2]]},
        "lap": lap(time, 1.0) if time else None,
    }  # fmt: skip
    return {"car": "gt", "tracks": [track]}


def test_laps_lines_sectors_and_heat_maps(tmp_path, make_run, browser):
    for name, seed, time in (("quick", 1, 16.0), ("quick", 2, 17.0), ("lost", 1, None)):
        run = make_run(tmp_path, name, seed=seed)
        run.results.mkdir()
        (run.results / "best.json").write_text(json.dumps({"traces": traces(time)}))
    file = write_report(tmp_path / "report.html", compare(tmp_path, ["quick", "lost"]))
    opened(file, browser)
    assert "Laps on ring" in texts(browser, "h2")
    rows = texts(browser, "section:nth-of-type(6) tbody tr, section tbody tr")
    (quick,) = [row for row in rows if row.startswith(" quick") and "0:16.000" in row]
    assert "+1.000" in quick
    assert "+0.333" in quick
    assert "2 of 2" in quick
    assert any("no lap" in row and "0 of 1" in row for row in rows)
    assert browser.run("document.querySelectorAll('canvas').length") == 2
    assert browser.run("document.querySelectorAll('polyline').length") > 20, "the line in pieces by speed"


def test_the_report_says_what_is_not_comparable_and_gives_a_single_run_no_interval(tmp_path, make_run, browser):
    make_run(tmp_path, "demo", environment="meadow", scores=(0.0, 0.9))
    make_run(tmp_path, "slide", environment="meadow", scores=(0.0, 0.8))
    make_run(tmp_path, "lost", environment="Spielberg", scores=(0.0, 0.0))
    opened(write_report(tmp_path / "report.html", compare(tmp_path, ["demo", "slide", "lost"])), browser)
    cards = texts(browser, ".cards section")
    assert "n = 1, no interval" in cards[0]
    assert cards[2].startswith("lost–not comparable")
    assert ["Spielberg is not comparable" in text for text in texts(browser, "ul.warnings li")] == [True, False]
    assert "demo > slide" in texts(browser, "figure text.name title")
    ends = "document.querySelectorAll('figure line[stroke-width=\"7\"]').length"
    assert browser.run(ends) == 0, "no bars of intervals"
    assert browser.run("document.querySelectorAll('path[opacity=\"0.16\"]').length") == 0, "no bands"


@pytest.mark.parametrize("name", ["</script><script>alert(1)</script>", "a'b\"c & <i>", "<!--<script>", "-->\u2028"])
def test_names_cannot_break_the_page(tmp_path, make_run, browser, name):
    make_run(tmp_path, "a", tags=[name])
    comparison = compare(tmp_path, ["a"])
    odd = type(comparison)([type(comparison.groups[0])(name, comparison.groups[0].members)], comparison.metrics, "last",
                           comparison.ranges)  # fmt: skip
    opened(write_report(tmp_path / "odd.html", odd), browser)
    assert texts(browser, "h1") == [name]
