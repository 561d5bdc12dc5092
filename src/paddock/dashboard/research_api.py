"""The JSON interface of the research screens: labels, names, removing, configuration, log, comparison."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from paddock.core.text import printable
from paddock.dashboard.api import read_json, reply, route
from paddock.dashboard.errors import Refused
from paddock.dashboard.origins import options_with_origins
from paddock.dashboard.processes import log_file
from paddock.experiments.compare.compare import Comparison, compare
from paddock.experiments.compare.laps import compared_laps
from paddock.experiments.compare.table import comparison_values
from paddock.experiments.report.report import write_report
from paddock.experiments.run import RunFolder
from paddock.experiments.store.editing import delete_run, label_run

if TYPE_CHECKING:
    from paddock.dashboard.server import Dashboard

MOST_COMPARED = 60  # runs
LOG_BYTES, LOG_LINES = 64 * 1024, 400
# The report is one file with its scripts inside; in a sandbox it has no access to the page, its cookie or the network.
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:; media-src data:"
)


class ResearchApi:
    """Handlers over one dashboard."""

    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard, self._runs = dashboard, dashboard.runs

    def routes(self) -> list[Route]:
        return [
            route("/api/runs/{id}/labels", self.label, "POST"),
            route("/api/runs/{id}/delete", self.delete, "POST"),
            route("/api/runs/{id}/options", self.options),
            route("/api/runs/{id}/log", self.log),
            route("/api/compare", self.compare),
            route("/api/report", self.report),
        ]

    async def label(self, request: Request) -> Response:
        run, values = await self._find_training(request), await read_json(request)
        given = checked_labels(values)
        labels = await run_in_threadpool(lambda: label_run(run, **given))
        self._runs.forget()
        return reply(labels)

    async def delete(self, request: Request) -> Response:
        run, values = await self._find_training(request), await read_json(request)
        if values.get("confirm") != run.name:
            raise Refused("confirm must repeat the id of the run that is to be deleted.")
        await run_in_threadpool(delete_run, run)
        self._runs.forget()
        return reply({"id": run.name})

    async def options(self, request: Request) -> Response:
        return reply(await run_in_threadpool(options_with_origins, await self._find_training(request)))

    async def log(self, request: Request) -> Response:
        run = await self._find_training(request)
        return reply({"lines": await run_in_threadpool(last_lines, log_file(run))})

    async def compare(self, request: Request) -> Response:
        comparison = await run_in_threadpool(self._comparison, request)
        return reply(await run_in_threadpool(compared, comparison))

    async def report(self, request: Request) -> Response:
        comparison = await run_in_threadpool(self._comparison, request)
        page = await run_in_threadpool(report_page, comparison)
        return HTMLResponse(page, headers={"content-security-policy": REPORT_POLICY})

    def _comparison(self, request: Request) -> Comparison:
        names = [name for name in request.query_params.get("runs", "").split(",") if name]
        if not 1 <= len(names) <= MOST_COMPARED:
            raise Refused(f"{len(names)} runs were given; allowed: 1 to {MOST_COMPARED}.")
        folders = [str(self._runs.find(name).path) for name in dict.fromkeys(names)]
        metrics = [name for name in request.query_params.get("metrics", "").split(",") if name]
        return compare(self._dashboard.runs_dir, folders, metrics=metrics)

    async def _find_training(self, request: Request) -> RunFolder:
        run = await run_in_threadpool(self._runs.find, request.path_params["id"])
        if run.path.parent != self._dashboard.runs_dir:
            raise Refused(f"'{run.name}' is a driving session; this is for training runs.")
        return run


def checked_labels(values: dict[str, Any]) -> dict[str, Any]:
    """Labels as they came in a request, if each has its type."""
    kinds = {"tags": list, "pinned": bool, "note": str, "name": str}
    for key, value in values.items():
        is_fit = key in kinds and isinstance(value, kinds[key])
        if not is_fit or (key == "tags" and not all(isinstance(tag, str) for tag in value)):
            raise Refused("labels are tags (a list of texts), pinned (true or false), note and name (texts).")
    return {"is_pinned" if key == "pinned" else key: value for key, value in values.items()}


def compared(comparison: Comparison) -> dict[str, Any]:
    """The comparison as `paddock compare --json` gives it, and the laps of racing runs for their overlay."""
    laps, damage = compared_laps(comparison)
    values = comparison_values(comparison)
    return {**values, "laps": laps, "warnings": [*values["warnings"], *damage]}


def report_page(comparison: Comparison) -> str:
    """The HTML report."""
    with TemporaryDirectory() as folder:
        return write_report(Path(folder) / "report.html", comparison).read_text(encoding="utf-8")


def last_lines(file: Path) -> list[str]:
    """The end of a log as plain text; nothing where there is none."""
    try:
        with os.fdopen(os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as log:
            log.seek(max(os.fstat(log.fileno()).st_size - LOG_BYTES, 0))
            text = log.read(LOG_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    lines = [printable(line.rpartition("\r")[2]).rstrip() for line in text.split("\n")]
    return [line for line in lines if line][-LOG_LINES:]
