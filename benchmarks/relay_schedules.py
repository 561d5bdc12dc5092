"""Exactly-once delivery under thousands of schedules of faults: network, disks and time are simulated from a seed.

python benchmarks/relay_schedules.py [--schedules 10000] [--first 0] [--processes 2]
python benchmarks/relay_schedules.py --seed 4711      replays one schedule and prints what happens in it

The machines are those of the real processes (`paddock.distributed`), the simulator is
`tests/distributed/relay_simulator.py`. The command ends with 1 and the seed of each schedule that broke an invariant.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "distributed"))

from relay_simulator import Violation, World, run_schedule

BLOCK = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, help="replay this one and print its events")
    options = parser.parse_args()
    if options.seed is not None:
        replay(options.seed)
        return
    started = time.perf_counter()
    counts, violations = run_all(options.first, options.schedules, options.processes)
    print(table(options.schedules, time.perf_counter() - started, counts))
    for violation in violations:
        seed = violation.split()[1].rstrip(",")
        print(f"{violation}\n  replay: python benchmarks/relay_schedules.py --seed {seed}")
    sys.exit(1 if violations else 0)


def run_all(first: int, schedules: int, processes: int) -> tuple[Counter[str], list[str]]:
    """All schedules in blocks of seeds over some processes."""
    blocks = [(start, min(start + BLOCK, first + schedules)) for start in range(first, first + schedules, BLOCK)]
    counts: Counter[str] = Counter()
    violations: list[str] = []
    with get_context("spawn").Pool(processes) as pool:
        for block_counts, block_violations in pool.imap_unordered(run_block, blocks):
            counts += block_counts
            violations += block_violations
            if len(violations) > 20:
                break
    return counts, violations


def run_block(block: tuple[int, int]) -> tuple[Counter[str], list[str]]:
    counts: Counter[str] = Counter()
    violations = []
    used = time.process_time()

    def note(text: str) -> None:
        counts.update(fault_of(text))

    for seed in range(*block):
        try:
            counts.update(count(run_schedule(seed, note=note)))
        except Violation as violation:
            violations.append(str(violation))
    counts["milliseconds of processor"] = round(1e3 * (time.process_time() - used))
    return counts, violations


def count(world: World) -> Counter[str]:
    chunks = sum(len(worker.durable) for worker in world.workers)
    return Counter({"chunks delivered once": chunks, "versions of weights": len(world.trainer.published)})


def fault_of(note: str) -> list[str]:
    """The kind of a fault, for the table."""
    kinds = {
        "is killed": "processes killed", "the relay dies": "relays killed", "loses power": "power cuts",
        "dies in a disk operation": "deaths in a disk operation", "is cut off": "partitions",
        "breaks": "connections broken", "network drops": "messages dropped", "is full": "disks full",
    }  # fmt: skip
    return [kind for words, kind in kinds.items() if words in note]


def replay(seed: int) -> None:
    try:
        run_schedule(seed, note=print)
    except Violation as violation:
        print(violation)
        sys.exit(1)
    print(f"seed {seed}: every invariant holds")


def table(schedules: int, seconds: float, counts: Counter[str]) -> str:
    rows = [("schedules", schedules), ("seconds", round(seconds)), *sorted(counts.items())]
    return "\n".join(["| what | number |", "|---|---:|", *(f"| {name} | {number:,} |" for name, number in rows)])


if __name__ == "__main__":
    main()
