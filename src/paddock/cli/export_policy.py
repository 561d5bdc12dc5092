"""`paddock export-policy`: a policy that runs elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from paddock.cli.completion import complete_from, complete_runs
from paddock.cli.run_options import RUNS, JsonOption, PluginOption, RunsDirOption, TrustOption
from paddock.core.errors import InputError, unknown_choice

FORMATS = ("onnx", "agent")
app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def export_policy(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="RUN|POLICY", help="A run's path or name, or a policy's folder.", autocompletion=complete_runs
        ),
    ],
    format: Annotated[
        str,
        typer.Option(
            "--format",
            help="onnx: one file. agent: a folder with small weights and the best lap of a racing policy.",
            autocompletion=complete_from(*FORMATS),
        ),
    ] = "onnx",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="PATH", help="The file or folder to write; NAME.onnx or NAME by default."
        ),
    ] = None,
    which: Annotated[
        str, typer.Option(help="best (by evaluation) or latest.", autocompletion=complete_from("best", "latest"))
    ] = "best",
    trust: TrustOption = False,
    runs_dir: RunsDirOption = RUNS,
    plugin: PluginOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a policy to run elsewhere: one ONNX file with everything inside, or a small agent to race against."""
    from paddock.orchestration.subject import find_subject
    from paddock.rollout.onnx_export import export_onnx

    if format not in FORMATS:
        raise unknown_choice("format of a policy", format, FORMATS)
    if which not in ("best", "latest"):
        raise InputError(f"--which '{which}' is neither best nor latest.")
    found = find_subject(subject, runs_dir, which=which, trusts=trust, is_for_laps=True)
    if format == "agent":
        _export_agent(found, which, output, as_json=as_json)
        return
    values = export_onnx(found.actor, output or Path(f"{Path(found.name).name}.onnx"))
    if as_json:
        print(json.dumps(values, indent=2))
        return
    print(f"{values['file']}: {values['bytes']:,} bytes")
    print(f"takes {', '.join(values['inputs'])}; gives {', '.join(values['outputs'])}")
    if values["largest_difference"] is None:
        print("It was not compared with the policy: onnxruntime is not installed.")
    else:
        print(f"compared with the policy on random inputs: at most {values['largest_difference']:.2g} apart")


def _export_agent(found: Any, which: str, output: Path | None, *, as_json: bool) -> None:
    from paddock.racing.agents.export import export_agent

    values = export_agent(found, which, output or Path(Path(found.name).name))
    if as_json:
        print(json.dumps(values, indent=2))
        return
    print(f"{values['folder']}: {values['bytes']:,} bytes")
    print(f"best lap {values['best_lap']:.3f} s on {values['track']}, {values['finish_rate']:.0%} of starts finished")
    print(f"Race against it: paddock drive --against {values['folder']}")
