"""Whether a run can be reproduced: it is run again in a process of its own and compared point by point, bit by bit."""

from __future__ import annotations

import fnmatch
import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from paddock.config.migrate import migrate
from paddock.core.errors import InputError, PaddockError, did_you_mean
from paddock.core.reading import read_json
from paddock.core.trust import FILE, PACKAGE, check, dangers
from paddock.core.user_code import KeptCode, split_reference
from paddock.experiments.display import make_console, markup, number
from paddock.experiments.documents import Count, checked
from paddock.experiments.run import RunFolder, environment_info

CLOCKS = ("seconds", "*per_second", "*_seconds", "system/*")
"""Quantities that measure time or the machine: nobody expects them again."""
LOOK_EVERY = 0.5  # s between two looks at a replay under way


class _Seal(msgspec.Struct):
    agent_steps: Count


@dataclass(frozen=True)
class Divergence:
    """The first quantity that differs, at which logged point."""

    agent_steps: int
    quantity: str
    original: Any
    replayed: Any


@dataclass(frozen=True)
class Verdict:
    """points: logged points that were compared, the last at `agent_steps`. is_policy_equal: of the final policies, None
    where they are of different steps. differences: of code, versions and machine, as (name, then, now)."""

    run: str
    start: str
    points: int
    agent_steps: int
    divergence: Divergence | None
    is_policy_equal: bool | None
    differences: list[tuple[str, Any, Any]]
    notes: list[str]

    @property
    def is_identical(self) -> bool:
        return self.divergence is None and self.is_policy_equal is not False

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "is_identical": self.is_identical}


