"""``GET /v1/models``: the upstream's list, passed through (spec 1.5)."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.errors import UpstreamError, VcpError
from app.protocol import markers
from app.services import Services

MAX_LIST_BYTES = 32 * 1024 * 1024

_NOT_COPIED = frozenset(
    {
        "content-encoding",
        "transfer-encoding",
        "connection",
        "content-length",
        "keep-alive",
        "set-cookie",
        "date",
        "server",
    }
)


def models_routes(services: Services) -> APIRouter:
    """The routes of this group."""
    router = APIRouter()

    @router.get("/v1/models", summary="Models of the upstream")
    async def models(request: Request) -> Response:
        headers = {"accept": request.headers.get("accept", "application/json")}
        agent = request.headers.get("user-agent")
        if agent:
            headers["user-agent"] = agent
        try:
            reply = await services.upstream.request("GET", "/v1/models", headers=headers)
            try:
                body = await reply.read_all(MAX_LIST_BYTES)
            finally:
                await reply.close()
        except UpstreamError as error:
            fault = VcpError(f"{markers.INTERNAL_SERVER_ERROR}: {error.message}")
            fault.code = error.code
            raise fault from error
        kept = {name: value for name, value in reply.headers.items() if name.lower() not in _NOT_COPIED}
        return Response(body, reply.status, kept)

    return router
