"""The story that the page tells, in a real browser: begin, watch a car learn, see how it ended, race it."""

import json
import re

import pytest
from pitwall import PATIENCE, Server, assert_accessible, seen, violations_of_both_themes
from playwright.sync_api import expect
from timeline_cases import racing_run

from paddock.racing.race.share import LARGEST_PAGE
from quiet_runs import quiet_run

# The experiment of the first screen, short enough for a test: it is the page that is tried here.
SHORT = [
    "environment.track=oval", "environment.num_envs=16", "workflow.rollout_steps=640", "workflow.minibatch_size=320",
    "workflow.epochs=1", "training.total_steps=60_000_000", "evaluation.episodes=2",
    "training.phases.train.workflow_hooks.evaluate.every_steps=3000", "logging.every_steps=640",
    "logging.tensorboard=false",
]  # fmt: skip
POLE = [
    "environment.num_envs=4", "workflow.rollout_steps=128", "workflow.minibatch_size=64", "workflow.epochs=1",
    "training.total_steps=512", "evaluation.episodes=2",
]  # fmt: skip
REWARD = "def crawl(params):\n    '''Pays for being slow.'''\n    return 1.0 / (1.0 + params['speed'])\n"
OWN = "# @package _global_\n# My own small race.\ndefaults:\n  - racing\n  - _self_\n"


def test_first_time_path_from_an_empty_folder_to_a_race_and_its_replay(server, pages):
    page = pages.open(server.address)
    page.route("**/api/runs", shortened)
    expect(page.get_by_text("over the reference lap")).to_be_visible()
    assert_accessible(page)
    page.get_by_role("button", name="Watch a car learn").click()
    page.wait_for_url("**/#/run/*")
    seen(page, "s.snapshot && s.scene && s.status")
    while_it_learns(page)
    weight = stop_after_a_change(page)
    when_it_is_over(page, weight)
    page.get_by_role("link", name="Race it").first.click()
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url("**/#/drive/*")
    seen(page, "s.snapshot && s.scene && s.snapshot.cars === 2")
    drivers = shared_drivers(page, server.folder / "first.html")  # the agent's lap is there if it got round
    assert {"classical driver", "Reference lap"} <= set(drivers) <= {"classical driver", "Reference lap", "agent"}
    pages.assert_quiet(server.address)


def test_replay_is_shared_by_a_press_from_a_run_and_from_a_race(server, pages):
    run = racing_run(server.folder)
    page = pages.open(f"{server.address}#/drive?opponent=classical&track=oval&mode=ai")
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url("**/#/drive/*")
    seen(page, "s.snapshot && s.scene && s.snapshot.cars === 2")
    assert violations_of_both_themes(page) == []
    assert shared_drivers(page, server.folder / "race.html") == ["classical driver", "Reference lap"]
    page.get_by_role("button", name="End the drive").click()
    page.wait_for_url("**/#/drive")
    page.goto(f"{server.address}#/run/{run.name}")
    best = f"{run.name}, step 30,000"
    assert shared_drivers(page.get_by_role("region", name="Ending"), server.folder / "run.html") == [
        best,
        "Reference lap",
    ]
    pages.assert_quiet(server.address)