def verify(
    run: RunFolder,
    *,
    checkpoint: str | None = None,
    steps: int | None = None,
    trusts: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Verdict:
    """Run it again, from its seed or from a checkpoint, as far as it went or for `steps` agent steps.

    `progress(agent steps so far, agent steps in all)` is called now and then.
    """
    saved = migrate(run.read_config())
    check(run.path, saved, used=quiet(saved), trusts=trusts, with_links=True)
    original = run.read_metrics()
    if not original:
        raise InputError(f"run '{run.name}' has logged nothing; there is nothing to compare with.")
    start = _checkpoint(run, checkpoint) if checkpoint is not None else None
    begin = _steps_of(start) if start else 0
    end = min(original[-1]["agent_steps"], steps or original[-1]["agent_steps"])
    if begin >= end:
        raise InputError(
            f"checkpoint '{checkpoint}' stands at step {begin:,}; nothing up to step {end:,} is left to compare."
        )
    with tempfile.TemporaryDirectory() as folder:
        again = _replay(run, Path(folder), start, end, original, lambda done: progress(done, end), trusts=trusts)
        rows = again.read_metrics()
        divergence, points, compared = first_divergence(original, rows, after=begin, until=end)
        is_policy_equal = (
            _policies_equal(run, again) if divergence is None and end == original[-1]["agent_steps"] else None
        )
    if not points:
        raise PaddockError(f"the replay of '{run.name}' logged nothing up to step {end:,} that could be compared.")
    where = start.name if start else f"seed {run.read_manifest().get('seed')}"
    differences = [*_differences(run.read_manifest()), *_code_differences(run, saved)]
    return Verdict(run.name, where, points, compared, divergence, is_policy_equal, differences, _notes(run))


def quiet(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same learning without trackers, films, alerts, checkpoints by time, or an end by the clock."""
    quiet_logging = {"terminal": False, "tensorboard": False, "wandb": "off"}
    return {
        **values,
        "training": {**values["training"], "max_seconds": None},
        "logging": {**values["logging"], **quiet_logging},
        "evaluation": {**values["evaluation"], "video": False},
        "checkpoint": {"every_steps": None, "every_seconds": None, "keep_last": 1, "keep_best": 0},
        "monitoring": {"system_every_seconds": None, "alerts": {}},
    }


def first_divergence(
    original: Sequence[Mapping[str, Any]], replayed: Sequence[Mapping[str, Any]], *, after: int = 0, until: int
) -> tuple[Divergence | None, int, int]:
    """The first quantity that differs, how many points were equal or compared, and the steps of the last equal one."""
    points, steps = 0, after
    for mine, theirs in zip(original, replayed, strict=False):
        if mine["agent_steps"] <= after:
            continue
        if mine["agent_steps"] > until:
            break
        points += 1
        for name in [*mine, *(name for name in theirs if name not in mine)]:
            if _is_clock(name) or mine.get(name) == theirs.get(name):
                continue
            return Divergence(mine["agent_steps"], name, mine.get(name), theirs.get(name)), points, steps
        steps = mine["agent_steps"]
    return None, points, steps


def _replay(
    run: RunFolder,
    folder: Path,
    checkpoint: Path | None,
    end: int,
    original: Sequence[Mapping[str, Any]],
    progress: Callable[[int], None],
    *,
    trusts: bool,
) -> RunFolder:
    """Start the process and watch it; what has diverged need not go on."""
    command = [
        sys.executable,
        "-m",
        "paddock.orchestration.reproduce",
        str(run.path),
        str(folder),
        "--ends-after",
        str(end),
    ]
    command += ["--checkpoint", str(checkpoint)] if checkpoint else []
    command += ["--trust"] if trusts else []
    with (folder / "output.txt").open("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        has_diverged = False
        try:
            while process.poll() is None and not has_diverged:
                time.sleep(LOOK_EVERY)
                for again in folder.glob("replay-*/metrics.jsonl"):
                    rows = RunFolder(again.parent).read_metrics()
                    progress(rows[-1]["agent_steps"] if rows else 0)
                    begin = _steps_of(checkpoint) if checkpoint else 0
                    has_diverged = first_divergence(original, rows, after=begin, until=end)[0] is not None
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait()
        found = list(folder.glob("replay-*"))
        if (process.returncode != 0 and not has_diverged) or not found:
            output.seek(0)
            tail = output.read().strip().splitlines()[-3:]
            raise PaddockError(f"'{run.name}' could not be run again: {' '.join(tail)}")
    return RunFolder(found[0])


def _checkpoint(run: RunFolder, given: str) -> Path:
    """A checkpoint by name (`step-000000008192`, `latest`, `best`) or by its number of steps."""
    names = sorted(path.name for path in run.checkpoints.glob("*") if (path / "checkpoint.json").is_file())
    wanted = f"step-{int(given):012d}" if given.isdigit() else given
    if wanted not in names:
        listed = ", ".join(names) or "none"
        raise InputError(
            f"run '{run.name}' has no checkpoint '{given}'.{did_you_mean(wanted, names)} There are: {listed}."
        )
    return (run.checkpoints / wanted).resolve()


def _steps_of(checkpoint: Path) -> int:
    file = checkpoint / "checkpoint.json"
    return checked(file, read_json(file), _Seal)["agent_steps"]


def _is_clock(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in CLOCKS)


def _policies_equal(run: RunFolder, again: RunFolder) -> bool | None:
    files = [folder.policy / "latest" / "policy.safetensors" for folder in (run, again)]
    steps = [folder.read_manifest().get("agent_steps") for folder in (run, again)]
    if steps[0] != steps[1] or not all(file.is_file() for file in files):
        return None
    mine, theirs = (hashlib.sha256(file.read_bytes()).digest() for file in files)
    return mine == theirs


def _differences(manifest: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """In what code, versions and machine differ from those of the run."""
    now, found = environment_info(), []
    for part in ("git", "versions", "hardware"):
        then, today = manifest.get(part) or {}, now.get(part) or {}
        for name in dict.fromkeys([*then, *today]):
            if then.get(name) != today.get(name):
                found.append((f"{part} {name}", then.get(name), today.get(name)))
    return found


def _code_differences(run: RunFolder, saved: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Which files and packages of the user's own are not as they were, or were not kept."""
    code = KeptCode.of(run.path)
    found = [(f"code {name}", *code.versions_of(name)) for name in code.changed()]
    for danger in dangers(quiet(saved)):
        name = split_reference(danger.value)[0] if danger.kind == FILE else danger.package
        is_known = name in code.files or name in code.packages
        entry = (f"code {name}", None, "not kept with the run")
        if danger.kind in (FILE, PACKAGE) and not is_known and entry not in found:
            found.append(entry)
    return found


def _notes(run: RunFolder) -> list[str]:
    resumed = [event for event in run.read_events() if event["event"] == "resumed"]
    notes = [f"the run was resumed {len(resumed)} times"] if resumed else []
    code = KeptCode.of(run.path)
    notes += [
        f"'{name}' has changed since; the run's own copy was run" for name in code.changed() if code.has_copy(name)
    ]
    if (run.read_manifest().get("git") or {}).get("dirty"):
        notes.append("the run's code had uncommitted changes")
    return notes


def show_verdict(verdict: Verdict) -> None:
    """Print whether the run came out the same, and what is different around it."""
    console, divergence = make_console(), verdict.divergence
    reached = f"{verdict.points} logged points"
    if divergence is not None:
        console.print(
            f"[bold red]diverges at step {divergence.agent_steps:,}[/]: {markup(divergence.quantity)} was "
            f"{markup(repr(divergence.original))}, is now {markup(repr(divergence.replayed))}. "
            f"Identical up to step {verdict.agent_steps:,}.",
            soft_wrap=True,
        )
    elif verdict.is_policy_equal is False:
        console.print(f"[bold red]the final policies differ[/], though {reached} are identical.")
    else:
        policy = ", and the final policies bit by bit" if verdict.is_policy_equal else ""
        console.print(
            f"[bold green]identical to step {verdict.agent_steps:,}[/]: {reached} from {verdict.start}{policy}.",
            soft_wrap=True,
        )
    for name, then, now in verdict.differences:
        was, is_now = (markup(number(value) or "unknown") for value in (then, now))
        console.print(f"  differs: {markup(name)} was {was}, is now {is_now}")
    if not verdict.differences:
        console.print("  same code, versions and machine as the run.")
    for note in verdict.notes:
        console.print(f"  note: {note}.")
