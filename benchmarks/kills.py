"""What is left of a run that is killed again and again: SIGKILL at random instants, resume, and compare with a run that
nobody interrupted.

python benchmarks/kills.py [--algorithms ppo,sac,dqn,dreamer,offline] [--kills 1000] [--seed 1] [--folder FOLDER]

One process imports everything once and forks for each start; the child is the real command line in a session of its
own, and is really killed. After every kill each checkpoint, and the one that `checkpoints/latest` points to, has to be
as it was written, byte by byte. A run that was killed `KILLS_PER_RUN` times is let finish and compared with one
that was left alone:

- parameters: `policy/latest` and `policy/best`, file by file, byte by byte;
- checkpoint: the newest one; every array and number of its state (networks, optimizers, normalisers, targets,
  schedules, environments, random numbers) and every file of its buffers, bit by bit. Left out are `seconds`, `metrics`
  (means under way, in which clocks take part) and `metrics_position`;
- metrics: `metrics.jsonl`, row by row, without `seconds`, `collect/steps_per_second` and `system/*`.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium  # noqa: F401 - imported once, before anything is forked
import numpy as np
import torch

import paddock.orchestration.launch
from paddock.buffers.offline import OfflineBuffer  # noqa: F401
from paddock.buffers.prioritized import PrioritizedBuffer  # noqa: F401
from paddock.buffers.recordings import RecordingBuffer, RecordingConfig
from paddock.buffers.rollout import RolloutBuffer  # noqa: F401
from paddock.buffers.sequence import SequenceBuffer  # noqa: F401
from paddock.cli.main import main as command_line
from paddock.cli.train import train as _train  # noqa: F401
from paddock.core.errors import PaddockError
from paddock.environments.gym import GymConfig, make
from paddock.environments.spaces import spec_of
from paddock.experiments.run import RunFolder
from paddock.orchestration.checkpoint import CheckpointConfig, CheckpointStore, read_checkpoint
from paddock.rollout.actor import RandomActor, RandomActorConfig
from paddock.rollout.collector import Collector
from paddock.workflows.dqn import DQN  # noqa: F401
from paddock.workflows.dreamer import Dreamer  # noqa: F401
from paddock.workflows.ppo import PPO  # noqa: F401
from paddock.workflows.sac import SAC  # noqa: F401

KILLS_PER_RUN = 25
PATIENCE = 600.0  # s for one start, on a busy machine
CLOCKS = ("seconds", "metrics", "metrics_position")
AIMS = ("anywhere", "training", "saving", "removing")  # what a kill is aimed at, drawn anew each time
FOUND = (
    "before the folder",
    "before the first checkpoint",
    "while saving",
    "while removing",
    "else",
)  # and what it hit

COMMON = ["threads=1", "logging.tensorboard=false", "evaluation.episodes=2", "checkpoint.every_seconds=null"]
REPLAY = ["buffers.replay.segment_steps=128", "buffers.replay.capacity=600", "buffers.replay.batch_size=32",
          "training.phases.seed.duration_steps=100"]  # fmt: skip
EVALUATED = "training.phases.joint.workflow_hooks.evaluate.every_steps={}"
ALGORITHMS = {
    "ppo": ["ppo_cartpole", "environment.num_envs=4", "workflow.rollout_steps=256", "workflow.epochs=4",
            "workflow.minibatch_size=64", "components.observation_normalizer.enabled=true", "logging.every_steps=512",
            "checkpoint.every_steps=256", "training.total_steps=12_288"],
    "sac": ["sac_pendulum", *REPLAY, "components.policy.network.hidden=[16]", "components.critics.hidden=[16]",
            "components.observation_normalizer.enabled=true", EVALUATED.format(300), "logging.every_steps=50",
            "checkpoint.every_steps=40", "training.total_steps=1_200"],
    "dqn": ["dqn_cartpole", *REPLAY, "components.action_values.network.hidden=[16]", "workflow.epsilon.steps=1_000",
            EVALUATED.format(400), "logging.every_steps=60", "checkpoint.every_steps=60", "training.total_steps=2_000"],
    "dreamer": ["dreamer_cartpole", "buffers.replay.capacity=600", "buffers.replay.batch_size=4",
                "buffers.replay.length=9", "workflow.horizon=4", "workflow.imagination_starts=16",
                EVALUATED.format(100),
                "components.world_model.rssm.deter=16", "components.world_model.rssm.hidden=16",
                "training.phases.seed.duration_steps=60", "logging.every_steps=20", "checkpoint.every_steps=12",
                "training.total_steps=260"],
    "offline": ["sac_pendulum", "components.policy.network.hidden=[16]", "components.critics.hidden=[16]",
                "training.total_steps=null", "checkpoint.every_seconds=0.1",
                "training.phases=[{name: study, type: offline, buffer: dataset, duration_updates: 1_500,"
                " workflow_hooks: [update]}]",
                "+buffers.dataset={_target_: paddock.buffers.offline.OfflineBuffer, sources: [../recording],"
                " batch_size: 32}"],
}  # fmt: skip


@dataclass
class Result:
    """What came of an algorithm's campaign."""

    runs: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    dangling: int = 0
    unreadable: int = 0
    same: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


