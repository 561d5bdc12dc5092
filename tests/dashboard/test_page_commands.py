"""The address that a command prints, opened in a real browser: it shows what the command said."""

import contextlib
import os
import re
import signal
import subprocess
import sys

import psutil
import pytest
from pitwall import PATIENCE, seen
from playwright.sync_api import expect

from viewer import end, until

PRINTED = re.compile(r"Dashboard running at: (\S+)")
SMALL = [
    "environment.track=oval", "environment.num_envs=16", "workflow.rollout_steps=320", "workflow.minibatch_size=160",
    "training.total_steps=null", "training.max_seconds=300", "evaluation.episodes=1", "logging.tensorboard=false",
]  # fmt: skip


@pytest.fixture
def printed(chromium_program, tmp_path):
    """Start `paddock ARGUMENTS` and give the address that it prints."""
    started = []

    def start(*arguments: str) -> str:
        out = tmp_path / f"out-{len(started)}"
        command = [sys.executable, "-m", "paddock", *arguments]
        # As in the terminal of its owner: nobody else can read what is printed.
        with os.fdopen(os.open(out, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            process = subprocess.Popen(
                command, cwd=tmp_path, stdout=file, stderr=subprocess.STDOUT, env={**os.environ, "BROWSER": "true"}
            )
        started.append(process)

        def address():
            assert process.poll() is None, out.read_text()
            return PRINTED.search(out.read_text())

        return until(address, PATIENCE)[1]

    yield start
    for process in started:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=20)
    for one in psutil.process_iter():
        end(one.pid, tmp_path)
    for process in started:
        process.wait()


def test_paddock_drive_prints_the_address_of_the_drivers_seat(printed, pages):
    address = printed("drive", "--track", "oval", "--against", "classical", "--no-browser")
    page = pages.open_printed(address)
    expect(page.get_by_role("heading", name="Drive", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Restart lap")).to_be_visible()
    seen(page, "s.route.startsWith('/drive/drive-oval') && s.snapshot && s.scene && s.car(0).state & 4")
    assert "token" not in page.url
    page.reload()
    expect(page.get_by_role("button", name="Restart lap")).to_be_visible()
    pages.assert_quiet(address.partition("?")[0])


def test_train_dashboard_and_dashboard_run_print_the_address_of_the_run(printed, pages):
    address = printed("train", "racing", "--name", "mine", "--dashboard", *SMALL)
    page = pages.open_printed(address)
    expect(page.get_by_role("heading", name="mine")).to_be_visible()
    seen(page, "s.route.startsWith('/run/mine-') && s.snapshot && s.status")
    other = pages.open_printed(printed("dashboard", "mine", "--no-browser"))
    expect(other.get_by_role("heading", name="mine")).to_be_visible()
    seen(other, "s.route.startsWith('/run/mine-') && s.snapshot")
    assert pages.problems == []


def test_the_file_that_the_browser_is_given_opens_the_page_of_its_owner(printed, pages):
    """Two servers in one browser: neither takes the other's place."""
    first, second = printed("dashboard", "--no-browser"), printed("dashboard", "--no-browser")
    ports = [re.search(r":(\d+)/", address)[1] for address in (first, second)]
    home = os.environ["PADDOCK_HOME"]
    page = pages.open_printed(f"file://{os.path.abspath(home)}/dashboard/{ports[0]}.html")
    expect(page.get_by_role("heading", name="Teach a car to race")).to_be_visible()
    assert page.url == f"http://127.0.0.1:{ports[0]}/"
    page.goto(second)
    expect(page.get_by_role("heading", name="Teach a car to race")).to_be_visible()
    page.goto(f"http://127.0.0.1:{ports[0]}/#/new")
    expect(page.get_by_role("heading", name="Start a run")).to_be_visible()
    cookies = page.context.cookies()
    assert {one["name"] for one in cookies} == {f"paddock_token_{port}" for port in ports}
    assert all(one["httpOnly"] and one["sameSite"] == "Strict" for one in cookies)
    stranger = pages.browser.new_context().new_page()
    assert stranger.goto(f"http://127.0.0.1:{ports[0]}/").status == 401
    expect(stranger.get_by_role("heading", name="This page needs its token")).to_be_visible()
