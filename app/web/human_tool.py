"""``POST /v1/human/tool``: run one tool block that a person or a script wrote (spec 1.8)."""

from __future__ import annotations

import time
from dataclasses import replace

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.errors import BadRequestError
from app.extend import CallContext, Door, ToolCall
from app.protocol.markers import HUMAN_TOOL_EMPTY, KEY_ARCHERY
from app.protocol.timestamps import iso_millis
from app.protocol.tool_blocks import parse_request
from app.services import Services
from app.tools.rendering import result_object
from app.tools.text_calls import call_from_block
from app.web.blocking import AddressBlocks
from app.web.body import ClientGoneError, read_body
from app.web.errors import JsonResponse
from app.web.gate import CLIENT_IP


def parse_human_call(text: str, call_id: str, *, password_wanted: bool) -> ToolCall:
    """The call of the first block in a request's text; ``BadRequestError`` with the literal of spec 1.8.

    ``archery`` is an argument like any other here (R6): the caller waits for the answer in any case.
    """
    block = parse_request(text)
    call = call_from_block(block, call_id, password_wanted=password_wanted)
    if block.archery_text is None:
        return call
    arguments = {**call.arguments, KEY_ARCHERY: block.archery_text}
    return replace(call, arguments=arguments, texts=arguments, archery=False)


def human_tool_routes(services: Services, blocks: AddressBlocks) -> APIRouter:
    """The routes of this group."""
    router = APIRouter()

    @router.post("/v1/human/tool", summary="Run one tool block given as plain text")
    async def human_tool(request: Request) -> Response:
        settings = services.config.settings
        try:
            data = await read_body(request.scope, request.receive, settings.tool_body_limit_mb * 1024 * 1024)
        except ClientGoneError:
            return Response(status_code=400)
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        text = data.decode("utf-8-sig", "replace")
        if media_type != "text/plain" or not text.strip():
            raise BadRequestError(HUMAN_TOOL_EMPTY)
        call = parse_human_call(text, services.new_id("call"), password_wanted=settings.vcp_tool_code)
        address = request.scope[CLIENT_IP]
        context = CallContext(turn_id=call.id, door=Door.HUMAN_TOOL, client_ip=address)
        result = await services.router.call(call, context)
        answer = result_object(call, result, iso_millis(time.time(), services.config.zone))
        if not result.ok:
            await blocks.tool_failed(address)
        return JsonResponse(answer, 200 if result.ok else 500)

    return router
