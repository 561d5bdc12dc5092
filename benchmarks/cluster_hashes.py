"""Whether a run ends with the same parameters wherever its environments are: local, and on Ray with 1, 2 and 4 workers.

    python benchmarks/cluster_hashes.py                       # the table of docs/cluster.md
    python benchmarks/cluster_hashes.py --only ppo_cartpole

Prints one line a run: the first 16 digits of a SHA-256 over every parameter, normaliser and optimizer's moment.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
from pathlib import Path

from rich.console import Console

from paddock.distributed.ray.cluster import Cluster
from paddock.orchestration.launch import Request, new_run, resolve

RUNS = {"ppo_cartpole": 20_000, "racing": 200_000}
QUIET = ["logging.terminal=false", "logging.tensorboard=false", "training.phases.train.workflow_hooks.evaluate=null"]


def digest(orchestrator) -> str:
    """Of everything that was learned."""
    found, context = hashlib.sha256(), orchestrator.context
    parts = {**context.components, **context.optimizers}
    for name in sorted(parts):
        _add(found, parts[name].state_dict())
    return found.hexdigest()[:16]


def _add(found, node) -> None:
    if isinstance(node, dict):
        for key in sorted(node, key=str):
            found.update(str(key).encode())
            _add(found, node[key])
    elif hasattr(node, "detach"):
        found.update(node.detach().cpu().numpy().tobytes())
    else:
        found.update(repr(node).encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=RUNS)
    arguments = parser.parse_args()
    cluster = Cluster(None, cpus=4)
    with tempfile.TemporaryDirectory() as folder:
        for experiment, steps in RUNS.items():
            if arguments.only not in (None, experiment):
                continue
            for workers in (0, 1, 2, 4):
                spread = ["experience=ray", f"experience.workers={workers}"] if workers else []
                options = [*QUIET, f"runs_dir={Path(folder)}", f"training.total_steps={steps}", *spread]
                config, _ = resolve(Request(experiment, overrides=options))
                began = time.perf_counter()
                with new_run(config, Console(quiet=True)) as orchestrator:
                    orchestrator.run()
                    seconds = time.perf_counter() - began
                    where = f"ray x{workers}" if workers else "local"
                    taken = orchestrator.counters.agent_steps
                    print(
                        f"{experiment:14s} {where:8s} {taken:>9,} steps {seconds:7.1f} s  {digest(orchestrator)}",
                        flush=True,
                    )
    cluster.close()


if __name__ == "__main__":
    main()
