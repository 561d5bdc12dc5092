"""The pit wall as a person meets it: a server process that can be killed, and pages in a real Chromium."""

import contextlib
import json
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from viewer import token_of

# Small enough to start in a moment, long enough to be there until a test ends.
RACING = [
    "environment.track=oval", "environment.num_envs=24", "workflow.rollout_steps=480", "workflow.minibatch_size=240",
    "training.max_seconds=300", "training.total_steps=null", "evaluation.episodes=1", "logging.every_steps=2000",
    "logging.tensorboard=false",
]  # fmt: skip
PATIENCE = 100  # s: a machine that is busy with other tests is slow, not wrong
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
WEBGL_FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
AWAY = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE", "WebSocket connection to")


ACCESSIBILITY = Path(__file__).with_name("accessibility.js")
AXE = Path(__file__).parents[1] / "vendor" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
RUN_AXE = """async (rules) => (await axe.run(document, { runOnly: rules })).violations.flatMap((rule) => rule.nodes.map(
  (node) => `${rule.id}: ${node.target.join(' ')} (${node.any.concat(node.all)[0]?.message ?? rule.help})`))"""


class Server:
    """`paddock dashboard` in a folder of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.options = folder, options
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}/"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "paddock", "dashboard", "--no-browser", "--port", str(self.port)]
        command += self.options
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        give_up = time.monotonic() + PATIENCE
        while True:
            try:
                self.ask("api/health")
                return
            except OSError:
                assert self.process.poll() is None, (self.folder / "server.log").read_text()
                assert time.monotonic() < give_up, "the server does not answer"
                time.sleep(0.1)

    def ask(self, path: str):
        headers = {"Authorization": f"Bearer {token_of(self.port)}"}
        with urllib.request.urlopen(urllib.request.Request(self.address + path, headers=headers), timeout=20) as answer:
            return json.load(answer)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End the server, and every process that was started through it: all work in this folder."""
        self.kill()
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if Path(process.cwd()).is_relative_to(self.folder):
                    process.kill()


def with_token(address: str) -> str:
    """An address as its server prints it for the owner."""
    parts = urlsplit(address)
    return parts._replace(query=f"token={token_of(parts.port)}").geturl()


class Pages:
    """A browser. Every page notes what its console complains of and which addresses it asks for."""

    def __init__(self, playwright, program: str, flags: list[str] = FLAGS) -> None:
        self.browser = playwright.chromium.launch(executable_path=program, args=flags)
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.refusals: list[str] = []

    def open(self, address: str, *, width: int = 1280, height: int = 800, **options):
        """A window at an address of a server; its owner has the token."""
        return self.open_printed(with_token(address), width=width, height=height, **options)

    def open_printed(self, address: str, *, width: int = 1280, height: int = 800, **options):
        """A window at an address as it is printed, or at the file that leads there."""
        page = self.browser.new_context(viewport={"width": width, "height": height}, **options).new_page()
        page.on("console", lambda said: said.type in ("error", "warning") and self.problems.append(said.text))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("response", lambda got: got.status >= 400 and self.refusals.append(f"{got.status} {got.url}"))
        page.on("websocket", lambda opened: self.requests.append(opened.url))
        page.set_default_timeout(1000 * PATIENCE)
        page.goto(address)
        page.wait_for_url(lambda url: url.startswith("http") and "token=" not in url)
        return page

    def assert_quiet(self, address: str, *, away: bool = False, refused: int = 0) -> None:
        """No complaint, and nobody else was asked. `away`: the server was; `refused`: so many answers of 400 up."""
        problems = [text for text in self.problems if not (away and any(known in text for known in AWAY))]
        answers = [text for text in problems if "the server responded with a status of 4" in text]
        assert (len(answers), [text for text in problems if text not in answers]) == (refused, []), self.refusals
        place = address.partition("//")[2]
        outside = [
            url
            for url in self.requests
            if not url.partition("//")[2].startswith(place) and url[:5] not in ("data:", "blob:")
        ]
        assert outside == []


def seen(page, expression: str, **options):
    """Wait until an expression over `s`, what the page knows (`window.paddock.state`), is true; gives its value."""
    return page.wait_for_function(
        f"() => {{ const s = window.paddock.state; return {expression}; }}", **options
    ).json_value()


def start_run(page, *, experiment: str = "racing", overrides: list[str] | None = None) -> str:
    """Start a run by the page's own form; gives its id."""
    page.get_by_role("link", name="Start", exact=True).click()
    page.locator(f"input[name=experiment][value={experiment}]").check(force=True)
    page.get_by_label("Overrides").fill("\n".join(RACING if overrides is None else overrides))
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url("**/#/run/*")
    return page.url.rpartition("/")[2]


def assert_accessible(page) -> None:
    """Every control has a name, and text has a contrast of at least 4.5:1."""
    page.emulate_media(reduced_motion="reduce")  # colours at rest: a new event glows for a moment
    found = page.evaluate(ACCESSIBILITY.read_text())
    page.emulate_media(reduced_motion="no-preference")
    assert found == []


def violations(page) -> list[str]:
    """What axe-core complains of on the page as it is."""
    if not page.evaluate("Boolean(window.axe)"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    return page.evaluate(RUN_AXE, RULES)


def violations_of_both_themes(page) -> list[str]:
    """What axe-core complains of in the dark and in the light theme; the page follows the system."""
    found = []
    page.emulate_media(reduced_motion="reduce")
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(300)  # colours change smoothly
        found += [f"{scheme}: {text}" for text in violations(page)]
    page.emulate_media(reduced_motion="no-preference")
    return found
