"""``GET /v1/approvals`` and ``POST /v1/approvals/{id}``: what waits for a person's word (spec 7.6; D75)."""

from __future__ import annotations

import time
from collections.abc import Mapping

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.chat.payload import loads_request
from app.errors import BadRequestError, NotFoundError, both
from app.extend import Json
from app.hub.approval.feed import described
from app.hub.approval.guard import Answered
from app.services import Services
from app.web.body import ClientGoneError, read_body
from app.web.errors import JsonResponse
from app.web.gate import CLIENT_IP
from app.web.openapi import described as documented

BODY_LIMIT = 64 * 1024
"""Bytes of a request body."""

LISTED_CHARS = 4_000_000
"""Most characters of arguments in a list of all calls that wait; ``vcp approve --watch`` asks for it all the time."""

_ANSWER = documented(
    "application/json",
    {
        "type": "object",
        "required": ["approved"],
        "properties": {
            "approved": {"type": "boolean"},
            "reason": {"type": "string"},
            "content": {"type": "object", "description": "The fields of the form that an MCP server asks for"},
        },
    },
    "The answer counts",
    (400, 404, 408, 409, 413, 415),
)


def approvals_routes(services: Services) -> APIRouter:
    """The routes of this group."""
    router = APIRouter()

    @router.get("/v1/approvals", summary="Tool calls that wait for approval")
    async def approvals() -> Response:
        now, zone = time.time(), services.config.zone
        waiting = services.approvals.pending()
        limit = LISTED_CHARS // max(1, len(waiting))
        return JsonResponse({"approvals": [described(pending, now, zone, limit) for pending in waiting]})

    @router.post("/v1/approvals/{request_id}", summary="Approve or reject a tool call", openapi_extra=_ANSWER)
    async def answer(request: Request, request_id: str) -> Response:
        try:
            data = await read_body(request.scope, request.receive, BODY_LIMIT)
        except ClientGoneError:
            return Response(status_code=400)
        approved, reason, content = read_answer(data)
        by = f"/v1/approvals from {request.scope[CLIENT_IP]}"
        answered = services.approvals.answer(request_id, approved, by=by, reason=reason, content=content)
        settled = services.approvals.settled(request_id)
        if settled is None:
            raise NotFoundError(both("没有这个等待批准的请求", "no request of this id waits for approval"))
        facts = {
            "requestId": request_id,
            "toolName": settled.tool,
            "approved": settled.approved,
            "by": settled.by,
            "reason": settled.reason,
        }
        if answered is Answered.COUNTED:
            return JsonResponse(facts)
        return JsonResponse({"error": both("该请求已有结果", "this request waits no longer"), **facts}, 409)

    return router


def read_answer(data: bytes) -> tuple[bool, str, Mapping[str, Json] | None]:
    """Yes or no, why, and the fields of a form; BadRequestError for a body that says neither."""
    try:
        body: Json = loads_request(data)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"{both('请求体不是 JSON', 'the request body is not JSON')}: {error}") from None
    approved = body.get("approved") if isinstance(body, dict) else None
    reason = body.get("reason", "") if isinstance(body, dict) else ""
    content = body.get("content") if isinstance(body, dict) else None
    if not isinstance(approved, bool) or not isinstance(reason, str | None) or not isinstance(content, dict | None):
        raise BadRequestError(
            both(
                "需要布尔值 approved；可选：文本 reason、对象 content",
                "a boolean approved is needed; reason is a text and content an object, both may be missing",
            )
        )
    return approved, reason or "", content
