"""`paddock tmrl`: files of TMRL in and out, and its flags as the commands that do the same here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from paddock.cli.help import RunningGroup
from paddock.cli.run_options import RUNS, JsonOption, RunsDirOption, TrustOption
from paddock.core.errors import InputError

app = typer.Typer(
    pretty_exceptions_enable=False,
    cls=RunningGroup,
    epilog="""
Examples:
  paddock tmrl import ~/TmrlData --to my-tmrl                 experiment, trajectory and policies from TMRL's folder
  paddock tmrl export my-run --to SAC_4_LIDAR.tmod            a policy that TMRL loads
  paddock tmrl --server                                       the same as paddock relay
  paddock tmrl --trainer --config my-tmrl/SAC_4_LIDAR.yaml    the same as paddock trainer
""",
)
EXPERIMENT = "trackmania_full_sac"


@app.callback(invoke_without_command=True)
def tmrl(
    ctx: typer.Context,
    server: Annotated[bool, typer.Option("--server", help="Run the relay, as `paddock relay`.")] = False,
    trainer: Annotated[bool, typer.Option("--trainer", help="Learn, as `paddock trainer`.")] = False,
    worker: Annotated[bool, typer.Option("--worker", help="Collect, as `paddock worker`.")] = False,
    expert: Annotated[
        bool, typer.Option("--expert", help="A worker that acts with --policy and ignores the trainer's weights.")
    ] = False,
    test: Annotated[bool, typer.Option("--test", help="Drive with --policy, as `paddock evaluate`.")] = False,
    benchmark: Annotated[
        bool, typer.Option("--benchmark", help="Measure time-steps, as `paddock benchmark-realtime`.")
    ] = False,
    record_reward: Annotated[
        bool, typer.Option("--record-reward", help="Record a trajectory, as `paddock record trajectory`.")
    ] = False,
    check_environment: Annotated[
        bool, typer.Option("--check-environment", help="Find faults, as `paddock doctor --trackmania`.")
    ] = False,
    install: Annotated[bool, typer.Option("--install", help="Say where Paddock keeps its files.")] = False,
    wandb: Annotated[bool, typer.Option("--wandb", help="With --trainer: log to Weights & Biases.")] = False,
    experiment: Annotated[
        str, typer.Option(help="What is trained, collected for or measured, unless --config says.")
    ] = EXPERIMENT,
    config: Annotated[
        str | None,
        typer.Option("--config", "-d", metavar="FILE|JSON", help="An imported YAML; or JSON with options of rtgym."),
    ] = None,
    preset: Annotated[str | None, typer.Option(help="A variation of the experiment; tmrl has TMRL's numbers.")] = None,
    list_presets: Annotated[bool, typer.Option("--list-presets", help="List the presets and exit.")] = False,
    override: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Change an option; repeat.")] = None,
    name: Annotated[str | None, typer.Option(help="The run's, or the worker's, name.")] = None,
    policy: Annotated[str | None, typer.Option(metavar="RUN|POLICY", help="For --test and --expert.")] = None,
    game: Annotated[str, typer.Option(help="trackmania, or twin where the game is not there.")] = "trackmania",
    to: Annotated[
        Path, typer.Option(metavar="FILE", help="With --record-reward: the trajectory that is written.")
    ] = Path("reward.safetensors"),
    plugin: Annotated[
        list[str] | None, typer.Option(metavar="PACKAGE", help="A package of yours that _target_ may name; repeat.")
    ] = None,
) -> None:
    """TMRL's files and flags. Each flag runs the command of Paddock that does the same; see docs/tmrl.md."""
    if ctx.invoked_subcommand is not None:
        return
    if list_presets:
        _list_presets()
        return
    if install:
        from paddock.core.paths import paddock_home

        typer.echo(f"nothing has to be installed or downloaded; Paddock keeps its files in {paddock_home()}.")
        return
    roles = {
        "server": server, "trainer": trainer, "worker": worker, "expert": expert, "test": test, "benchmark": benchmark,
        "record-reward": record_reward, "check-environment": check_environment,
    }  # fmt: skip
    chosen = [role for role, is_chosen in roles.items() if is_chosen]
    if len(chosen) > 1 and set(chosen) != {"worker", "expert"}:
        raise InputError(f"one role at a time: --{', --'.join(chosen)}.")
    role = "expert" if expert else chosen[0] if chosen else ""
    if not role and not (preset or override or name or config):
        typer.echo(ctx.get_help())
        return
    if wandb and role not in ("trainer", ""):
        raise InputError("--wandb goes with --trainer.")
    if game not in ("trackmania", "twin"):
        raise InputError(f"--game '{game}' is neither trackmania nor twin.")
    changed = [*(override or []), *(["environment.game=twin"] if game == "twin" else [])]
    given = Given(experiment, config, preset, [*changed, *(["logging.wandb=online"] if wandb else [])])
    run(command_of(role, given, name=name, policy=policy, plugins=plugin or [], game=game, to=to))


class Given:
    """What is to be trained, collected for or measured, as arguments of the other commands."""

    def __init__(self, experiment: str, config: str | None, preset: str | None, overrides: list[str]) -> None:
        text = (config or "").strip()
        self.overrides = [*(_rtgym_options(text) if text.startswith("{") else []), *overrides]
        self.file = text if text and not text.startswith("{") else None
        self.experiment, self.preset = experiment, preset

    def arguments(self) -> list[str]:
        """The experiment or the file, the preset, the overrides. TMRL's numbers are an imported file's own."""
        source = ["--config", self.file] if self.file else [self.experiment]
        preset = self.preset or (None if self.file else "tmrl")
        return [*source, *(["--preset", preset] if preset and preset != "none" else []), *self.overrides]

    def environment(self) -> list[str]:
        """The experiment and the options of its environment alone, for what reads no file and no preset."""
        if self.file is None:
            return [self.experiment, *self.overrides]
        from paddock.core.mappings import flatten
        from paddock.core.reading import read_yaml

        values = read_yaml(Path(self.file))
        if not isinstance(values, dict) or not values.get("defaults"):
            raise InputError(f"'{self.file}' is no experiment that `paddock tmrl import` wrote.")
        options = flatten({"environment": values.get("environment") or {}})
        written = [f"{key}={json.dumps(value)}" for key, value in options]
        return [str(values["defaults"][0]), *written, *self.overrides]


