"""What the experiment store costs: listing 2,000 runs, a report of 50 runs with a million points each, logging.

python benchmarks/store.py [list] [report] [logging]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import numpy as np
import yaml

from paddock.config.compose import compose
from paddock.experiments.run import RunFolder

ROUNDS = 5


def main() -> None:
    chosen = sys.argv[1:] or ["list", "report", "logging"]
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            {"list": measure_list, "report": measure_report, "logging": measure_logging}[name](Path(folder) / name)


def make_run(runs_dir: Path, number: int) -> RunFolder:
    """A run's folder with the configuration of a real experiment; not synced to disk, of which there are thousands."""
    name = f"run{number % 40}"
    run = RunFolder(runs_dir / f"{name}-20260101-{number:06d}")
    run.path.mkdir(parents=True)
    run.config_file.write_text(configuration().replace("name: unnamed", f"name: {name}"))
    minute, second = divmod(number, 60)
    created = f"2026-01-01T00:{minute:02d}:{second:02d}+00:00"
    manifest = {"id": f"{number:012x}", "status": "finished", "created": created, "seed": number,
                "agent_steps": 100_000, "seconds": 60.0, "config_hash": "x"}  # fmt: skip
    run.manifest_file.write_text(json.dumps(manifest))
    run.events_file.write_text(json.dumps({"time": created, "event": "finished"}) + "\n")
    return run


@cache
def configuration() -> str:
    return yaml.safe_dump(compose("ppo_cartpole").values, sort_keys=False)


def seconds_of(*command: str, cwd: Path) -> list[float]:
    found = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "paddock", *command], cwd=cwd, check=True, capture_output=True)
        found.append(time.perf_counter() - started)
    return found


def measure_list(folder: Path) -> None:
    random = np.random.default_rng(0)
    for number in range(2_000):
        run = make_run(folder / "runs", number)
        rows = [
            {"agent_steps": k * 1000, "seconds": k, **{f"train/m{m}": float(random.normal()) for m in range(15)},
             "eval/return": float(random.normal())}
            for k in range(1, 21)
        ]  # fmt: skip
        run.metrics_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "paddock", "list", "--reindex"], cwd=folder, check=True, capture_output=True)
    print(f"reindex of 2,000 runs: {time.perf_counter() - started:.1f} s")
    bare = seconds_of("--version", cwd=folder)
    listed = seconds_of("list", "--filter", "eval/return>0", "--sort", "eval/return", cwd=folder)
    start, whole = statistics.median(bare), statistics.median(listed)
    print(f"start-up {start:.3f} s; list of 2,000 runs {whole:.3f} s, {whole - start:.3f} s after start-up")


def measure_report(folder: Path) -> None:
    """Each run logs a million points: rows of one training metric, every hundredth with an evaluation. It is one log,
    linked fifty times: read from memory, not from the disk."""
    random = np.random.default_rng(0)
    steps = np.arange(1, 1_000_001)
    noise = random.normal(size=len(steps))
    lines = [
        f'{{"env_frames": {s}, "agent_steps": {s}, "updates": {s}, "imagined_steps": 0, "seconds": {s / 100:.3f}, '
        f'"phase": "train", "collect/return": {v:.17g}' + (f', "eval/return": {v:.17g}}}\n' if s % 100 == 0 else "}\n")
        for s, v in zip(steps.tolist(), noise.tolist(), strict=True)
    ]
    text = "".join(lines)
    log = folder / "log.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    log.write_text(text)
    for number in range(50):
        make_run(folder / "runs", number).metrics_file.hardlink_to(log)
    found = seconds_of("compare", "run*", cwd=folder)
    size = (folder / "reports" / "comparison.html").stat().st_size
    print(f"report of 50 runs x 1M points ({50 * len(text) / 1e9:.1f} GB of logs): {statistics.median(found):.1f} s "
          f"(of {ROUNDS}: {min(found):.1f} to {max(found):.1f}), page {size / 1e6:.1f} MB")  # fmt: skip


def measure_logging(folder: Path) -> None:
    """Seconds of the training loop that a logged point with 20 metrics takes, alerts included."""
    from paddock.control.requests import Control
    from paddock.orchestration.loggers import JsonLines, Row
    from paddock.orchestration.monitoring.alerts import AlertConfig, Alerts

    run = make_run(folder, 0)
    writer = JsonLines(run.metrics_file)
    rules = {"nan_loss": AlertConfig(when="not finite"), "memory": AlertConfig(when="system/memory_percent > 95")}
    alerts = Alerts(rules, "eval/return", run, Control())
    metrics = {f"train/metric_{k}": k / 7 for k in range(20)}
    counters = {"env_frames": 1, "agent_steps": 1, "updates": 1, "imagined_steps": 0}
    found = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(2_000):
            writer.log(Row(counters, "train", 1.0, metrics))
            alerts.check(metrics, metrics, 1)
        found.append((time.perf_counter() - started) / 2_000)
    cost = statistics.median(found)
    print(
        f"a logged point of 20 metrics: {1e6 * cost:.0f} µs; at 100 points/s {100 * 100 * cost:.2f} % of training time"
    )


if __name__ == "__main__":
    main()
