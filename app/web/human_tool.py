"""``POST /v1/human/tool``: run one tool block that a person or a script wrote (spec 1.8)."""

from __future__ import annotations

import codecs
import time
from dataclasses import replace
from email.message import Message

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.errors import BadRequestError, UnsupportedMediaError, both
from app.extend import CallContext, Door, ErrorKind, ToolCall
from app.protocol.markers import HUMAN_TOOL_EMPTY, KEY_ARCHERY
from app.protocol.timestamps import iso_millis
from app.protocol.tool_blocks import parse_request
from app.services import Services
from app.tools.rendering import result_object
from app.tools.text_calls import call_from_block
from app.web.blocking import AddressBlocks
from app.web.body import ClientGoneError, read_body
from app.web.call_depth import call_depth
from app.web.errors import JsonResponse
from app.web.gate import CLIENT_IP
from app.web.openapi import described

CHARSETS = frozenset(
    {"utf-8", "ascii", "iso8859-1", "cp1252", "gbk", "gb2312", "gb18030", "big5", "utf-16", "utf-16-le", "utf-16-be"}
)
"""Charsets of ``/v1/human/tool``, as Python calls them: those in which shells and scripts of its users write."""

NOT_THEIR_FAULT = (None, ErrorKind.QUEUE, ErrorKind.CANCELLED, ErrorKind.REJECTED, ErrorKind.UNANSWERED)
"""Ends of a call that say nothing against who wanted it: the server's doing, or a person's decision."""


def plain_text(data: bytes, content_type: str) -> str:
    """The text of a ``text/plain`` body, in UTF-8 or the charset that its type names (P74).

    Text that is not what it says is refused, for a tool must not run with values that were half lost. Raises
    ``BadRequestError``, ``UnsupportedMediaError``.
    """
    if content_type.partition(";")[0].strip().lower() != "text/plain":
        raise BadRequestError(HUMAN_TOOL_EMPTY)
    header = Message()
    header["Content-Type"] = content_type
    charset = header.get_content_charset("utf-8")
    try:
        codec = codecs.lookup(charset).name
    except LookupError:
        codec = ""
    if codec not in CHARSETS:
        raise UnsupportedMediaError(
            both(
                f"不支持字符集 {charset[:40]!r}，请使用 UTF-8", f"charset {charset[:40]!r} is not read here; send UTF-8"
            )
        )
    try:
        return data.decode(codec).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise BadRequestError(
            both(
                f"请求体从第 {error.start} 字节起不是 {codec}，请使用 UTF-8，或在 Content-Type 中写明字符集",
                f"the body is not {codec} from byte {error.start} on; send UTF-8, or name its charset in Content-Type",
            )
        ) from None


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


_DESCRIPTION = described(
    "text/plain",
    {"type": "string", "description": "Text with one tool block; what stands around the block is ignored."},
    "The result with MaidName and timestamp",
    (400, 408, 413, 415, 500),
)


def human_tool_routes(services: Services, blocks: AddressBlocks) -> APIRouter:
    """The routes of this group."""
    router = APIRouter()

    @router.post("/v1/human/tool", summary="Run one tool block given as plain text", openapi_extra=_DESCRIPTION)
    async def human_tool(request: Request) -> Response:
        settings = services.config.settings
        depth = call_depth(request.headers, settings)
        try:
            data = await read_body(request.scope, request.receive, settings.tool_body_limit_mb * 1024 * 1024)
        except ClientGoneError:
            return Response(status_code=400)
        text = plain_text(data, request.headers.get("content-type", ""))
        if not text.strip():
            raise BadRequestError(HUMAN_TOOL_EMPTY)
        call = parse_human_call(text, services.new_id("call"), password_wanted=settings.vcp_tool_code)
        address = request.scope[CLIENT_IP]
        context = CallContext(turn_id=call.id, door=Door.HUMAN_TOOL, client_ip=address, depth=depth)
        result = await services.router.call(call, context)
        answer = result_object(call, result, iso_millis(time.time(), services.config.zone))
        if result.error_kind not in NOT_THEIR_FAULT:
            await blocks.tool_failed(address)
        return JsonResponse(answer, 200 if result.ok else 500)

    return router
