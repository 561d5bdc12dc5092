"""Take the pictures of the dashboard for the documentation: `python docs/site/pictures.py [--to DIR] [--seconds N]`.

A server and a short racing run are started in a temporary folder; Chromium takes the pictures from the page as it is.
Needs the group `dev` (playwright) and a Chromium.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

IMAGES = Path(__file__).parents[1] / "images"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 240.0  # s
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=IMAGES, help="the folder of the pictures")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the run learns before the first picture")
    parser.add_argument(
        "--options", nargs="*", default=[], help="overrides of the run, such as environment.num_envs=16"
    )
    given = parser.parse_args()
    program = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    if program is None:
        sys.exit("no Chromium on this machine; install one, for example: apt-get install chromium")
    given.to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        take(Path(folder), given.to, program, given.seconds, given.options)


def take(folder: Path, to: Path, program: str, seconds: float, options: list[str]) -> None:
    """Start a run and a server in `folder`, take the pictures, end both."""
    from playwright.sync_api import sync_playwright

    home, port = folder / "home", free_port()
    environment = {**os.environ, "PADDOCK_HOME": str(home)}
    run = start(folder, environment, "train", "racing", "--name", "demo", "training.max_seconds=900",
                "training.total_steps=null", "logging.tensorboard=false", *options)  # fmt: skip
    server = start(folder, environment, "dashboard", "--no-browser", "--port", str(port))
    try:
        token = wait(lambda: json.loads((home / "dashboard" / f"{port}.json").read_text())["token"])
        address = f"http://127.0.0.1:{port}/"
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
            shoot(browser, f"{address}?token={token}", address, to, seconds)
            browser.close()
    finally:
        for process in (server, run):
            process.terminate()
            process.wait(timeout=PATIENCE)


def shoot(browser: Any, entry: str, address: str, to: Path, seconds: float) -> None:
    """The run at a desk and on a phone, the table of runs, the driver's seat."""
    page = browser.new_context(viewport=WIDE, color_scheme="dark").new_page()
    page.set_default_timeout(1000 * PATIENCE)
    page.goto(entry)
    link = page.locator("td.name a").first
    link.click()
    page.wait_for_function("() => window.paddock.state.snapshot && window.paddock.state.frames > 10")
    page.wait_for_timeout(1000 * seconds)
    page.screenshot(path=to / "dashboard.png")
    page.set_viewport_size(PHONE)
    page.wait_for_timeout(1_500)
    page.screenshot(path=to / "dashboard_phone.png")
    page.set_viewport_size(WIDE)
    page.goto(f"{address}#/")
    link.wait_for()
    page.screenshot(path=to / "dashboard_runs.png")
    page.goto(f"{address}#/drive")
    page.get_by_role("heading", level=1).wait_for()
    page.wait_for_timeout(1_500)
    page.screenshot(path=to / "dashboard_garage.png")


def start(folder: Path, environment: dict[str, str], *arguments: str) -> subprocess.Popen[bytes]:
    """A `paddock` command in the folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "paddock", *arguments],
        cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def wait(question: Callable[[], Any]) -> Any:
    """Ask until there is an answer."""
    give_up = time.monotonic() + PATIENCE
    while True:
        try:
            return question()
        except (OSError, ValueError, KeyError):
            if time.monotonic() > give_up:
                raise
            time.sleep(0.2)


def free_port() -> int:
    """A port that nothing listens at."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


if __name__ == "__main__":
    main()
