"""How long a first visit takes: from an empty folder to a replay for a friend, done on the page by a real Chromium.

`python benchmarks/dashboard_first_time.py`: start the server, *Watch a car learn* until an evaluation has completed a
lap, *Race it*, *Share replay*, open the replay from its file. Prints the seconds of each part; nothing is shortened.
`--pictures DIR` keeps what was seen.
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
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 900.0  # s


class Clock:
    """Seconds of each part, and a picture at its end."""

    def __init__(self, pictures: Path | None) -> None:
        self.pictures, self.last = pictures, time.monotonic()
        self.parts: dict[str, float] = {}

    def note(self, part: str, page: Page | None = None) -> None:
        now = time.monotonic()
        self.parts[part] = round(now - self.last, 1)
        if page and self.pictures:
            page.screenshot(path=self.pictures / f"{len(self.parts)}.png")
        self.last = time.monotonic()


def visit(page: Page, entry: str, folder: Path, clock: Clock) -> None:
    """The path of somebody who reads nothing but buttons."""
    page.goto(entry)
    page.get_by_role("button", name="Watch a car learn").click()
    clock.note("first screen", page)
    page.wait_for_function("() => window.paddock.state.snapshot && window.paddock.state.frames > 3")
    clock.note("cars are seen", page)
    page.get_by_role("link", name="Race it").first.wait_for()
    clock.note("an evaluated lap", page)
    page.get_by_role("link", name="Race it").first.click()
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_function("() => window.paddock.state.snapshot?.cars === 2 && window.paddock.state.frames > 3")
    page.keyboard.down("ArrowUp")
    page.wait_for_function("() => window.paddock.state.car(0)?.speed > 3")
    page.keyboard.up("ArrowUp")
    clock.note("in the race", page)
    with page.expect_download() as download:
        page.get_by_role("link", name="Share replay").first.click()
    file = folder / "replay.html"
    download.value.save_as(file)
    shared = page.context.new_page()
    shared.goto(file.as_uri())
    shared.wait_for_function("() => window.replay.frames > 3")
    clock.note("the replay plays", shared)


def measure(pictures: Path | None) -> dict[str, Any]:
    """The seconds of each part and of all."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        program = next(found for one in NAMES if (found := shutil.which(one)))
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        page.set_default_timeout(1000 * PATIENCE)
        clock = Clock(pictures)
        command = [sys.executable, "-m", "paddock", "dashboard", "--no-browser", "--port", str(port)]
        environment = {**os.environ, "PADDOCK_HOME": str(folder / "home")}
        server = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
        )
        try:
            keys = folder / "home" / "dashboard" / f"{port}.json"
            while not keys.exists():
                time.sleep(0.05)
            time.sleep(0.2)
            visit(page, f"http://127.0.0.1:{port}/?token={json.loads(keys.read_text())['token']}", folder, clock)
        finally:
            browser.close()
            end(server, folder)
    return {"seconds": clock.parts, "together": round(sum(clock.parts.values()), 1), "load": os.getloadavg()[0]}


def end(server: subprocess.Popen[bytes], folder: Path) -> None:
    """End the server, and what was started through it: all of it works in this folder."""
    server.kill()
    server.wait()
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()).is_relative_to(folder):
                process.kill()
        except psutil.Error:
            continue


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=Path)
    given = parser.parse_args()
    if given.pictures:
        given.pictures.mkdir(parents=True, exist_ok=True)
    print(json.dumps(measure(given.pictures), indent=2))
