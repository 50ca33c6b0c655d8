"""``GET /v1/models``: the upstream's list, passed through; one list where there are several upstreams (spec 1.5)."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.errors import UpstreamError, VcpError
from app.protocol import markers
from app.services import Services
from app.upstream.urls import redirected
from app.web.call_depth import call_depth
from app.web.errors import JsonResponse
from app.web.headers import raw_header

MAX_LIST_BYTES = 32 * 1024 * 1024

_NOT_COPIED = frozenset({"set-cookie", "date", "server"})


class _RedirectedError(UpstreamError):
    """The upstream sends us elsewhere. Its ``Location`` is not passed on: it may name a host that only we can reach."""

    code = "upstream_redirect"


def models_routes(services: Services) -> APIRouter:
    """The routes of this group."""
    router = APIRouter()

    @router.head("/v1/models", include_in_schema=False)
    @router.get("/v1/models", summary="Models of the upstream")
    async def models(request: Request) -> Response:
        upstream, user_agent = services.upstream, request.headers.get("user-agent")
        depth = call_depth(request.headers, services.settings)
        try:
            if upstream.has_several:
                found = await upstream.merged_models(user_agent=user_agent, depth=depth)
                return JsonResponse({"object": "list", "data": found})
            reply = await upstream.models(user_agent=user_agent, accept=request.headers.get("accept"), depth=depth)
            try:
                place = reply.headers.get("Location")
                if place is not None and 300 <= reply.status < 400:
                    raise _RedirectedError(redirected(place))
                body = await reply.read_all(MAX_LIST_BYTES)
            finally:
                await reply.close()
        except UpstreamError as error:
            fault = VcpError(f"{markers.INTERNAL_SERVER_ERROR}: {error.message}")
            fault.code = error.code
            raise fault from error
        response = Response(body, reply.status)
        for name, value in reply.end_to_end_headers():
            if name.lower() not in _NOT_COPIED:
                response.raw_headers.append(raw_header(name, value))
        return response

    return router