def main() -> None:
    given = arguments()
    folder = Path(given.folder or tempfile.mkdtemp(prefix="kills-")).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    gc.freeze()  # What was imported is never copied into the children for the collector's sake.
    results: dict[str, Result] = {}
    for number, name in enumerate(given.algorithms):
        share = given.kills // len(given.algorithms) + (number < given.kills % len(given.algorithms))
        results[name] = campaign(name, folder / name, share, random.Random(f"{given.seed} {name}"))
        print(table(results), flush=True)
    has_failed = any(result.dangling or result.unreadable for result in results.values())
    has_failed |= any(set(result.same.values()) - {result.runs} for result in results.values())
    if not has_failed and given.folder is None:
        shutil.rmtree(folder)
    sys.exit(int(has_failed))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--algorithms", type=lambda text: text.split(","), default=list(ALGORITHMS))
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", help="Where runs go; they are kept then, and also where something differed.")
    given = parser.parse_args()
    if unknown := set(given.algorithms) - set(ALGORITHMS):
        parser.error(f"unknown algorithm {', '.join(sorted(unknown))}; there are: {', '.join(ALGORITHMS)}")
    return given


def campaign(name: str, folder: Path, kills: int, moments: random.Random) -> Result:
    """Runs of one algorithm until so many kills have hit; each is compared with the one that was left alone."""
    began, result = time.perf_counter(), Result()
    folder.mkdir(parents=True, exist_ok=True)
    if name == "offline" and not (folder / "recording").exists():
        wait(fork(lambda: record(folder / "recording"), folder))
    options = [*ALGORITHMS[name], *COMMON] if name != "offline" else [*COMMON, *ALGORITHMS[name]]
    command = ["train", *sorted(options, key=lambda text: "=" in text)]
    whole = folder / "whole"
    if not whole.exists():
        whole.mkdir()
        assert wait(start(command, whole)) == 0, (whole / "output.txt").read_text()
    expected = fingerprint(whole)
    training = the_run(whole).read_manifest()["seconds"]  # type: ignore[union-attr]
    while result.kills.total() < kills:
        broken = folder / f"broken-{result.runs + 1:03d}"
        shutil.rmtree(broken, ignore_errors=True)
        broken.mkdir()
        killed_run(command, broken, min(KILLS_PER_RUN, kills - result.kills.total()), training, moments, result)
        result.runs += 1
        found = fingerprint(broken)
        for part in expected:
            result.same[part] += found[part] == expected[part]
        is_same = found == expected
        print(f"{name}: run {result.runs}, {result.kills.total()} kills, {'identical' if is_same else 'DIFFERENT'}",
              file=sys.stderr, flush=True)  # fmt: skip
        if is_same:
            shutil.rmtree(broken)
    result.seconds = time.perf_counter() - began
    return result