def shared_drivers(place, file) -> list[str]:
    """Press the button; gives the drivers of the replay, which plays from a file without a server."""
    page = place if hasattr(place, "expect_download") else place.page
    with page.expect_download() as download:
        place.get_by_role("link", name="Share replay").first.click()
    download.value.save_as(file)
    assert file.stat().st_size < LARGEST_PAGE
    opened, complaints, papers = page.context.new_page(), [], set()
    opened.on("console", lambda said: said.type in ("error", "warning") and complaints.append(said.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    for scheme in ("dark", "light"):
        opened.emulate_media(color_scheme=scheme)
        opened.goto(file.as_uri())
        opened.wait_for_function("() => window.replay.frames > 3")
        papers.add(opened.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert_accessible(opened)
    names = opened.locator(".replay-name").all_inner_texts()
    opened.close()
    assert (len(papers), complaints) == (2, []), "a page in two themes, which nothing is wrong with"
    return names


def shortened(route) -> None:
    """The request that the page sends, with a smaller budget."""
    request = route.request
    if request.method != "POST":
        route.continue_()
        return
    values = json.loads(request.post_data)
    assert values == {"experiment": "racing"}, "the defaults, and nothing else"
    route.continue_(post_data=json.dumps({**values, "overrides": SHORT}))


def while_it_learns(page) -> None:
    expect(page.locator(".progress")).to_contain_text(re.compile(r"of 60(\\.0)?M steps.*left", re.DOTALL))
    standings = page.get_by_role("region", name="Standings")
    expect(standings.locator("[data-kind=reference]")).to_be_visible()
    expect(standings).to_contain_text(re.compile(r"training cars drive \d+\.\d\d laps per attempt"))
    expect(page.locator(".key-curve polyline").first).to_be_visible()
    expect(page.locator(".reward-stack rect").first).to_be_visible()
    seen(page, "s.followed !== null", timeout=1000 * PATIENCE)  # nobody touched the picture: the leader is followed
    page.get_by_role("button", name="Last evaluation").click()
    seen(page, "s.replay === 'evaluation'")
    page.get_by_role("button", name="Last evaluation").click()
    seen(page, "s.replay === null")
    assert_accessible(page)


def stop_after_a_change(page) -> float:
    slider = page.get_by_label("Weight of progress", exact=True)
    slider.focus()
    page.keyboard.press("End")
    weight = float(slider.input_value())
    seen(page, f"s.status?.rewards.progress === {weight}")
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Really stop?").click()
    expect(page.locator(".head .status")).to_have_text("stopped")
    return weight


def when_it_is_over(page, weight: float) -> None:
    page.reload()
    ending = page.get_by_role("region", name="Ending")
    expect(ending).to_contain_text("The run was stopped after")
    seen(page, "s.replay === 'best' && s.frames > 3")
    assert float(page.get_by_label("Weight of progress", exact=True).input_value()) == weight
    expect(ending.get_by_text("Laps of the best evaluation")).to_be_visible()
    ending.get_by_text("Log, last lines").click()
    expect(ending.get_by_role("log")).to_contain_text("step")
    expect(ending.get_by_role("button", name="Resume")).to_be_enabled()
    assert_accessible(page)


@pytest.fixture(scope="module")
def own_server(chromium_program, tmp_path_factory):
    """A server that was given a folder of its owner's own experiments and rewards."""
    folder = tmp_path_factory.mktemp("own")
    mine = folder / "lab"
    mine.mkdir()
    (mine / "slow.py").write_text(REWARD)
    (mine / "my_race.yaml").write_text(OWN)
    (mine / "broken.py").write_text("def :\n")
    opened = Server(folder, "--mine", "lab")
    yield opened
    opened.close()


def test_start_page_groups_experiments_and_takes_rewards_of_the_owners_folder(own_server, pages):
    page = pages.open(f"{own_server.address}#/new")
    expect(page.get_by_role("heading", name="Recommended")).to_be_visible()
    for group in ("Race", "World models and planning", "Classic control"):
        expect(page.get_by_role("heading", name=group, exact=True)).to_be_visible()
    expect(page.get_by_text("broken.py, line 1: this is not Python.")).to_be_visible()
    assert_accessible(page)
    page.locator("label:has(input[value=ppo_cartpole])").click()
    expect(page.get_by_label("Track", exact=True)).to_be_hidden()
    page.locator("label:has(input[value='my_race.yaml'])").click()
    page.get_by_label("Track", exact=True).select_option("oval")
    page.get_by_label("Reward", exact=True).select_option("mine/slow.py:crawl")
    page.get_by_label("Overrides").fill("training.max_secondz=3\nworkflow.gamma=7")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_text("Checking the configuration")).to_be_visible()
    expect(page.get_by_role("alert").locator("li")).to_have_count(2)
    expect(page.get_by_role("alert")).to_contain_text("max_seconds")
    page.get_by_label("Overrides").fill("\n".join(one for one in SHORT if "track" not in one))
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url("**/#/run/*")
    config = own_server.ask(f"api/runs/{page.url.rpartition('/')[2]}")["config"]
    assert (config["environment"]["track"], list(config["reward"]["custom"])) == ("oval", ["crawl"])
    pages.assert_quiet(own_server.address, refused=1)


def test_a_finished_run_is_evaluated_and_trained_longer_from_its_page(own_server, pages):
    quiet_run(own_server.folder / "runs", "ppo_cartpole", *POLE, name="pole").run()
    page = pages.open(own_server.address)
    page.get_by_role("link", name="pole").click()
    ending = page.get_by_role("region", name="Ending")
    expect(ending).to_contain_text("The run finished after 512 steps")
    ending.get_by_role("button", name="Evaluate").click()
    expect(ending).to_contain_text(re.compile(r"Evaluated: mean return \d+"))
    page.get_by_label("How much longer").select_option(label="twice as long")
    ending.get_by_role("button", name="Train longer").click()
    expect(ending).to_contain_text("The run finished after 1.02k steps")
    pages.assert_quiet(own_server.address)
