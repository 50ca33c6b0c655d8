"""``POST /v1/interrupt``: stop a running chat request by its id (spec 1.7)."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.chat.payload import loads_request
from app.errors import BadRequestError, both
from app.protocol import markers
from app.services import Services
from app.web.body import ClientGoneError, read_body
from app.web.chat import REQUEST_ID_FIELDS, request_id
from app.web.errors import JsonResponse
from app.web.openapi import described

BODY_LIMIT = 64 * 1024
"""Bytes of a request body."""

_DESCRIPTION = described(
    "application/json",
    {"type": "object", "properties": {name: {"type": ["string", "integer"]} for name in REQUEST_ID_FIELDS}},
    "The signal was sent",
    (400, 404, 408, 413, 415),
)


def interrupt_routes(services: Services) -> APIRouter:
    """The routes of this group."""
    router = APIRouter()

    @router.post("/v1/interrupt", summary="Stop a running chat request", openapi_extra=_DESCRIPTION)
    async def interrupt(request: Request) -> Response:
        try:
            data = await read_body(request.scope, request.receive, BODY_LIMIT)
        except ClientGoneError:
            return Response(status_code=400)
        try:
            body = loads_request(data) if data.strip() else {}
        except (ValueError, RecursionError) as error:
            raise BadRequestError(f"{both('请求体不是 JSON', 'the request body is not JSON')}: {error}") from None
        found = request_id(body) if isinstance(body, dict) else None
        if found is None:
            raise BadRequestError(markers.INTERRUPT_NO_ID)
        if not services.running.interrupt(found):
            return JsonResponse({"status": "error", "message": markers.interrupt_unknown(found)}, 404)
        return JsonResponse({"status": "success", "message": markers.interrupt_sent(found)})

    return router
