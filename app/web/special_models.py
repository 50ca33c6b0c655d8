"""Models that whitelists name: their requests go to the upstream without prompt and tools (spec 1.6; B1, D26)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from app.chat.payload import dumps, loads
from app.errors import BadRequestError, NotFoundError, UpstreamBrokenError, UpstreamError, VcpError, both
from app.protocol import markers
from app.services import Services
from app.upstream.reply import Reply
from app.upstream.urls import CHAT_PATH
from app.web.errors import JsonResponse
from app.web.pass_through import passed_headers, redirected_body
from app.web.upstream_answers import ended_by_hang_up, refuse_redirect, relay

EMBEDDINGS_PATH = "/v1/embeddings"
MAX_ANSWER_BYTES = 256 * 1024 * 1024
_IN_LOOP_BYTES = 1024 * 1024
"""Answers up to this size are read as JSON in the event loop, larger ones in a thread."""


class ProxyFailedError(VcpError):
    """The upstream could not be asked, or what it said is no JSON; the message begins with the literal of spec 1.6."""

    code = "model_proxy_failed"

    def __init__(self, literal: str, cause: VcpError) -> None:
        super().__init__(f"{literal}: {cause.message}")


class SpecialModels:
    """Answers requests for models of ``WhitelistImageModel`` and ``WhitelistEmbeddingModel``."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def is_image_chat(self, body: Mapping[str, Any]) -> bool:
        """True when a chat request is one for a picture; raises BadRequestError when its model makes embeddings."""
        settings = self._services.settings
        if not (settings.whitelist_image_model or settings.whitelist_embedding_model):
            return False
        model = body.get("model")
        if model in settings.whitelist_image_model:
            return True
        if model in settings.whitelist_embedding_model:
            raise BadRequestError(markers.NO_IMAGE_MODEL)
        return False

    async def image_chat(self, scope: Scope, receive: Receive, send: Send, body: Mapping[str, Any]) -> None:
        """Ask for text and pictures, and return the upstream's JSON, of ``candidates`` only that list."""
        given = body.get("generationConfig")
        wanted = {"responseModalities": ["TEXT", "IMAGE"], "responseMimeType": "text/plain"}
        asked = {**body, "generationConfig": {**(given if isinstance(given, dict) else {}), **wanted}}

        async def work() -> None:
            reply = await self._asked(scope, CHAT_PATH, dumps(asked), str(body["model"]), markers.IMAGE_PROXY_FAILED)
            if reply.is_event_stream:  # only who wants a stream gets one
                await relay(reply, scope, send)
                return
            value = await _json(reply, markers.IMAGE_PROXY_FAILED)
            answer = value["candidates"] if isinstance(value, dict) and value.get("candidates") else value
            await JsonResponse(answer, reply.status)(scope, receive, send)

        await ended_by_hang_up(work(), receive, _set_event())

    async def embeddings(self, scope: Scope, receive: Receive, send: Send, data: bytes) -> None:
        """Answer ``POST /v1/embeddings``.

        With a whitelist its models only, as the reference does; without one every model, under its public name too.
        """
        settings = self._services.settings
        try:
            body = loads(data)
        except (ValueError, RecursionError) as error:
            raise BadRequestError(f"{both('请求体不是 JSON', 'the request body is not JSON')}: {error}") from None
        if not isinstance(body, dict):
            raise BadRequestError(both("请求体必须是 JSON 对象", "the request body must be a JSON object"))
        model = body.get("model")
        allowed = settings.whitelist_embedding_model
        if allowed and model not in allowed and model not in settings.whitelist_image_model:
            name = repr(model)[:100]
            raise NotFoundError(
                both(
                    f"模型 {name} 不在 WhitelistEmbeddingModel 中",
                    f"the model {name} is not in WhitelistEmbeddingModel",
                )
            )
        if model not in allowed and model in settings.whitelist_image_model:
            raise BadRequestError(markers.NO_EMBEDDING_MODEL)
        sent, name = redirected_body(data, settings, self._services.model_redirect)

        async def work() -> None:
            reply = await self._asked(scope, EMBEDDINGS_PATH, sent, name, markers.EMBEDDING_PROXY_FAILED)
            value = await _json(reply, markers.EMBEDDING_PROXY_FAILED)
            await JsonResponse(value, reply.status)(scope, receive, send)

        await ended_by_hang_up(work(), receive, _set_event())

    async def _asked(self, scope: Scope, path: str, body: bytes, model: str, literal: str) -> Reply:
        headers = {**passed_headers(Headers(scope=scope)), "content-type": "application/json"}
        try:
            reply = await self._services.upstream.request("POST", path, body=body, headers=headers, model=model)
            try:
                refuse_redirect(reply)
            except UpstreamError:
                await reply.close()
                raise
        except UpstreamError as error:
            raise ProxyFailedError(literal, error) from error
        return reply


async def _json(reply: Reply, literal: str) -> Any:
    """The answer as JSON; closes the reply."""
    try:
        async with reply:
            data = await reply.read_all(MAX_ANSWER_BYTES)
        return loads(data) if len(data) <= _IN_LOOP_BYTES else await asyncio.to_thread(loads, data)
    except (ValueError, RecursionError) as error:
        text = both(
            f"上游以状态码 {reply.status} 返回的内容不是 JSON",
            f"the upstream answered status {reply.status} without JSON",
        )
        raise ProxyFailedError(literal, UpstreamBrokenError(text)) from error
    except UpstreamError as error:
        raise ProxyFailedError(literal, error) from error


def _set_event() -> asyncio.Event:
    """The event of a request that has come completely."""
    event = asyncio.Event()
    event.set()
    return event
