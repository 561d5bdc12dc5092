"""The JSON interface: what each address gives. Everything that reads files does so in a thread."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from paddock import __version__
from paddock.control.messages import MODES, Load, parse_command
from paddock.dashboard import catalog, timeline
from paddock.dashboard.errors import Refused
from paddock.dashboard.experiments import shipped_experiments
from paddock.dashboard.ghosts import describe_lap, people_laps
from paddock.dashboard.guard import LARGEST_BODY
from paddock.dashboard.link import Listener
from paddock.dashboard.live import number, to_json
from paddock.dashboard.processes import training_arguments
from paddock.experiments.run import RunFolder
from paddock.orchestration.policies import policy_folder
from paddock.racing.agents import agent_folder, is_agent
from paddock.sim.cars.car import CARS

if TYPE_CHECKING:
    from paddock.dashboard.server import Dashboard

BOUNDARY = "paddockframe"
BODY_PATIENCE = 10.0  # s that a request has for its body
FILM_PATIENCE = 5.0  # s between two pictures after which the last one is sent again, so that a dead viewer is noticed
CLASSICAL = "classical"


class Api:
    """Handlers over one dashboard."""

    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard = dashboard
        self._runs, self._links = dashboard.runs, dashboard.links
        self._films = 0

    def routes(self) -> list[Route]:
        return [
            route("/api/health", self.health),
            route("/api/experiments", self.experiments),
            route("/api/tracks", self.tracks),
            route("/api/cars", self.cars),
            route("/api/runs", self.runs),
            route("/api/runs", self.start_run, "POST"),
            route("/api/runs/{id}", self.run),
            route("/api/runs/{id}/metrics", self.metrics),
            route("/api/runs/{id}/policies", self.policies),
            route("/api/runs/{id}/timeline", self.timeline),
            route("/api/runs/{id}/timeline/{steps}", self.drives),
            route("/api/runs/{id}/roads/{key}", self.road),
            route("/api/runs/{id}/share", self.share),
            route("/api/runs/{id}/control", self.control, "POST"),
            route("/api/policies", self.all_policies),
            route("/api/drive", self.drive, "POST"),
            route("/api/laps", self.laps),
            route("/api/demonstrations", self.demonstrations),
            route("/api/demonstrations", self.play, "POST"),
            route("/stream.mjpg", self.stream),
        ]

    async def health(self, request: Request) -> Response:
        dashboard = self._dashboard
        return reply(
            {
                "version": __version__,
                "runs_dir": str(dashboard.runs_dir),
                "needs_token": True,
            }
        )

    async def experiments(self, request: Request) -> Response:
        return reply(await run_in_threadpool(shipped_experiments))

    async def tracks(self, request: Request) -> Response:
        return reply(await self._dashboard.tracks.all())

    async def cars(self, request: Request) -> Response:
        return reply(list(CARS))

    async def runs(self, request: Request) -> Response:
        return reply(await run_in_threadpool(self._runs.rows))

    async def run(self, request: Request) -> Response:
        run = await self._find(request)
        details = await run_in_threadpool(self._runs.details, run)
        if details["is_live"]:
            try:
                link = await self._links.take(run)
            except Refused:
                details["is_live"] = False
            else:
                details["can"] = link.welcome.can
                details["rewards"] = link.status.rewards or details["rewards"]
                await self._links.give_back(link)
        return reply(details)

    async def metrics(self, request: Request) -> Response:
        run, query = await self._find(request), request.query_params
        names = [name for name in query.get("names", "").split(",") if name]
        points, since = query_number(query, "points", 2_000), query_number(query, "since", None)
        assert points is not None
        axis = query.get("axis", "agent_steps")

        def read() -> dict[str, Any]:
            return self._runs.metrics(run, names, points=int(points), axis=axis, since=since)

        return reply(await run_in_threadpool(read))

    async def policies(self, request: Request) -> Response:
        run = await self._find(request)
        found = await run_in_threadpool(self._runs.policies, run)
        loaded = None
        if await run_in_threadpool(self._runs.is_live, run):
            try:
                link = await self._links.take(run)
            except Refused:
                pass
            else:
                loaded = link.status.policy
                await self._links.give_back(link)
        return reply([{**policy, "is_loaded": policy["name"] == loaded} for policy in found])

    async def timeline(self, request: Request) -> Response:
        return reply(await run_in_threadpool(timeline.timeline, await self._find(request)))

    async def drives(self, request: Request) -> Response:
        run, steps = await self._find(request), request.path_params["steps"]
        return reply(await run_in_threadpool(timeline.evaluation, run, steps))

    async def road(self, request: Request) -> Response:
        run, key = await self._find(request), request.path_params["key"]
        return reply(await run_in_threadpool(timeline.road, run, key))

    async def share(self, request: Request) -> Response:
        """The replay as a file; it is not shown at this address, where its own script would be refused."""
        run, query = await self._find(request), request.query_params
        steps = [one for one in query.get("steps", "").split(",") if one]
        if self._runs.section(run.name) == "drive":
            text = await run_in_threadpool(timeline.shared_race, run)
        else:
            text = await run_in_threadpool(timeline.shared_page, run, steps, query.get("track") or None)
        name = re.sub(r"[^A-Za-z0-9._-]", "_", run.name)
        headers = {"content-disposition": f'attachment; filename="{name}.html"'}
        return Response(text, media_type="text/html", headers=headers)

    async def all_policies(self, request: Request) -> Response:
        return reply(await run_in_threadpool(self._runs.all_policies))

    async def laps(self, request: Request) -> Response:
        track = request.query_params.get("track")
        found = await run_in_threadpool(people_laps, self._dashboard.laps_dir)
        return reply([describe_lap(name, lap) for name, lap in found if track in (None, "", lap.track)])

    async def start_run(self, request: Request) -> Response:
        values = await read_json(request)
        known = [one["name"] for one in await run_in_threadpool(shipped_experiments)]
        arguments = training_arguments(values, known, self._dashboard.runs_dir, self._dashboard.mine)
        run = await self._dashboard.launcher.start(arguments, self._dashboard.runs_dir)
        return reply({"id": run.name})

    async def drive(self, request: Request) -> Response:
        values = await read_json(request)
        arguments = ["drive", "--session", "--track", self._dashboard.tracks.check(values.get("track"))]
        if values.get("car") is not None:
            arguments += ["--car", catalog.check_car(values["car"])]
        opponent = values.get("opponent")
        if opponent is not None:
            arguments += ["--against", await run_in_threadpool(self._opponent, opponent)]
        mode = values.get("mode")
        if mode is not None:
            if mode not in MODES:
                raise Refused(f"mode is '{str(mode)[:40]}'; allowed: {', '.join(MODES)}.")
            arguments += ["--mode", mode]
        driver = values.get("driver")
        if driver is not None:
            if not isinstance(driver, str) or not 1 <= len(driver) <= 40 or not driver.isprintable():
                raise Refused("driver must be a name of 1 to 40 letters.")
            arguments += [f"--driver={driver}"]
        runs = self._runs
        arguments += ["--runs-dir", str(runs.runs_dir), "--laps", str(self._dashboard.laps_dir)]
        run = await self._dashboard.launcher.start(arguments, runs.drives_dir)
        return reply({"id": run.name})

    async def demonstrations(self, request: Request) -> Response:
        return reply(await run_in_threadpool(self._dashboard.demonstrations.rows))

    async def play(self, request: Request) -> Response:
        values = await read_json(request)
        folder = await run_in_threadpool(self._dashboard.demonstrations.find, values.get("id"))
        episode = values.get("episode", 0)
        if not isinstance(episode, int) or isinstance(episode, bool) or episode < 0:
            raise Refused(f"episode is '{str(episode)[:40]}'; it must be a number from 0 up.")
        runs = self._runs
        arguments = ["demonstrations", "play", str(folder), "--episode", str(episode), "--session"]
        run = await self._dashboard.launcher.start([*arguments, "--runs-dir", str(runs.runs_dir)], runs.drives_dir)
        return reply({"id": run.name})

    async def control(self, request: Request) -> Response:
        run, values = await self._find(request), await read_json(request)
        command = parse_command(values.pop("command", None), values, is_from_page=True)
        if isinstance(command, Load):
            folder = await run_in_threadpool(self._policy, command.policy, run)
            command = Load(command.policy, str(folder))
        link = await self._links.take(run)
        try:
            return reply(await link.request(command))
        finally:
            await self._links.give_back(link)

    async def stream(self, request: Request) -> Response:
        given = request.query_params.get("run", "")
        run = await run_in_threadpool(self._runs.find, given)
        if self._films >= 16:
            raise Refused("16 films are being watched already.", 409)
        try:
            link = await self._links.take(run)
        except Refused:  # It has just ended: the page hears of that by itself, and a film of nothing is no error.
            return Response(status_code=204)
        media = f"multipart/x-mixed-replace; boundary={BOUNDARY}"
        return StreamingResponse(self._film(link), media_type=media)

    async def _film(self, link: Any) -> AsyncIterator[bytes]:
        listener = Listener()
        listener.wants_pictures = True
        link.join(listener)
        self._films += 1
        try:
            while link.is_open:
                if listener.picture is not None:
                    head = (
                        f"--{BOUNDARY}\r\nContent-Type: image/jpeg\r\nContent-Length: {len(listener.picture)}\r\n\r\n"
                    )
                    yield head.encode() + listener.picture + b"\r\n"
                listener.news.clear()
                try:
                    async with asyncio.timeout(FILM_PATIENCE):
                        await listener.news.wait()
                except TimeoutError:
                    continue
        finally:
            self._films -= 1
            if link.is_open:
                link.leave(listener)
            await self._links.give_back(link)

    async def _find(self, request: Request) -> RunFolder:
        return await run_in_threadpool(self._runs.find, request.path_params["id"])

    def _policy(self, given: Any, here: RunFolder | None) -> Any:
        """The folder of a policy named `name` (of this run) or `run/name`; only names that are there are taken."""
        if not isinstance(given, str):
            raise Refused("policy must be a policy's name, or run/name for one of another run.")
        run, _, name = given.rpartition("/")
        owner = self._runs.find(run) if run else here
        if owner is None:
            raise Refused(f"'{given[:80]}' does not say whose policy it is; write run/name.")
        return policy_folder(owner, name)

    def _opponent(self, given: Any) -> str:
        if given == CLASSICAL:
            return CLASSICAL
        if isinstance(given, str) and is_agent(given):
            agent_folder(given)  # Only names that ship are taken.
            return given
        if isinstance(given, dict):
            given = f"{given.get('run')}/{given.get('name')}"
        return str(self._policy(given, None))


async def read_json(request: Request) -> dict[str, Any]:
    """The body as an object, within the bounds of size and time."""
    try:
        async with asyncio.timeout(BODY_PATIENCE):
            body = await _read_body(request)
    except TimeoutError as error:
        raise Refused(f"the body of the request did not come within {BODY_PATIENCE:.0f} s.", 408) from error
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused("the body is not JSON.") from error
    if not isinstance(values, dict):
        raise Refused("the body must be a JSON object.")
    return values


async def _read_body(request: Request) -> bytes:
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > LARGEST_BODY:
                raise Refused(f"a request may have {LARGEST_BODY} bytes.", 413)
    except ClientDisconnect as error:
        raise Refused("the request ended before its body did.") from error
    return bytes(body)


def query_number(query: Any, name: str, default: float | None) -> float | None:
    """A number in the address."""
    if name not in query:
        return default
    try:
        found = number(float(query[name]))
    except ValueError:
        found = None
    if found is None:
        raise Refused(f"{name} is '{query[name][:40]}'; it must be a number.")
    return found


def route(path: str, handler: Callable[..., Any], method: str = "GET") -> Route:
    """An address that answers one method."""
    return Route(path, handler, methods=[method])


def reply(values: Any) -> Response:
    return Response(to_json(values), media_type="application/json")


def error_reply(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status_code=status)
