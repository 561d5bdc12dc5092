"""A real headless Chromium, driven over the pipe of its debugging protocol: what a page shows, says and asks for."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str:
    """The browser's program; without one the test is skipped, in CI (PADDOCK_REQUIRE_BROWSER=1) it fails.

    PADDOCK_NO_BROWSER=1: as on a machine without one, for CI to see that tests are skipped cleanly there.
    """
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None or os.environ.get("PADDOCK_NO_BROWSER"):
        message = "no Chromium on this machine; install one, for example: apt-get install chromium"
        (pytest.fail if os.environ.get("PADDOCK_REQUIRE_BROWSER") else pytest.skip)(message)
    return found


class Browser:
    """One page. `problems`: errors and warnings of its console; `requests`: addresses that it asked for."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._number, self._rest, self._session, self._loaded = 0, b"", None, False
        program = chromium()  # It may skip the test: nothing that has to be cleaned up is open before it.
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
                 f"--user-data-dir={self._profile.name}", "--no-first-run",
                 "--disable-background-networking"]  # fmt: skip
        shell = f"exec {program} {' '.join(flags)} 3<&{to_browser} 4>&{from_browser}"
        self._process = subprocess.Popen(
            ["bash", "-c", shell],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def open(self, file: Path, *, width: int = 1240, height: int = 900) -> None:
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self._loaded = False
        self.ask("Page.navigate", url=file.resolve().as_uri())
        give_up = time.monotonic() + 30
        while not self._loaded:
            assert time.monotonic() < give_up, "the page did not load"
            self._hear(self._receive())

    def run(self, script: str):
        """The value of an expression in the page."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def ask(self, method: str, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self._hear(answer)

    def close(self) -> None:
        self._session = None
        os.write(self._write, json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
        self._process.wait(timeout=20)
        os.close(self._write)
        os.close(self._read)
        self._profile.cleanup()

    def _receive(self):
        while b"\0" not in self._rest:
            chunk = os.read(self._read, 1 << 20)
            assert chunk, "the browser is gone"
            self._rest += chunk
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _hear(self, message) -> None:
        values = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Runtime.exceptionThrown":
                self.problems.append(str(values["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if values["type"] in ("error", "warning", "assert"):
                self.problems.append(str(values["args"]))
            case "Log.entryAdded" if values["entry"]["level"] in ("error", "warning"):
                self.problems.append(str(values["entry"]))
            case "Network.requestWillBeSent":
                self.requests.append(values["request"]["url"])
