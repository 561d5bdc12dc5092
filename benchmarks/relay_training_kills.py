"""Exactly once, for longer: trainer, relay and workers as real processes, killed at random instants, then counted.

    python benchmarks/relay_training_kills.py [--kills 20] [--seconds 60] [--rounds 1] [--workers 2] [--seed 1]

In every round all processes are started, killed with SIGKILL and started again so many times within so many seconds,
and stopped. Then the trainer's buffer may hold no transition twice, and no process may have a hole in its steps.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from relay_training import Cluster, check_counts, kill_at_random, transitions_in_buffer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for seed in range(options.seed, options.seed + options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            cluster = Cluster(Path(folder) / "all", options.workers)
            try:
                cluster.start_relay()
                cluster.start_others()
                cluster.wait_until_learning(180)
                killed = kill_at_random(cluster, options.kills, options.seconds, seed)
                cluster.wait_until_learning(180)
                cluster.stop()
                run = cluster.run_folder()
                assert run is not None
                counts = check_counts(transitions_in_buffer(run), cluster.folder / "lives")
            finally:
                cluster.close()
        print(f"seed {seed}: killed {dict(Counter(killed))}; {counts}", flush=True)


if __name__ == "__main__":
    main()
