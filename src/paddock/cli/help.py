"""How `--help` looks: usage as it is typed, arguments, options with their values, examples. No types of Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

COMPLETION = ("install_completion", "show_completion")  # options that belong to the program, not to its verbs


class VerbCommand(TyperCommand):
    """A command with this help."""

    def get_params(self, ctx: Any) -> list[Any]:
        return [param for param in super().get_params(ctx) if param.name not in COMPLETION]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return _usage(self.get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(_rendered(_page(self, ctx)))


class VerbGroup(TyperGroup):
    """A group with this help; without a command it shows the help, which is an answer and no error."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            print(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        params = super().get_params(ctx)
        return [param for param in params if ctx.parent is None or param.name not in COMPLETION]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, "", command.get_short_help_str(200)) for name, command in commands if command is not None]
        formatter.write(_rendered(_page(self, ctx, [("Commands", rows)])))


class RunningGroup(VerbGroup):
    """A group that does something itself when no command is given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return TyperGroup.parse_args(self, ctx, args)


Row = tuple[str, str, str]


def help_rows(command: Any, ctx: Any) -> tuple[list[Row], list[Row]]:
    """The arguments and the options of a command: name, value, help."""
    params = [param for param in command.get_params(ctx) if not getattr(param, "hidden", False)]
    arguments = [(_argument(param), "", _help(param, ctx)) for param in params if not _is_option(param)]
    return arguments, [(*_option(param), _help(param, ctx)) for param in params if _is_option(param)]


def _page(command: Any, ctx: Any, more: Sequence[tuple[str, list[Row]]] = ()) -> RenderableType:
    arguments, options = help_rows(command, ctx)
    parts: list[RenderableType] = [
        Text(command.get_usage(ctx), style="bold"),
        Text(f"\n{reflowed(command.help or '')}\n"),
    ]
    parts += [_panel(title, rows) for title, rows in [("Arguments", arguments), ("Options", options), *more] if rows]
    if command.epilog:
        parts.append(Text(command.epilog.strip("\n")))
    return Group(*parts)


def reflowed(text: str) -> str:
    """Paragraphs without the line breaks that the source has."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))


def _panel(title: str, rows: Iterable[Row]) -> Panel:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column()
    for name, value, text in rows:
        table.add_row(Text.assemble(name, (f" {value}" if value else "", "not bold yellow")), Text(text))
    return Panel(table, title=title, title_align="left", border_style="dim")


def _usage(params: Sequence[Any]) -> list[str]:
    options = ["[OPTIONS]"] if any(_is_option(param) for param in params) else []
    return [*options, *(_argument(param) for param in params if not _is_option(param))]


def _is_option(param: Any) -> bool:
    return param.param_type_name == "option"


def _argument(param: Any) -> str:
    """`RUN`, `RUN...` where there may be several, in brackets where there may be none."""
    name = param.metavar or param.name.upper()
    if "[" in name:  # The metavar says itself what may be left out.
        return name
    name += "..." if param.nargs == -1 else ""
    return name if param.required else f"[{name}]"


def _option(param: Any) -> tuple[str, str]:
    """The ways to write an option, and a word for its value; a flag has none."""
    names = ", ".join(sorted([*param.opts, *param.secondary_opts], key=len))
    value = "" if param.is_flag or param.name == "help" else param.metavar or param.opts[0].split("-")[-1].upper()
    return names, value


def _help(param: Any, ctx: Any) -> str:
    text = (param.help or "").strip()
    default = param.get_default(ctx, call=False)
    if _is_option(param) and param.required:
        return f"{text} [required]"
    is_told = _is_option(param) and not param.is_flag and param.show_default and default not in (None, "", [], ())
    return f"{text} [default: {default}]" if is_told else text


def _rendered(page: RenderableType) -> str:
    console = Console(highlight=False)
    with console.capture() as capture:
        console.print(page)
    return capture.get()
