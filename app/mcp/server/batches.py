"""Several messages in one request, as the two oldest revisions have them (mcp.md MCP-6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

import orjson
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from app.errors import both
from app.extend import Json
from app.mcp.server.envelopes import envelope_fault

BATCH_VERSIONS = frozenset({"2024-11-05", "2025-03-26"})
"""Revisions whose sessions may send batches."""

MAX_BATCH = 100
"""Messages in one batch."""

HandOn: TypeAlias = Callable[[Json, Scope, Receive, Send], Awaitable[None]]
"""Answers the request that holds one message."""


async def answer_batch(messages: Sequence[Json], hand_on: HandOn, scope: Scope, send: Send) -> None:
    """Run all messages at the same time; one array holds the answers to the requests among them, in their order.

    What a call tells while it runs (progress) has no place in such an answer. A batch without a request is accepted
    (202), an empty or overlong one and one with ``initialize`` in it are refused with -32600.
    """
    if not messages or len(messages) > MAX_BATCH:
        reason = both(f"批量消息须有 1 到 {MAX_BATCH} 条", f"a batch has 1 to {MAX_BATCH} messages")
        await _send(_error(None, INVALID_REQUEST, reason), 400, scope, send)
        return
    if any(isinstance(message, Mapping) and message.get("method") == "initialize" for message in messages):
        reason = both("initialize 不能在批量消息中", "initialize cannot be part of a batch")
        await _send(_error(None, INVALID_REQUEST, reason), 400, scope, send)
        return
    answers = await asyncio.gather(*(_answer(message, hand_on, scope) for message in messages))
    told = [answer for answer in answers if answer is not None]
    if told:
        await _send(told, 200, scope, send)
    else:
        await Response(status_code=202)(scope, _nothing_more, send)


async def _answer(message: Json, hand_on: HandOn, scope: Scope) -> Json | None:
    fault = envelope_fault(message)
    if fault is not None:
        return _error(fault.id, INVALID_REQUEST, fault.reason)
    body = orjson.dumps(message)
    given = False
    sent: list[bytes] = []

    async def receive() -> Message:
        nonlocal given
        if given:
            await _nothing_more()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def collect(part: Message) -> None:
        sent.append(part.get("body", b""))

    await hand_on(message, {**scope}, receive, collect)
    if "method" not in message or "id" not in message:
        return None
    return _reply(b"".join(sent), message["id"])


def _reply(body: bytes, id: Json) -> Json:
    """The answer with this id in a JSON body or an event stream."""
    for line in body.splitlines():
        data = line.removeprefix(b"data:").strip() if line.startswith(b"data:") else line
        if data.startswith(b"{"):
            value = orjson.loads(data)
            if ("result" in value or "error" in value) and value.get("id") in (id, None):
                return {**value, "id": id}
    return _error(id, INTERNAL_ERROR, both("没有得到回答", "there is no answer"))


async def _nothing_more() -> Message:
    await asyncio.Event().wait()
    return {"type": "http.disconnect"}


def _error(id: Json, code: int, reason: str) -> dict[str, Json]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": reason}}


async def _send(content: Json, status: int, scope: Scope, send: Send) -> None:
    await Response(orjson.dumps(content), status, media_type="application/json")(scope, _nothing_more, send)
