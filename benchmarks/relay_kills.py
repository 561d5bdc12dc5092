"""SIGKILL of workers, trainer and relay at random instants: every chunk arrives once, and how long recovery takes.

python benchmarks/relay_kills.py [--minutes 10] [--workers 2] [--seed 1] [--folder FOLDER]

Real processes over mutual TLS on the loopback (`tests/distributed/killed_processes.py`). After each kill the process
is started again; recovered is when new chunks of every worker are in the buffer, counted from the start of the process,
its imports included. In the end the buffer has to hold what workers made: once, in order.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(TESTS))
sys.path.insert(0, str(TESTS / "distributed"))

from killed_processes import Campaign  # noqa: E402 - found there

SETTLE_SECONDS = 0.3  # for what was on its way when a process died


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="an empty one; by default a temporary one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        run(options.folder or Path(temporary), options.minutes, options.workers, options.seed)


def run(folder: Path, minutes: float, workers: int, seed: int) -> None:
    """Kill until the time is over, then compare."""
    chance = random.Random(seed)
    campaign = Campaign(folder, workers=workers)
    recoveries: dict[str, list[float]] = {}
    try:
        campaign.wait_for_progress([0] * workers)
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end:
            time.sleep(chance.uniform(0.2, 1.5))
            name = chance.choice(campaign.names)
            campaign.kill(name)
            time.sleep(SETTLE_SECONDS)
            before = campaign.counts()
            campaign.start(name)
            recoveries.setdefault(name.partition("-")[0], []).append(campaign.wait_for_progress(before))
        chunks = campaign.finish()
    finally:
        campaign.close()
    print(table(recoveries))
    print(f"\n{chunks:,} chunks of {workers} workers are in the buffer, each once and in order.")


def table(recoveries: dict[str, list[float]]) -> str:
    rows = ["| killed | times | recovered after, median | longest |", "|---|---:|---:|---:|"]
    for name, seconds in sorted(recoveries.items()):
        median, longest = statistics.median(seconds), max(seconds)
        rows.append(f"| {name} | {len(seconds)} | {median:.2f} s | {longest:.2f} s |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
