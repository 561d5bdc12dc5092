"""What a person is told: the resolved configuration, and how a run went and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml
from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from paddock.experiments.run import RunFolder
from paddock.orchestration.experiment import ExperimentConfig
from paddock.orchestration.orchestrator import Outcome


def config_with_origins(values: Mapping[str, Any], origins: Mapping[str, str]) -> str:
    """The configuration as YAML, with a comment on each line that says where the value was written."""
    lines = list(_lines(values, "", 0))
    width = min(max(len(text) for text, _ in lines), 72)
    return "\n".join(f"{text:<{width}}  # {origin}" if (origin := origins.get(key)) else text for text, key in lines)


def _lines(node: Any, prefix: str, depth: int) -> Any:
    """(text, dotted key) of each line; the key is empty where the line holds no value of its own."""
    pairs = node.items() if isinstance(node, Mapping) else enumerate(node)
    for key, value in pairs:
        path = f"{prefix}.{key}" if prefix else str(key)
        lead = "  " * depth + (f"{key}:" if isinstance(node, Mapping) else "-")
        if isinstance(value, Mapping | list) and value:
            yield lead, ""
            yield from _lines(value, path, depth + 1)
        else:
            scalar = yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("\n...\n").strip()
            yield f"{lead} {scalar}", path


def outcome_values(run: RunFolder, outcome: Outcome) -> dict[str, Any]:
    """A run's ending as plain values."""
    return {
        "run": str(run.path),
        "seed": run.read_manifest().get("seed"),
        "status": outcome.status,
        "agent_steps": outcome.counters.agent_steps,
        "updates": outcome.counters.updates,
        "seconds": round(outcome.seconds, 3),
        "best_score": outcome.best_score,
        "metrics": outcome.latest,
        "time_shares": outcome.time_shares,
    }


def print_outcome(console: Console, run: RunFolder, outcome: Outcome, config: ExperimentConfig) -> None:
    """What was learned, where it is, and what to type next."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column()
    for label, text in _findings(run, outcome, config.evaluation.metric):
        table.add_row(label, text)
    title = {"finished": "Training finished", "stopped": "Stopped, everything saved"}[outcome.status]
    console.print(Panel(table, title=title, expand=False, border_style="green"))
    console.print("Next:")
    for command, purpose in _next_commands(run, outcome):
        console.print(f"  [bold cyan]{command}[/]\n      {purpose}", highlight=False, soft_wrap=True)


def _findings(run: RunFolder, outcome: Outcome, metric: str) -> list[tuple[str, str]]:
    seconds = max(outcome.seconds, 1e-9)
    rate = outcome.counters.agent_steps / seconds
    found = [("Run", str(run.path))]
    learned = [row["collect/return"] for row in run.read_metrics() if row.get("collect/return") is not None]
    if learned:
        found.append(("Return while learning", f"{learned[0]:.4g} at first, {learned[-1]:.4g} at the end"))
    if metric in outcome.latest:
        spread = outcome.latest.get(f"{metric}_std")
        text = f"{outcome.latest[metric]:.4g}" + (f" ± {spread:.2g}" if spread is not None else "")
        best = f" (best {outcome.best_score:.4g})" if outcome.best_score is not None else ""
        found.append((f"Evaluated ({metric})", text + best))
    steps = f"{outcome.counters.agent_steps:,} steps, {outcome.counters.updates:,} updates in {seconds:,.1f} s"
    found.append(("Work", f"{steps}: {rate:,.0f} steps/s"))
    shares = sorted(outcome.time_shares.items(), key=lambda item: -item[1])
    found.append(("Time went to", ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares if share > 0.005)))
    return found


def _next_commands(run: RunFolder, outcome: Outcome) -> list[tuple[str, str]]:
    resume = f"paddock train --resume {run.path}"
    if outcome.status == "stopped":
        return [(resume, "go on from here, bit-exactly where the environment allows it")]
    return [
        (f"paddock evaluate {run.path} --video", "judge the best policy and write a video of it"),
        (f"tensorboard --logdir {run.path.parent}", "see the curves"),
        (f"{resume} training.total_steps={2 * outcome.counters.agent_steps}", "train longer"),
        ("paddock train --list", "see what else there is"),
    ]