def command_of(
    role: str,
    given: Given,
    *,
    name: str | None = None,
    policy: str | None = None,
    plugins: list[str] | None = None,
    game: str = "trackmania",
    to: Path = Path("reward.safetensors"),
) -> list[str]:
    """The arguments of `paddock` that do what a flag of TMRL's promises."""
    plugin = [text for package in plugins or [] for text in ("--plugin", package)]
    named = ["--name", name] if name else []
    if role == "server":
        return ["relay"]
    if role in ("trainer", "worker"):
        return [role, *given.arguments(), *named, *plugin]
    if role == "":
        return ["train", *given.arguments(), *named, *plugin]
    if role == "benchmark":
        return ["benchmark-realtime", *given.environment(), *plugin]
    if role == "record-reward":
        return ["record", "trajectory", str(to), "--game", game]
    if role == "check-environment":
        return ["doctor", "--trackmania", "--game", game]
    if policy is None:
        raise InputError(f"say which policy drives: paddock tmrl --{role} --policy RUN|FOLDER.")
    if role == "expert":
        return ["worker", *given.arguments(), "--policy", policy, *named, *plugin]
    return ["evaluate", policy, *given.overrides, *plugin]


def run(arguments: list[str]) -> None:
    """Run `paddock ARGUMENTS` in this process."""
    from paddock.cli.main import app as program

    typer.echo(f"paddock {' '.join(arguments)}", err=True)
    typer.main.get_command(program).main(args=arguments, prog_name="paddock", standalone_mode=False)


def _rtgym_options(text: str) -> list[str]:
    """TMRL's `--config '{...}'` changes the dictionary of rtgym, whose names environment: has."""
    from paddock.core.reading import parse_json

    try:
        values = parse_json(text)
    except ValueError as error:
        raise InputError(f"--config takes a file, or JSON with options of rtgym: {error}.") from error
    return [f"environment.{key}={json.dumps(value)}" for key, value in values.items()]


def _list_presets() -> None:
    from paddock.config.compose import choices, describe

    known = {name: describe(file) for name, file in choices("preset").items()}
    width = max(map(len, known))
    for preset, text in known.items():
        typer.echo(f"{preset:<{width}}  {text}")


@app.command("import")
def import_files(
    source: Annotated[Path, typer.Argument(metavar="FOLDER|FILE", help="~/TmrlData, or a file of it.")],
    to: Annotated[Path, typer.Option(metavar="DIR", help="A new folder for what is imported.")] = Path("tmrl-import"),
    package: Annotated[
        list[str] | None,
        typer.Option(metavar="PACKAGE", help="Read objects of this package in a checkpoint as data, too; repeat."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Read TMRL's configuration, demonstration, weights and checkpoints as data; write an experiment, a trajectory and
    policies.

    Nothing in these files is executed. Every key of config.json is listed with the option that it becomes, or with the
    reason why it becomes none; secrets are not copied.
    """
    from paddock.tmrl.importing import import_tmrl

    done = import_tmrl(source, to, tuple(package or ()))
    if as_json:
        print(json.dumps(done.to_dict(), indent=2))
    else:
        _show(done)
    if done.problems:
        raise InputError(done.problems[0] if len(done.problems) == 1 else "\n  ".join(
            [f"{len(done.problems)} files could not be read:", *done.problems]))  # fmt: skip


def _show(done: Any) -> None:
    width = max((len(row["key"]) for row in done.rows), default=0)
    for row in done.rows:
        here = f"{row['option']} = {json.dumps(row['value'])}" if row["outcome"] == "mapped" else row["outcome"]
        typer.echo(f"{row['key']:<{width}}  {here}{': ' if row['note'] else ''}{row['note']}")
    for policy in done.policies:
        typer.echo(f"policy: {policy['folder']} ({policy['interface']}; {', '.join(policy['components'])})")
    for trajectory in done.trajectories:
        typer.echo(f"trajectory: {trajectory}")
    if done.experiment is not None:
        typer.echo(f"experiment: {done.experiment}")
        typer.echo(f"try: paddock train --config {done.experiment} --print-config")


@app.command("export")
def export_files(
    given: Annotated[
        str, typer.Argument(metavar="RUN|POLICY|TRAJECTORY", help="A run, a policy's folder, or a trajectory's file.")
    ],
    to: Annotated[
        Path | None, typer.Option(metavar="FILE", help="NAME.tmod or reward.pkl by default, in this folder.")
    ] = None,
    which: Annotated[str, typer.Option(help="Of a run: best (by evaluation) or latest.")] = "best",
    runs_dir: RunsDirOption = RUNS,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a policy (NAME.tmod) or a trajectory (reward.pkl) as a file that TMRL loads."""
    from paddock.tmrl.exporting import export_tmrl

    if which not in ("best", "latest"):
        raise InputError(f"--which '{which}' is neither best nor latest.")
    file = export_tmrl(given, to, runs_dir=runs_dir, which=which, trusts=trust)
    print(json.dumps({"file": str(file)})) if as_json else typer.echo(f"written: {file}")