def killed_run(
    command: list[str], folder: Path, kills: int, training: float, moments: random.Random, result: Result
) -> None:
    """One run that is killed so often, unless it ends before, and resumed each time."""
    done = 0
    while True:
        run, before = the_run(folder), leftovers(folder)
        process = start(["train", "--resume", run.name] if run else command, folder)
        aim = AIMS[moments.randrange(len(AIMS))]
        if done >= kills or not strike(process, folder, aim, training / KILLS_PER_RUN, moments):
            assert wait(process) == 0, (folder / "output.txt").read_text()[-2000:]
            return
        done += 1
        result.kills[what_was_hit(folder, before)] += 1
        look(folder, result)


def what_was_hit(folder: Path, before: set[str]) -> str:
    """What the run was doing when it died, by what it left behind."""
    run = the_run(folder)
    if run is None:
        return "before the folder"
    if any(name.startswith(".partial") for name in leftovers(folder) - before):
        return "while saving"
    if any(name.startswith(".removed") for name in leftovers(folder) - before):
        return "while removing"
    return "else" if any(run.checkpoints.glob("step-*")) else "before the first checkpoint"


def leftovers(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("runs/*/checkpoints/.*-*")}


def strike(process: int, folder: Path, aim: str, pace: float, moments: random.Random) -> bool:
    """Kill the process at a random instant; False if it ended by itself before."""
    events = size_of_events(folder)
    give_up = time.monotonic() + PATIENCE
    if aim == "anywhere":
        until: Callable[[], bool] = lambda: False  # noqa: E731
        delay = moments.random() * 4 * pace + moments.random()
    elif aim == "training":
        until, delay = lambda: size_of_events(folder) > events, moments.expovariate(1 / pace)
    else:
        pattern = ".partial-*" if aim == "saving" else ".removed-*"
        skipped = moments.randrange(4)  # not always the first one after the start
        until, delay = seen(folder, pattern, skipped), moments.random() * 0.004
    if aim == "anywhere":
        give_up = time.monotonic() + delay
        delay = 0.0
    while time.monotonic() < give_up:
        if has_ended(process):
            return False
        if until():
            break
        time.sleep(0.0002)
    time.sleep(delay)
    if has_ended(process):
        return False
    os.killpg(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def seen(folder: Path, pattern: str, skipped: int) -> Callable[[], bool]:
    """Whether a folder like this has come up once more than those to be skipped."""
    was_there, left = True, skipped  # What a kill left behind does not count.

    def look_again() -> bool:
        nonlocal was_there, left
        is_there = any(folder.glob(f"runs/*/checkpoints/{pattern}"))
        if is_there and not was_there:
            left -= 1
        was_there = is_there
        return left < 0

    return look_again


def look(folder: Path, result: Result) -> None:
    """`latest` has to be there as soon as there is a checkpoint, and every byte behind it as it was written."""
    run = the_run(folder)
    if run is None or not any(run.checkpoints.glob("step-*")):
        return
    latest = run.checkpoints / "latest"
    if not latest.exists() and not is_first_without_link(run):
        result.dangling += 1
        print(f"{latest} dangles", file=sys.stderr, flush=True)
        return
    try:
        for path in CheckpointStore(run.checkpoints, CheckpointConfig()).all():
            read_checkpoint(path)
    except PaddockError as error:
        result.unreadable += 1
        print(error, file=sys.stderr, flush=True)


def is_first_without_link(run: RunFolder) -> bool:
    """The very first checkpoint is renamed into place an instant before there is a `latest` at all."""
    return not (run.checkpoints / "latest").is_symlink() and len(list(run.checkpoints.glob("step-*"))) == 1


def the_run(folder: Path) -> RunFolder | None:
    """The run that the command made, if it got so far."""
    found = sorted((folder / "runs").glob("*/config.yaml"))
    return RunFolder(found[-1].parent) if found else None


def size_of_events(folder: Path) -> int:
    run = the_run(folder)
    return run.events_file.stat().st_size if run and run.events_file.exists() else 0


def fingerprint(folder: Path) -> dict[str, Any]:
    """Everything that has to be the same, by what it is; numbers as their bytes."""
    run = the_run(folder)
    assert run is not None
    assert run.read_manifest()["status"] == "finished"
    newest = CheckpointStore(run.checkpoints, CheckpointConfig()).load()
    assert newest is not None
    state = {name: part for name, part in newest.state.items() if name not in CLOCKS}
    policies = sorted(file for name in ("latest", "best") for file in (run.policy / name).glob("policy.*"))
    buffers = sorted(file for file in (newest.path / "buffers").rglob("*") if file.is_file())
    return {
        "parameters": [(str(file.relative_to(run.path)), file.read_bytes()) for file in policies],
        "checkpoint": [*leaves(state), *((str(file.relative_to(newest.path)), file.read_bytes()) for file in buffers)],
        "metrics": [json.dumps({key: row[key] for key in row if not is_clock(key)}) for row in run.read_metrics()],
    }


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number of a tree with its place, arrays as type, shape and bytes."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, f"{path}/{key}")
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from leaves(value, f"{path}/{index}")
    elif isinstance(tree, torch.Tensor | np.ndarray):
        array = tree.numpy() if isinstance(tree, torch.Tensor) else tree
        yield path, (str(tree.dtype), array.shape, array.tobytes())
    else:
        yield path, repr(tree)


def is_clock(name: str) -> bool:
    return name in ("seconds", "collect/steps_per_second") or name.startswith("system/")


def start(arguments: list[str], folder: Path) -> int:
    """`paddock ARGUMENTS` in a folder, as a child in a session of its own."""

    def run() -> None:
        sys.argv = ["paddock", *arguments]
        command_line()

    return fork(run, folder)


def fork(work: Callable[[], None], folder: Path) -> int:
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.setsid()
        os.chdir(folder)
        output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        work()
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def wait(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def has_ended(process: int) -> bool:
    """Without taking note of it: `wait` comes after."""
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def record(folder: Path) -> None:
    """A few random episodes, to learn from without an environment."""
    env = make(GymConfig(_target_="it", id="Pendulum-v1", num_envs=2, max_episode_steps=50), 2)
    spec = spec_of(env)
    buffer = RecordingBuffer(RecordingConfig(_target_="it", folder=str(folder), rows_per_file=200), spec, 2)
    torch.manual_seed(0)
    Collector(env, spec, seed=1).collect(RandomActor(RandomActorConfig(_target_="it"), {}, spec), buffer, 600)
    buffer.flush()


def table(results: dict[str, Result]) -> str:
    head = ["", "runs", "SIGKILLs", *FOUND, "`latest` dangling", "not whole", "parameters", "checkpoint", "metrics"]
    rows = [head, ["---", *["---:"] * (len(head) - 1)]]
    total = Result()
    for name, one in results.items():
        rows.append(row_of(name, one))
        total = Result(total.runs + one.runs, total.kills + one.kills, total.dangling + one.dangling,
                       total.unreadable + one.unreadable, total.same + one.same)  # fmt: skip
    rows.append(row_of("together", total))
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)


def row_of(name: str, one: Result) -> list[str]:
    same = [f"{one.same[part]}/{one.runs}" for part in ("parameters", "checkpoint", "metrics")]
    numbers = [one.runs, one.kills.total(), *(one.kills[place] for place in FOUND), one.dangling, one.unreadable]
    return [name, *map(str, numbers), *same]


if __name__ == "__main__":
    assert paddock.orchestration.launch
    main()
