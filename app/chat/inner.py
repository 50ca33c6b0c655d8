"""A whole turn for another part of the server, which gets the completion as a value: agents, in-process plugins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from app.chat.completion_rendering import CompletionRenderer
from app.chat.payload import checked_messages
from app.chat.running import RunningTurn, RunningTurns, StopReason
from app.chat.turn import Turn, TurnParts, TurnRequest, TurnRules
from app.errors import BadRequestError, VcpError, both
from app.extend import Body, CallContext, Json

PLAIN_FIELDS = ("stream", "stream_options")
"""Fields that make no sense in a plain answer."""


class InnerChatError(VcpError):
    """The inner turn ended with an error; ``status`` is that of the answer a client would have got."""

    code = "inner_chat_failed"

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class InnerChat:
    """Runs turns like those of ``/v1/chat/completions``, not streamed; callables give the values of now.

    ``internal_model`` is the name that a model has upstream (spec 1.4).
    """

    def __init__(
        self,
        running: RunningTurns,
        parts: Callable[[], TurnParts],
        rules: Callable[[], TurnRules],
        new_id: Callable[[str], str],
        internal_model: Callable[[str], str],
    ) -> None:
        self._running = running
        self._parts = parts
        self._rules = rules
        self._new_id = new_id
        self._internal_model = internal_model

    async def __call__(self, body: Body, context: CallContext) -> Json:
        """The completion for ``body``, for the client and at the depth of ``context``, until its deadline.

        Whoever cancels it cancels the turn with its upstream request and its tools. Raises BadRequestError for a body
        that is none, TooManyTurnsError, InnerChatError (504 when the deadline came first).
        """
        request = self._request(body, context)
        self._running.admit()
        renderer = CompletionRenderer(model=request.model)
        handle = RunningTurn()
        turn = Turn(request, self._rules(), self._parts(), renderer, handle)
        task = self._running.start(handle, turn.run(), request.id)
        try:
            await asyncio.wait({task}, timeout=_left(context))
        finally:
            if not task.done():
                handle.stop(StopReason.INTERRUPT)
                await asyncio.wait({task})
        if handle.reason is StopReason.INTERRUPT:
            raise InnerChatError(both("内部对话超过了时限", "the inner chat took longer than it may"), 504)
        task.result()
        if renderer.body is None or renderer.status >= 400:
            raise InnerChatError(_said(renderer.body), renderer.status if renderer.body else 500)
        return renderer.body

    def _request(self, body: Body, context: CallContext) -> TurnRequest:
        if not isinstance(body, dict):
            raise BadRequestError(both("请求体必须是 JSON 对象", "the request body must be a JSON object"))
        plain = {name: value for name, value in checked_messages(body).items() if name not in PLAIN_FIELDS}
        model = plain.get("model")
        if isinstance(model, str):
            plain["model"] = model = self._internal_model(model)
        return TurnRequest(
            id=self._new_id("turn"),
            body=plain,
            model=model if isinstance(model, str) else "",
            stream=False,
            client_ip=context.client_ip,
            depth=context.depth,
            parent_turn_id=context.turn_id,
        )


def _left(context: CallContext) -> float | None:
    if context.deadline is None:
        return None
    return max(0.0, context.deadline - asyncio.get_running_loop().time())


def _said(body: Mapping[str, Json] | None) -> str:
    error = (body or {}).get("error")
    said = error.get("message") if isinstance(error, Mapping) else None
    return said if isinstance(said, str) and said else both("对话没有回答", "the chat gave no answer")
