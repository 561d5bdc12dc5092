"""What a person is told: the resolved configuration, and how a run went and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import yaml
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from paddock.experiments.run import RunFolder
from paddock.orchestration.orchestrator import Outcome
from paddock.orchestration.schema import ExperimentConfig


def config_with_origins(
    values: Mapping[str, Any], origins: Mapping[str, str], left_out: Mapping[str, str] | None = None
) -> str:
    """The configuration as YAML, with a comment on each line that says where the value was written, and the options
    that were left out because they were written for another `_target_`."""
    lines = list(_lines(values, "", 0))
    width = min(max(len(text) for text, _ in lines), 72)
    shown = [f"{text:<{width}}  # {origin}" if (origin := origins.get(key)) else text for text, key in lines]
    shown += [f"# left out, written for another _target_: {key}  # {text}" for key, text in (left_out or {}).items()]
    return "\n".join(shown)


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


class Domain(Protocol):
    """What a kind of environment adds to the end of a run."""

    def findings(self, run: RunFolder, environment: Any) -> list[tuple[str, str]]:
        """Labels and texts in place of returns; nothing where there are none."""

    def next_commands(self, run: RunFolder) -> list[tuple[str, str]]:
        """Commands and purposes in place of `paddock evaluate`."""


def print_outcome(
    console: Console, run: RunFolder, outcome: Outcome, config: ExperimentConfig, domain: Domain | None = None
) -> None:
    """What was learned, where it is, and what to type next."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column()
    for label, text in _findings(run, outcome, config, domain):
        table.add_row(label, Text(text))
    console.print(Panel(table, title=_title(outcome, config), expand=False, border_style="green"))
    console.print("Next:")
    for command, purpose in _next_commands(run, outcome, config, domain):
        console.print(f"  [bold cyan]{command}[/]\n      {purpose}", highlight=False, soft_wrap=True)


def is_out_of_time(outcome: Outcome, config: ExperimentConfig) -> bool:
    """Whether `training.max_seconds` ended a run before its steps were done."""
    total, most = config.training.total_steps, config.training.max_seconds
    is_cut = total is not None and outcome.counters.agent_steps < total
    return outcome.status == "finished" and is_cut and most is not None and outcome.seconds >= most


def _title(outcome: Outcome, config: ExperimentConfig) -> str:
    if outcome.status == "stopped":
        return "Stopped, everything saved"
    if not is_out_of_time(outcome, config):
        return "Training finished"
    share = outcome.counters.agent_steps / (config.training.total_steps or 1)
    return f"Stopped at its time limit ({100 * share:.0f} % of steps)"


def _findings(
    run: RunFolder, outcome: Outcome, config: ExperimentConfig, domain: Domain | None
) -> list[tuple[str, str]]:
    found = [("Run", str(run.path))]
    own = domain.findings(run, config.environment) if domain is not None else []
    found += own or _returns(run, outcome, config.evaluation.metric)
    seconds, counters = outcome.seconds, outcome.counters
    rate = f"{counters.agent_steps / max(seconds, 1e-9):,.0f} steps/s overall"
    found.append(("Work", f"{counters.agent_steps:,} steps, {counters.updates:,} updates in {seconds:,.1f} s: {rate}"))
    shares = sorted(outcome.time_shares.items(), key=lambda item: -item[1])
    found.append(("Time spent", ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares if share > 0.005)))
    return found


def _returns(run: RunFolder, outcome: Outcome, metric: str) -> list[tuple[str, str]]:
    found = []
    learned = [row["collect/return"] for row in run.read_metrics() if row.get("collect/return") is not None]
    if learned:
        found.append(("Return while learning", f"{learned[0]:.4g} at first, {learned[-1]:.4g} at the end"))
    if metric in outcome.latest:
        spread = outcome.latest.get(f"{metric}_std")
        text = f"{metric} {outcome.latest[metric]:.4g}" + (f" ± {spread:.2g}" if spread is not None else "")
        best = f"; the best was {outcome.best_score:.4g}" if outcome.best_score is not None else ""
        found.append(("Last evaluation", text + best))
    return found


def _next_commands(
    run: RunFolder, outcome: Outcome, config: ExperimentConfig, domain: Domain | None
) -> list[tuple[str, str]]:
    resume = f"paddock train --resume {run.path}"
    if outcome.status == "stopped":
        return [(resume, "continue from here, bit-exactly where the environment allows it")]
    folder = f" --runs-dir {run.path.parent}" if str(run.path.parent) != "runs" else ""
    page = (f"paddock dashboard {run.name}{folder}", "see its curves and events in the browser")
    if is_out_of_time(outcome, config):
        more = f"training.max_seconds={2 * (config.training.max_seconds or 0):g}"
    else:
        more = f"training.total_steps={2 * outcome.counters.agent_steps}"
    longer = (f"{resume} {more}", "train longer")
    if domain is not None:
        return [*domain.next_commands(run), page, longer]
    curves = [(f"tensorboard --logdir {run.path.parent}", "see the curves")] if config.logging.tensorboard else []
    return [
        (f"paddock evaluate {run.path} --video", "evaluate the best policy and write a video of it"),
        page,
        *curves,
        longer,
        ("paddock train --list", "see what else there is"),
    ]
