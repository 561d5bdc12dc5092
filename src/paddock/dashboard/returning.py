"""Pages that were open when the server was restarted come back by themselves: they prove that they were let in."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from paddock.dashboard.access import Access
from paddock.dashboard.api import read_json
from paddock.dashboard.errors import Refused
from paddock.dashboard.guard import NEEDS_TOKEN, PUBLIC, let_in


def return_routes(access: Access, port: int) -> list[Route]:
    """`PUBLIC` gives the challenge and takes the answer to it; the key for the answer is for pages that are let in."""

    async def give_challenge(request: Request) -> Response:
        return JSONResponse({"challenge": access.challenge})

    async def give_key(request: Request) -> Response:
        return JSONResponse({"challenge": access.challenge, "key": access.page_key(_host(request))})

    async def take_proof(request: Request) -> Response:
        proof = (await read_json(request)).get("proof")
        if not isinstance(proof, str) or not access.is_proof(_host(request), proof):
            raise Refused(NEEDS_TOKEN, 401)
        return let_in(JSONResponse({"ok": True}), access, port)

    return [
        Route(PUBLIC, give_challenge, methods=["GET"]),
        Route(PUBLIC, take_proof, methods=["POST"]),
        Route(f"{PUBLIC}/key", give_key, methods=["GET"]),
    ]


def _host(request: Request) -> str:
    return request.headers.get("host", "")
