"""`paddock trainer`: `paddock train` with experience from workers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(pretty_exceptions_enable=False)

EXAMPLES = """
Examples:
  paddock trainer sac_pendulum                                    the relay of this machine
  paddock trainer racing --invitation server.invitation.json --name night
"""


@app.command(epilog=EXAMPLES, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def trainer(
    context: typer.Context,
    invitation: Annotated[
        Path | None, typer.Option(metavar="FILE", help="From `paddock relay invite --role trainer`.")
    ] = None,
) -> None:
    """Train from what workers collect. Takes the arguments and options of `paddock train`."""
    from paddock.cli import train
    from paddock.experiments.campaigns.trials import override_value

    given = list(context.args)
    if not any(text == "--resume" or text.startswith("--resume=") for text in given):
        given += [] if any(text.startswith("experience=") for text in given) else ["experience=relay"]
        if invitation is not None:
            given += [f"experience.invitation={override_value(str(invitation.resolve()))}"]
    command = typer.main.get_command(train.app)
    command.main(args=given, prog_name="paddock trainer", standalone_mode=False)
