"""The documentation as a site: its reference, its starting pages, and the build itself, which takes no warning."""

import contextlib
import io
import re
import shlex
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
import typer

from documentation import ROOT, blocks
from paddock.cli import reference
from paddock.cli.main import app
from paddock.config.compose import choices, compose
from paddock.core.mappings import flatten

COMMAND_PAGES = [ROOT / "docs/coming_from.md", *sorted((ROOT / "docs/start").glob("*.md"))]
# Experiments whose keys together are those that the tables name.
EXPERIMENTS = ("racing", "sac_racing", "dqn_cartpole", "dreamer_cartpole", "trackmania_lidar_sac", "ppo_cartpole")


def commands_of(page: Path) -> list[str]:
    """Every `paddock` line: in blocks, and in the sentences and tables."""
    text = page.read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return [*blocks(text).commands, *re.findall(r"`(paddock [^`]+)`", prose)]


def parse(command: str) -> tuple[str, list[str]]:
    """The verb, and the arguments that are no options, as click reads them; a mistake raises."""
    words = shlex.split(command)[1:]
    if len(words) == 1:  # A sentence that only names a command.
        words.append("--help")
    found, name = typer.main.get_command(app), "paddock"
    context = typer.Context(found, info_name=name)
    while hasattr(found, "get_command") and words and not words[0].startswith("-"):
        name = words[0]
        found = found.get_command(context, name)
        assert found is not None, command
        words = words[1:]
        if hasattr(found, "get_command"):
            context = typer.Context(found, info_name=name, parent=context)
    with contextlib.suppress(typer.Exit), contextlib.redirect_stdout(io.StringIO()):
        found.make_context(name, list(words), parent=context)
    return name, [word for word in words if not word.startswith("-")]


@pytest.mark.parametrize("page", COMMAND_PAGES, ids=lambda page: page.stem)
def test_every_paddock_line_of_the_starting_pages_parses(page):
    commands = commands_of(page)
    assert len(commands) >= 8
    known = choices("experiment")
    for command in commands:
        verb, words = parse(command)
        if verb == "train" and words and "=" not in words[0] and "--" not in command.split()[2]:
            assert words[0] in known or words[0].isupper(), command
        overrides = [word for word in words if re.fullmatch(r"[a-z][\w.]*=.*", word)]
        if verb == "train" and overrides and words[0] in known and not any(".py:" in word for word in overrides):
            compose(words[0], overrides=[one for one in overrides if one.partition("=")[2] != "..."])


def test_an_unknown_option_in_a_command_would_be_found():
    with pytest.raises(Exception, match="No such option"):
        parse("paddock train racing --nmae demo")


@cache
def known_keys() -> set[str]:
    """Every dotted key of the experiments, and every key above one."""
    leaves = [key for name in EXPERIMENTS for key, _ in flatten(compose(name).values)]
    return {".".join(key.split(".")[:length]) for key in leaves for length in range(1, key.count(".") + 2)}


def test_keys_in_the_tables_for_newcomers_exist():
    text = (ROOT / "docs/coming_from.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .* \| (.+) \|$", text, re.MULTILINE)
    keys = [key for row in rows for key in re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)(?:=[^`]*)?`", row)]
    assert len(keys) > 50
    assert [key for key in keys if key not in known_keys() and not key.startswith(("agent.", "tuning/"))] == []
    groups = {(group, name) for row in rows for group, name in re.findall(r"`([a-z_]+)=([a-z0-9_]+)`", row)}
    assert {"workflow", "dreamer_size"} <= {group for group, _ in groups}
    assert [pair for pair in groups if pair[1] not in choices(pair[0])] == []


@pytest.fixture(scope="module")
def configuration() -> str:
    return reference.configuration_page()


def test_the_reference_has_every_key_with_a_meaning(configuration):
    rows = [line.split(" | ") for line in configuration.splitlines() if line.startswith("| `")]
    assert len(rows) > 1000
    told = sum(bool(row[3]) for row in rows)
    assert told / len(rows) > 0.95, [row[0] for row in rows if not row[3]]
    described = set(re.findall(r"^\| `([^`]+)`", configuration, re.MULTILINE))
    for key, _ in flatten(compose("ppo_cartpole").values):
        option = key.rpartition(".")[2]
        named = any(one == option or one.endswith(f".{option}") for one in described)
        assert named or option in ("_target_", "NAME") or _is_named_by_the_user(key), key


def _is_named_by_the_user(key: str) -> bool:
    """Entries of a list or a mapping have names of the user's choosing."""
    return bool(re.search(r"\.\d+$|^reward$|hooks\.\w+$|kwargs|alerts\.\w+$", key))


def test_the_reference_tells_type_default_bounds_and_files(configuration):
    row = next(line for line in configuration.splitlines() if line.startswith("| `gae_lambda`"))
    assert "float, ≥ 0, ≤ 1" in row.replace("&gt;", ">")
    assert "lambda of generalised advantage estimation" in row
    assert "`workflow/ppo` (0.95)" in row
    assert "| `training.total_steps` | int or null, ≥ 1 | `null` | agent steps" in configuration
    assert "| `environment.nonsense`" not in configuration


def test_the_reference_has_every_command_and_option():
    page = reference.commands_page()
    for command in ("paddock train", "paddock tracks import", "paddock relay invite", "paddock compare"):
        assert re.search(rf"^##+ {command}$", page, re.MULTILINE), command
    assert "| `--group-by KEY` |" in page


class Outside(HTMLParser):
    """Addresses of other hosts that a page would ask for by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        asked = [values.get("src"), values.get("href") if tag == "link" else None]
        self.found += [one for one in asked if one and re.match(r"(https?:)?//", one)]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The built site; a warning, such as of a link that leads nowhere, is an error."""
    mkdocs = pytest.importorskip("mkdocs.commands.build", reason="the extra docs is not installed")
    pytest.importorskip("material", reason="the extra docs is not installed")
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True)
    config.plugins.on_startup(command="build", dirty=False)
    mkdocs.build(config)
    return folder


def test_the_documentation_site_builds_without_warnings(site):
    pages = {str(page.relative_to(site)) for page in site.rglob("*.html")}
    for page in ("index", "start/student", "coming_from", "reference/configuration", "reference/commands",
                 "tutorials/first_agent", "workflows/ppo", "results/index"):  # fmt: skip
        assert f"{page}.html" in pages
    assert "gae_lambda" in (site / "reference/configuration.html").read_text(encoding="utf-8")


def test_pages_of_the_documentation_site_ask_no_other_host(site):
    for page in site.rglob("*.html"):
        reader = Outside()
        reader.feed(page.read_text(encoding="utf-8"))
        assert reader.found == [], page.name
    for style in site.rglob("*.css"):
        assert "url(http" not in style.read_text(encoding="utf-8"), style.name
