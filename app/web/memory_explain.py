"""``POST /v1/memory/explain``: what the declarations of a prompt become, and why (memory.md 11.29)."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.chat.payload import loads_request
from app.errors import BadRequestError, both
from app.extend import Body
from app.services import Services
from app.web.body import ClientGoneError, read_body
from app.web.errors import JsonResponse
from app.web.openapi import described as documented

_ASKED = documented(
    "application/json",
    {
        "type": "object",
        "properties": {
            "messages": {"type": "array", "items": {"type": "object"}},
            "model": {"type": "string"},
            "declaration": {"type": "string"},
            "question": {"type": "string"},
        },
    },
    "A conversation as for chat completions, or a declaration and a question",
    (400, 408, 413, 415),
)


def memory_explain_routes(services: Services) -> APIRouter:
    """The routes of this group."""
    router = APIRouter()

    @router.post("/v1/memory/explain", summary="What a prompt remembers, and why", openapi_extra=_ASKED)
    async def explain(request: Request) -> Response:
        limit = services.settings.tool_body_limit_mb * 1024 * 1024
        try:
            data = await read_body(request.scope, request.receive, limit)
        except ClientGoneError:
            return Response(status_code=499)
        try:
            asked = await asyncio.to_thread(loads_request, data)
        except (ValueError, RecursionError):
            raise BadRequestError(both("请求体不是 JSON", "the request body is no JSON")) from None
        body, model = _body(asked)
        texts = await services.parts_of_turn().preparation.operator_texts(body, services.model_redirect.internal(model))
        return JsonResponse(await services.memory.recall.explain(texts, body["messages"]))

    return router


def _body(asked: object) -> tuple[Body, str]:
    """The conversation that is asked about, and its model."""
    if not isinstance(asked, dict):
        raise BadRequestError(both("请求体必须是 JSON 对象", "the request body must be a JSON object"))
    model = asked.get("model")
    declaration, question = asked.get("declaration"), asked.get("question")
    if "messages" not in asked and isinstance(declaration, str):
        messages = [{"role": "system", "content": declaration}]
        if isinstance(question, str):
            messages.append({"role": "user", "content": question})
        asked = {"messages": messages}
    elif "messages" not in asked:
        raise BadRequestError(
            both(
                "需要 'messages'，或 'declaration' 和 'question'",
                "'messages', or 'declaration' and 'question' is needed",
            )
        )
    return asked, model if isinstance(model, str) else ""
