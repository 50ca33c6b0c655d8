"""``POST /v1/chat/completions`` and ``/v1/chatvcp/completions``: a thin ASGI route (spec 1.4)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from app.chat.completion_rendering import CompletionRenderer
from app.chat.payload import checked_messages, loads_request
from app.chat.render import Renderer
from app.chat.running import RunningTurn, StopReason
from app.chat.stream_rendering import StreamRenderer
from app.chat.turn import Turn, TurnRequest
from app.errors import BadRequestError, VcpError, both
from app.services import Services
from app.web.body import ClientGoneError, read_body
from app.web.call_depth import call_depth
from app.web.errors import JsonResponse, send_error
from app.web.event_stream import EventStream
from app.web.gate import CLIENT_IP, log_post
from app.web.special_models import SpecialModels

log = logging.getLogger(__name__)

REQUEST_ID_FIELDS = ("requestId", "messageId")
"""Names under which clients send the id for ``/v1/interrupt``; the first one that is given wins."""


def parse_object(data: bytes) -> dict[str, Any]:
    """A request body that is a JSON object; ``BadRequestError`` when it is none."""
    try:
        body = loads_request(data)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"{both('请求体不是 JSON', 'the request body is not JSON')}: {error}") from None
    if not isinstance(body, dict):
        raise BadRequestError(both("请求体必须是 JSON 对象", "the request body must be a JSON object"))
    return body


def request_id(body: dict[str, Any]) -> str | None:
    """The id under which a request can be interrupted, or None."""
    for name in REQUEST_ID_FIELDS:
        value = body.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value):
            return str(value)
    return None


class ChatRoute:
    """The chat endpoint; with ``show_vcp`` results are shown in the reply whatever the setting says."""

    def __init__(self, services: Services, *, show_vcp: bool) -> None:
        self._services = services
        self._show_vcp = show_vcp
        self._special = SpecialModels(services)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one chat request."""
        services = self._services
        try:
            services.running.admit()
            headers = Headers(scope=scope)
            depth = call_depth(headers, services.settings)
            limit = services.config.settings.chat_body_limit_mb * 1024 * 1024
            body = parse_object(await read_body(scope, receive, limit))
            if not self._show_vcp and self._special.is_image_chat(body):
                log_post(scope["path"], scope[CLIENT_IP])
                await self._special.image_chat(scope, receive, send, body)
                return
            checked_messages(body)
            services.running.admit()  # others may have come while the body did
        except VcpError as error:
            log_post(scope["path"], scope[CLIENT_IP])
            await send_error(scope, receive, send, error)
            return
        except ClientGoneError:
            return
        if body.get("stream") is True:
            await self._streamed(scope, receive, send, self._request(scope, headers, body, depth))
        else:
            await self._plain(scope, receive, send, self._request(scope, headers, body, depth))

    def _request(self, scope: Scope, headers: Headers, body: dict[str, Any], depth: int) -> TurnRequest:
        model = body.get("model")
        if isinstance(model, str) and (internal := self._services.model_redirect.internal(model)) != model:
            body, model = {**body, "model": internal}, internal
        return TurnRequest(
            id=self._services.new_id("turn"),
            body=body,
            model=model if isinstance(model, str) else "",
            stream=body.get("stream") is True,
            show_vcp=self._show_vcp or self._services.config.settings.show_vcp,
            client_ip=scope[CLIENT_IP],
            user_agent=headers.get("user-agent"),
            accept=headers.get("accept"),
            depth=depth,
        )

    async def _streamed(self, scope: Scope, receive: Receive, send: Send, request: TurnRequest) -> None:
        settings = self._services.config.settings
        hold = settings.upstream_errors_as_status
        stream = EventStream(send, settings.heartbeat_seconds, hold=hold, headers=lambda: renderer.headers)
        renderer = StreamRenderer(
            stream.write,
            model=request.model,
            wants_usage=request.wants_usage,
            forward_usage=settings.forward_round_usage,
            errors_as_status=hold,
        )
        try:
            await self._run(receive, request, renderer)
            if renderer.status_answer is None:
                await stream.end()
        finally:
            stream.stop_beating()
        if renderer.status_answer is not None:
            status, content = renderer.status_answer
            await JsonResponse(content, status, renderer.headers)(scope, receive, send)

    async def _plain(self, scope: Scope, receive: Receive, send: Send, request: TurnRequest) -> None:
        renderer = CompletionRenderer(model=request.model)
        await self._run(receive, request, renderer)
        if renderer.body is not None:
            await JsonResponse(renderer.body, renderer.status, renderer.headers)(scope, receive, send)

    async def _run(self, receive: Receive, request: TurnRequest, renderer: Renderer) -> None:
        """Run the turn in a task of its own, which interrupt, hang-up and shutdown stop (D27)."""
        services = self._services
        found = request_id(request.body)
        handle = RunningTurn(frozenset({found} if found else ()))
        turn = Turn(request, services.turn_rules(stream=request.stream), services.parts_of_turn(), renderer, handle)
        task = services.running.start(handle, turn.run(), request.id)
        watcher = asyncio.create_task(_hung_up(receive), name=f"hang-up of {request.id}")
        try:
            await asyncio.wait({task, watcher}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                handle.stop(StopReason.DISCONNECT)
                await asyncio.wait({task})
        except asyncio.CancelledError:  # the web server stops and has waited long enough
            handle.stop(StopReason.SHUTDOWN)
            await asyncio.wait({task})
        finally:
            watcher.cancel()
        if not task.cancelled() and task.exception() is not None:
            log.error("turn %s could not be ended properly", request.id, exc_info=task.exception())


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
