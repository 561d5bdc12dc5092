"""`paddock worker`: an environment and a policy on this machine, for a trainer elsewhere."""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from paddock.cli.completion import complete_presets, complete_training
from paddock.core.errors import InputError

EXAMPLES = """
Examples:
  paddock worker sac_pendulum                                     the relay of this machine
  paddock worker racing --invitation garage-pc.invitation.json    a relay elsewhere
"""
app = typer.Typer(pretty_exceptions_enable=False)


@app.command(epilog=EXAMPLES)
def worker(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[EXPERIMENT] [KEY=VALUE ...]",
            help="What the trainer trains, with the same options of environment and networks.",
            autocompletion=complete_training,
        ),
    ] = None,
    invitation: Annotated[
        Path | None, typer.Option(metavar="FILE", help="From `paddock relay invite`; this machine's relay by default.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What the trainer calls this worker; by default host and spool.")
    ] = None,
    spool: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where steps wait for the trainer; one of its own per worker.")
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="PATH", help="Your own YAML, as for train.")] = None,
    preset: Annotated[
        str | None, typer.Option(help="The trainer's preset, if it has one.", autocompletion=complete_presets)
    ] = None,
    plugin: Annotated[
        list[str] | None, typer.Option(metavar="PACKAGE", help="A package of yours that _target_ may name; repeat.")
    ] = None,
    policy: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Act with this policy and ignore the trainer's weights.")
    ] = None,
    episodes: Annotated[int | None, typer.Option(min=1, help="Stop after so many episodes.")] = None,
    check_samples: Annotated[
        bool, typer.Option("--check-samples", help="Send all steps twice, for the trainer to compare.")
    ] = False,
    run: Annotated[Path | None, typer.Option(hidden=True, help="Work for this run of this machine.")] = None,
    relay_folder: Annotated[Path | None, typer.Option(hidden=True, help="The folder of this machine's relay.")] = None,
) -> None:
    """Collect transitions for a trainer, with the newest weights that it sends.

    Steps wait in a spool on this machine's disk until the trainer has them on its own; the worker goes on collecting
    while the network, the relay or the trainer is away.
    """
    from paddock.cli.train import register_packages, split
    from paddock.distributed.address import dial_to

    register_packages(plugin or [])
    experiment, overrides = split(arguments or [])
    if (experiment is None and config is None) == (run is None):
        raise InputError("say what the trainer trains: paddock worker EXPERIMENT.")
    stop = _stopping()
    with _settings(run, experiment, config, preset, overrides, check_samples) as (settings, label):
        import torch

        from paddock.distributed.worker import WorkerLoop, open_spool
        from paddock.rollout.actor import load_policy

        torch.set_num_threads(settings.threads)
        options: Any = settings.experience
        kept = open_spool(label, spool, options.spool_megabytes * 2**20)
        folder = Path(kept.name)
        here = relay_folder or (Path(options.relay_folder).expanduser() if options.relay_folder else None)
        dial = dial_to(invitation or options.invitation, here)
        called = name or f"{socket.gethostname()}-{folder.name}"
        made = WorkerLoop(
            settings,
            dial,
            name=called[:128],
            spool=kept,
            experiment=label,
            policy=load_policy(policy) if policy else None,
            history=folder / "policies",
        )
        typer.echo(f"worker '{made.name}' collects for '{label}'; steps wait in {folder}. Ctrl-C ends it.", err=True)
        tally = made.run(stop, episodes=episodes)
        left = made.session.status.waiting_chunks
        typer.echo(
            f"{tally.steps:,} steps, {tally.episodes:,} episodes, {tally.swaps:,} versions of the weights.", err=True
        )
        if left:
            typer.echo(f"{left:,} chunks wait in {folder}; the next worker with this spool sends them.", err=True)


def _stopping() -> threading.Event:
    """Set by the first SIGINT or SIGTERM; the second ends the process."""
    stop = threading.Event()

    def ask(number: int, frame: Any) -> None:
        if stop.is_set():
            os._exit(130)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)
    return stop


def _settings(
    run: Path | None,
    experiment: str | None,
    config: Path | None,
    preset: str | None,
    overrides: list[str],
    check_samples: bool,
) -> Any:
    """A context with the experiment's configuration and its name: composed here, or that of a run on this machine."""
    from paddock.distributed.schema import RelayConfig
    from paddock.orchestration.launch import Request, resolve, run_settings

    overrides = [*overrides, "experience.check_samples=true"] if check_samples else overrides
    if run is not None:
        return run_settings(run)
    if not any(text.startswith("experience=") for text in overrides):
        overrides = ["experience=relay", *overrides]
    settings, _ = resolve(Request(experiment, config, preset, None, None, overrides))
    if not isinstance(settings.experience, RelayConfig):
        raise InputError("a worker needs experience=relay, which is its default.")
    return nullcontext((settings, experiment or (config.stem if config else "")))
