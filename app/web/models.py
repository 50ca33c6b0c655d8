"""``GET /v1/models``: the upstream's list, passed through (spec 1.5)."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.errors import UpstreamError, VcpError
from app.protocol import markers
from app.services import Services
from app.web.model_names import with_public_names
from app.web.upstream_answers import copied_headers, refuse_redirect

MAX_LIST_BYTES = 32 * 1024 * 1024


def models_routes(services: Services) -> APIRouter:
    """The routes of this group."""
    router = APIRouter()

    @router.head("/v1/models", include_in_schema=False)
    @router.get("/v1/models", summary="Models of the upstream")
    async def models(request: Request) -> Response:
        try:
            reply = await services.upstream.models(
                user_agent=request.headers.get("user-agent"), accept=request.headers.get("accept")
            )
            try:
                refuse_redirect(reply)
                body = await reply.read_all(MAX_LIST_BYTES)
            finally:
                await reply.close()
        except UpstreamError as error:
            fault = VcpError(f"{markers.INTERNAL_SERVER_ERROR}: {error.message}")
            fault.code = error.code
            raise fault from error
        if 200 <= reply.status < 300:
            body = with_public_names(body, services.model_redirect.public_names())
        response = Response(body, reply.status)
        response.raw_headers.extend(copied_headers(reply))
        return response

    return router
