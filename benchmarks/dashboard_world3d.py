"""How many frames a second the view from the car draws in a headless Chromium that has no graphics card.

`python benchmarks/dashboard_world3d.py --seconds 10`: the circuit `meadow`, the reference lap as the followed car and
15 more around it, 1280x720. `--picture FILE.png` keeps what was drawn last; `--mode cockpit`, `--theme light`.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import shutil
import threading
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import sync_playwright

import paddock
from paddock.racing.view import drawn_road
from paddock.sim.cars.car import load_car
from paddock.sim.reference.lap import reference_lap
from paddock.sim.tracks.sources import load_track

PACKAGE = Path(paddock.__file__).parent
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
PAGE = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">
<style>body{margin:0}canvas{display:block}</style>
<script type="module" src="/bench.js"></script>"""
SCRIPT = """
import { Circuit } from '/kit/circuit.js';
import { ghostPose, referenceGhost } from '/kit/ghosts.js';
import { PAINTS } from '/kit/car_art.js';
import { World3D } from '/world3d/world.js';
const scene = await (await fetch('/scene.json')).json(), query = new URLSearchParams(location.search);
document.documentElement.dataset.theme = query.get('theme');
const { startTheme } = await import('/kit/theme.js');
startTheme(document.createElement('button'));
const circuit = new Circuit(scene.track), ghost = referenceGhost(scene.reference), world = new World3D();
world.setScene(circuit, scene);
world.resize(innerWidth, innerHeight);
world.canvas.style.cssText = 'width:100vw;height:100vh';
document.body.append(world.canvas);
const begin = Number(query.get('begin')), car = (time) => {
  const lap = ghost.lap_time, clock = ((time % lap) + lap) % lap;
  const a = ghostPose(ghost, clock), b = ghostPose(ghost, (clock + 0.1) % lap);
  const speed = Math.hypot(b.x - a.x, b.y - a.y) / 0.1;
  return { ...a, speed, steer: 6 * Math.sin(b.heading - a.heading), throttle: 0.5 };
};
let last = null, clock = begin;
window.bench = world;
function turn(now) {
  const elapsed = last === null ? 0 : (now - last) / 1000;
  last = now;
  clock += Math.min(elapsed, 0.1);
  const cars = Array.from({ length: 16 }, (_, k) => car(clock + (k % 2 ? 0.4 : -0.35) * k));
  const ghosts = [{ kind: 'classical', pose: car(clock + 1.1) }], slip = () => Number(query.get('slip'));
  world.draw({ cars, followed: 0, paint: (k) => PAINTS[k % PAINTS.length], ghosts, slip,
    mode: query.get('mode'), closeness: 1, lit: 3 }, elapsed);
  requestAnimationFrame(turn);
}
requestAnimationFrame(turn);
"""


class Files(http.server.SimpleHTTPRequestHandler):
    """The page's modules, and the two documents of this benchmark."""

    def __init__(self, *given: Any, scene: bytes, **options: Any) -> None:
        self.documents = {"/": PAGE.encode(), "/bench.js": SCRIPT.encode(), "/scene.json": scene}
        super().__init__(*given, **options)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        kind = "text/html" if path == "/" else "application/json" if path.endswith("json") else "text/javascript"
        static, kit = PACKAGE / "dashboard" / "static", PACKAGE / "render" / "web"
        file = kit / path.removeprefix("/kit/") if path.startswith("/kit/") else static / path.lstrip("/")
        content = self.documents.get(path) or file.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *values: Any) -> None:
        """Quiet."""


def processor_seconds() -> dict[str, float]:
    """Of the browser's processes by their kind: what a frame costs, also where others share the machine."""
    found: dict[str, float] = {}
    for child in psutil.Process().children(recursive=True):
        kind = next((part[7:] for part in child.cmdline() if part.startswith("--type=")), "browser")
        times = child.cpu_times()
        found[kind] = found.get(kind, 0.0) + times.user + times.system
    return found


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Draw for a while; frames a second and which quality the page took."""
    track, car = load_track(options.track), load_car("gt")
    scene = json.dumps(drawn_road(track, "gt", car, reference_lap(track, "gt"))).encode()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, scene=scene))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    width, height = (int(part) for part in options.size.split("x"))
    program = next(found for name in NAMES if (found := shutil.which(name)))
    query = f"mode={options.mode}&theme={options.theme}&begin={options.begin}&slip={options.slip}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=options.theme)
        page = context.new_page()
        page.set_default_timeout(300_000)
        page.on("console", lambda said: print(said.type, said.text))
        page.on("pageerror", lambda error: print("error", error))
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/?{query}")
        page.wait_for_function("() => window.bench?.frames > 2")
        waiting = "new Promise((go) => setTimeout(go, {}))"
        page.evaluate(f"() => {waiting.format(int(500 * options.seconds))}")
        before = processor_seconds()
        found = page.evaluate(f"""async () => {{
          const before = bench.frames, from = performance.now();
          await {waiting.format(int(500 * options.seconds))};
          const seconds = (performance.now() - from) / 1000, info = bench.renderer.info.render;
          return {{ frames: bench.frames - before, frames_per_second: (bench.frames - before) / seconds,
            quality: bench.quality, graphics: bench.graphics,
            calls: info.calls, triangles: info.triangles, pixels: [bench.canvas.width, bench.canvas.height] }};
        }}""")
        spent = {kind: total - before.get(kind, 0.0) for kind, total in processor_seconds().items()}
        scale = 1000 / max(found["frames"], 1)
        found["processor_milliseconds_per_frame"] = {kind: round(scale * one, 1) for kind, one in spent.items()}
        if options.picture:
            page.screenshot(path=options.picture)
        browser.close()
    server.shutdown()
    return dict(found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--track", default="meadow")
    parser.add_argument("--size", default="1280x720")
    parser.add_argument("--mode", choices=("chase", "cockpit"), default="chase")
    parser.add_argument("--theme", choices=("dark", "light"), default="light")
    parser.add_argument("--begin", type=float, default=5.0, help="second of the lap")
    parser.add_argument("--slip", type=float, default=0.0, help="how much the cars slide, 0 to 1")
    parser.add_argument("--picture")
    print(json.dumps(measure(parser.parse_args()), indent=2))
