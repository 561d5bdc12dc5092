"""Take the pictures of the dashboard for the documentation: `python docs/site/pictures.py [--to DIR] [--seconds N]`.

Servers and a short racing run are started in a temporary folder; Chromium takes the pictures from the page as it is.
The view from the car is what `benchmarks/dashboard_world3d.py` draws. Needs the group `dev` and a Chromium.
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
VIEW_FROM_THE_CAR = Path(__file__).parents[2] / "benchmarks" / "dashboard_world3d.py"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE, LONGEST = 240.0, 1500.0  # s for an answer, for a lap
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=IMAGES, help="the folder of the pictures")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="how long the run learns at least before its picture"
    )
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
        draw_view_from_the_car(Path(folder) / "large.png", given.to / "world3d.png")


def take(folder: Path, to: Path, program: str, seconds: float, options: list[str]) -> None:
    """Start a run and a server in `folder`, take the pictures, end both."""
    from playwright.sync_api import sync_playwright

    home, empty = folder / "home", folder / "empty"
    empty.mkdir()
    environment = {**os.environ, "PADDOCK_HOME": str(home)}
    run = start(folder, environment, "train", "racing", "--name", "demo", "training.max_seconds=1800",
                "training.total_steps=null", "logging.tensorboard=false", *options)  # fmt: skip
    ports = {place: free_port() for place in (empty, folder)}
    servers = [
        start(place, environment, "dashboard", "--no-browser", "--port", str(port)) for place, port in ports.items()
    ]
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
            shoot_first_screen(opened(browser, home, ports[empty]), to)
            page = opened(browser, home, ports[folder])
            shoot_run(page, to, seconds)
            shoot_drive(page, f"http://127.0.0.1:{ports[folder]}/", to)
            browser.close()
    finally:
        for process in (*servers, run):
            process.terminate()
            process.wait(timeout=PATIENCE)


def opened(browser: Any, home: Path, port: int) -> Any:
    """A page at a server, let in by its token."""
    token = wait(lambda: json.loads((home / "dashboard" / f"{port}.json").read_text())["token"])
    page = browser.new_context(viewport=WIDE, color_scheme="dark").new_page()
    page.set_default_timeout(1000 * PATIENCE)
    page.goto(f"http://127.0.0.1:{port}/?token={token}")
    return page


def shoot_first_screen(page: Any, to: Path) -> None:
    """A folder without runs."""
    page.get_by_text("over the reference lap").wait_for()
    page.wait_for_timeout(4_000)
    page.screenshot(path=to / "dashboard_first.png")


def shoot_run(page: Any, to: Path, seconds: float) -> None:
    """The run at a desk and on a phone."""
    page.locator("td.name a").first.click()
    page.wait_for_function("() => window.paddock.state.snapshot && window.paddock.state.frames > 10")
    page.wait_for_timeout(1000 * seconds)
    page.get_by_role("link", name="Race it").first.wait_for(timeout=1000 * LONGEST)  # a lap was evaluated
    page.screenshot(path=to / "dashboard.png")
    page.set_viewport_size(PHONE)
    page.wait_for_timeout(1_500)
    page.screenshot(path=to / "dashboard_phone.png")
    page.set_viewport_size(WIDE)


def shoot_drive(page: Any, address: str, to: Path) -> None:
    """A race against the classical driver; the agent that ships has the wheel."""
    page.goto(f"{address}#/drive?opponent=agent/gt&track=meadow&mode=ai")
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url("**/#/drive/*")
    page.wait_for_function("() => window.paddock.state.car?.(0)?.lapTime > 31")
    page.screenshot(path=to / "dashboard_drive.png")


def draw_view_from_the_car(large: Path, file: Path) -> None:
    """Twice as large as it is kept, which smoothes the edges."""
    from PIL import Image

    command = [sys.executable, str(VIEW_FROM_THE_CAR), "--size", "2560x1440", "--seconds", "3", "--begin", "20"]
    subprocess.run([*command, "--picture", str(large)], check=True, stdout=subprocess.DEVNULL)
    Image.open(large).resize((1280, 720), Image.Resampling.LANCZOS).save(file, optimize=True)


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
