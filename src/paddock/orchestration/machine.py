"""What this machine has for Paddock: extras, a compiler, threads, disk, a browser, a GPU."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

from paddock.core.extras import EXTRAS
from paddock.core.findings import Finding
from paddock.core.paths import paddock_home
from paddock.core.system import available_cores

LEAST_DISK = 2 * 2**30  # bytes
FEW_THREADS = 2
NO_DISK, NO_HOME = 10, 11
# extra: (a module that it brings, what it is for)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "firefox", "microsoft-edge")
COMPILERS = ("c++", "g++", "clang++", "cl")


def examine_machine(runs: Path) -> list[Finding]:
    """What was found, most important first. `runs` is where runs are written."""
    return [_python(), _disk(runs), _home(), _threads(), _gpu(), _compiler(), _browser(), *_extras()]


def _python() -> Finding:
    return Finding("python", "ok", f"Python is {'.'.join(str(part) for part in sys.version_info[:3])}.")


def _disk(runs: Path) -> Finding:
    place = next(folder for folder in (runs.absolute(), *runs.absolute().parents) if folder.exists())
    free = shutil.disk_usage(place).free
    sentence = f"{free / 2**30:.1f} GB are free where runs are written."
    if free < LEAST_DISK:
        return Finding("disk", "fault", sentence, "Free some, `paddock cleanup`, or choose another runs_dir.", NO_DISK)
    return Finding("disk", "ok", sentence)


def _home() -> Finding:
    home = paddock_home()
    place = next(folder for folder in (home.absolute(), *home.absolute().parents) if folder.exists())
    if os.access(place, os.W_OK):
        return Finding("home", "ok", "Paddock's own folder can be written to.")
    return Finding(
        "home", "fault", f"'{home}' cannot be written to.", "Set PADDOCK_HOME to a folder of yours.", NO_HOME
    )


def _threads() -> Finding:
    count = available_cores()
    if count < FEW_THREADS:
        fix = "A game and a learner need a core each; use another machine for the trainer: docs/distributed.md."
        return Finding("threads", "note", f"{count} thread can run at a time.", fix)
    return Finding("threads", "ok", f"{count} threads can run at a time.")


def _gpu() -> Finding:
    import torch

    if torch.cuda.is_available():
        return Finding("gpu", "ok", f"torch can use {torch.cuda.get_device_name(0)}: device=cuda.")
    return Finding("gpu", "note", "torch finds no GPU; everything runs on the CPU.", "Only large networks need one.")


def _compiler() -> Finding:
    if any(shutil.which(name) for name in COMPILERS):
        return Finding("compiler", "ok", "A C++ compiler is there, for workflow.compile=on.")
    fix = "Install one, such as g++, only if you want workflow.compile=on."
    return Finding("compiler", "note", "There is no C++ compiler.", fix)


def _browser() -> Finding:
    if sys.platform in ("win32", "darwin") or any(shutil.which(name) for name in BROWSERS):
        return Finding("browser", "ok", "A browser is there, for `paddock dashboard`.")
    fix = "Open the dashboard's page on another machine: docs/dashboard.md."
    return Finding("browser", "note", "There is no browser on this machine.", fix)


def _extras() -> list[Finding]:
    found = []
    for extra, (module, purpose) in EXTRAS.items():
        if importlib.util.find_spec(module) is not None:
            found.append(Finding(f"extra {extra}", "ok", f"Installed, for {purpose}."))
        else:
            fix = f"pip install 'paddock[{extra}]'"
            found.append(Finding(f"extra {extra}", "note", f"Not installed; it is for {purpose}.", fix))
    return found
