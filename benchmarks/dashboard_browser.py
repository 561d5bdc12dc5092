"""The pit wall as a person has it: how soon the page is there, and how soon a key is seen to have moved the car.

    python benchmarks/dashboard_browser.py [--times 30] [--chromium /usr/bin/chromium]

One `paddock dashboard` and a headless Chromium, both processes of their own. A page counts as there when its heading
is drawn (its own clock, from the start of the navigation, cache empty). A key counts as seen in the first frame that
is drawn from a snapshot in which the car's pedal follows it (the browser's clock, from the key event).
"""

from __future__ import annotations

import argparse
import socket
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import Browser, Page, sync_playwright

from dashboard import owner_headers, start, wait_for

ON_THE_GRID = "paddock.state.snapshot && paddock.state.scene && paddock.state.car(0).state & 4"
# What a frame shows was drawn in the animation frame before: its time is that of the frame after.
SEEN = """wanted => new Promise((resolve) => {
  let pressed = null;
  const press = (event) => { pressed ??= event.timeStamp; };
  addEventListener('keydown', press, { once: true });
  const look = (now) => {
    const pedal = paddock.state.car(0)?.throttle ?? 0;
    if (pressed !== null && pedal * wanted > 0) requestAnimationFrame((drawn) => resolve(drawn - pressed));
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
  window.isLooking = true;
})"""


def opening(browser: Browser, address: str, cookie: Any) -> float:
    """ms until the heading is drawn in a browser that has the token, but nothing of the page."""
    context = browser.new_context()
    context.add_cookies([cookie])
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("main h1")
    found = page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    context.close()
    return float(found)


def reaction(page: Page, key: str, wanted: int) -> float:
    """ms from a key to the frame that shows what it did."""
    page.evaluate(f"window.found = ({SEEN})({wanted}); null")
    page.keyboard.down(key)
    delay = page.evaluate("window.found")
    page.keyboard.up(key)
    time.sleep(0.3)
    return float(delay)


def told(name: str, times: list[float]) -> None:
    ordered = sorted(times)
    print(f"{name}: median {statistics.median(times):.0f} ms, quickest {ordered[0]:.0f}, slowest {ordered[-1]:.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=30)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    given = parser.parse_args()
    print(f"load of the machine before: {psutil.getloadavg()[0]:.1f} on {psutil.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = start(folder, "dashboard", "--no-browser", "--port", str(port))
        browser = playwright.chromium.launch(executable_path=given.chromium)
        try:
            wait_for(lambda: b"Ctrl-C" in (folder / "dashboard.log").read_bytes())
            address = f"http://127.0.0.1:{port}/"
            token = owner_headers(port)["Authorization"].removeprefix("Bearer ")
            cookie = {"name": f"paddock_token_{port}", "value": token, "url": address}
            told("the page is there", [opening(browser, address, cookie) for _ in range(given.times)])
            page = browser.new_page()
            page.context.add_cookies([cookie])
            page.goto(f"{address}#/drive?track=oval&opponent=")
            page.get_by_role("button", name="Start", exact=True).click()
            wait_for(lambda: page.evaluate(ON_THE_GRID))
            keys = [("ArrowUp", 1), ("ArrowDown", -1)]
            told("a key is seen", [reaction(page, *keys[turn % 2]) for turn in range(given.times)])
        finally:
            browser.close()
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
