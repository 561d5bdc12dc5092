"""What the site has beyond the pages of `docs/`: the README as its front page, the reference from the code, and the
notebooks. Links to sources, which the site does not hold, become plain text."""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
MOST_LINES = 40  # of a notebook's output
STREAM, IMAGE = "text/plain", "image/png"


def on_config(config: Any) -> Any:
    """Pages that the navigation does not name yet stand at its end, so that none is lost."""
    named = json.dumps(config.nav)
    pages = [str(page.relative_to(ROOT / "docs").as_posix()) for page in sorted((ROOT / "docs").rglob("*.md"))]
    forgotten = [page for page in pages if f'"{page}"' not in named]
    if forgotten:
        config.nav.append({"More": forgotten})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made here."""
    from paddock.cli.reference import commands_page, configuration_page

    pages = {
        "index.md": (ROOT / "README.md").read_text(encoding="utf-8").replace("](docs/", "]("),
        "contributing.md": (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").replace("](docs/", "]("),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "]("),
        "reference/commands.md": commands_page(),
        "reference/configuration.md": configuration_page(),
        "results/index.md": _contents("Results", "results"),
    }
    for notebook in sorted((ROOT / "docs/tutorials").glob("*.ipynb")):
        pages[f"tutorials/{notebook.stem}.md"] = notebook_page(notebook)
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links that lead out of the documentation: the guide for contributors is a page, sources are named only."""
    here = posixpath.dirname(page.file.src_uri)

    def linked(match: re.Match[str]) -> str:
        text, target = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        path, _, anchor = target.partition("#")
        place = posixpath.normpath(posixpath.join(here, path))
        place = {"../CONTRIBUTING.md": "contributing.md", "CONTRIBUTING.md": "contributing.md"}.get(place, place)
        place = {
            "../README.md": "index.md",
            "results": "results/index.md",
            "tutorials": "tutorials/first_agent.md",
        }.get(place, place)
        if files.get_file_from_path(place) is None:
            return text
        relative = posixpath.relpath(place, here or ".")
        return f"[{text}]({relative}{'#' + anchor if anchor else ''})"

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)  # Code stays as it is.
    return "".join(part if index % 2 else LINK.sub(linked, part) for index, part in enumerate(parts))


def _contents(title: str, folder: str) -> str:
    pages = sorted((ROOT / "docs" / folder).glob("*.md"))
    lines = [f"- [{page.read_text(encoding='utf-8').splitlines()[0].lstrip('# ')}]({page.name})" for page in pages]
    return "\n".join([f"# {title}\n", *lines, ""])


def notebook_page(file: Path) -> str:
    """A notebook as Markdown: its text, its code, and what the code printed when it was executed last."""
    notebook = json.loads(file.read_text(encoding="utf-8"))
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code":
            parts.append(f"```python\n{source}\n```")
            parts += [text for output in cell["outputs"] if (text := _output(output))]
    parts.append(f"The notebook itself is `docs/tutorials/{file.name}`.")
    return "\n\n".join(parts) + "\n"


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if IMAGE in data:
        return f"![Output](data:{IMAGE};base64,{''.join(data[IMAGE]).strip()})"
    text = "".join(output.get("text") or data.get(STREAM, [])).rstrip()
    lines = text.splitlines()
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES // 2], "...", *lines[-MOST_LINES // 2 :]]
    return "```text\n" + "\n".join(lines) + "\n```" if lines else ""
