"""The JSON interface behind the first screen, the start page and a run's ending; see docs/dashboard_api.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from paddock.dashboard import catalog, endings
from paddock.dashboard.api import read_json, reply, route
from paddock.dashboard.errors import Refused
from paddock.dashboard.experiments import start_options
from paddock.experiments.run import RunFolder
from paddock.racing.agents import describe_agents, read_replay

if TYPE_CHECKING:
    from paddock.dashboard.server import Dashboard

MOST_STEPS, MOST_SECONDS = 10**12, 30 * 86_400.0
MOST_EPISODES = 1_000


class StoryApi:
    """Handlers over one dashboard."""

    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard, self._runs = dashboard, dashboard.runs

    def routes(self) -> list[Route]:
        return [
            route("/api/agents", self.agents),
            route("/api/showcase", self.showcase),
            route("/api/options", self.options),
            route("/api/standings", self.standings),
            route("/api/runs/{id}/replay", self.replay),
            route("/api/runs/{id}/ending", self.ending),
            route("/api/runs/{id}/films/{film}", self.film),
            route("/api/runs/{id}/resume", self.resume, "POST"),
            route("/api/runs/{id}/evaluate", self.evaluate, "POST"),
        ]

    async def agents(self, request: Request) -> Response:
        return reply(await run_in_threadpool(describe_agents))

    async def showcase(self, request: Request) -> Response:
        replay = await run_in_threadpool(read_replay)
        if replay is None:
            raise Refused("no lap ships with this installation.", 404)
        return reply(replay)

    async def options(self, request: Request) -> Response:
        return reply(await run_in_threadpool(start_options, self._dashboard.mine))

    async def standings(self, request: Request) -> Response:
        track = self._dashboard.tracks.check(request.query_params.get("track"))
        car = catalog.check_car(request.query_params.get("car"))
        return reply(await self._dashboard.standings.of(track, car))

    async def replay(self, request: Request) -> Response:
        run, which = await self._find(request), request.query_params.get("which", "best")
        return reply(await run_in_threadpool(endings.read_replay_of, run, which))

    async def ending(self, request: Request) -> Response:
        return reply(await run_in_threadpool(endings.describe_ending, await self._find(request)))

    async def film(self, request: Request) -> Response:
        run = await self._find(request)
        file = await run_in_threadpool(endings.film_file, run, request.path_params["film"])
        return FileResponse(file, media_type="video/mp4")

    async def resume(self, request: Request) -> Response:
        run, values = await self._find(request), await read_json(request)
        if await run_in_threadpool(run.is_held):
            raise Refused(f"run '{run.name}' is running already.", 409)
        await self._dashboard.launcher.resume(run, longer(values))
        return reply({"id": run.name})

    async def evaluate(self, request: Request) -> Response:
        run, values = await self._find(request), await read_json(request)
        episodes = whole("episodes", values.get("episodes", 64), MOST_EPISODES)
        arguments = ["evaluate", str(run.path), "--episodes", str(episodes), "--json"]
        return reply(await self._dashboard.launcher.ask(arguments))

    async def _find(self, request: Request) -> RunFolder:
        return await run_in_threadpool(self._runs.find, request.path_params["id"])


def longer(values: dict[str, Any]) -> list[str]:
    """Overrides of a resumed run: until how many steps or seconds it learns. Null ends a limit."""
    found = []
    for name, most in (("total_steps", MOST_STEPS), ("max_seconds", MOST_SECONDS)):
        if name in values:
            value = values[name]
            found.append(f"training.{name}={'null' if value is None else whole(name, value, int(most))}")
    return found


def whole(name: str, value: Any, most: int) -> int:
    """A whole number from 1 on, as it came in a request."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise Refused(f"{name} is {str(value)[:40]}; allowed: a whole number from 1 to {most:,}.")
    return value
