"""Sends the request of a trace once more, to another model: through the same turn as a client's request."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from app.chat.inner import InnerChat
from app.chat.running import TooManyTurnsError
from app.chat.turn import TurnRules
from app.errors import BadRequestError, VcpError, both
from app.extend import CallContext, Door
from app.observe.traces.repeat import request_of

if TYPE_CHECKING:
    from app.services.root import Services

log = logging.getLogger(__name__)

MAX_MODEL = 500


class Replays:
    """Begins replays; each is a task of the server's that leaves a trace of its own.

    The prompt is expanded anew, from what the client sent. Without ``tools`` the calls of the answer are found and not
    run, and its diary blocks are not stored; with them everything happens as if the client had asked again.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    async def begin(self, id: str, model: str, *, tools: bool, client_ip: str | None) -> str:
        """Send the request of trace ``id`` to ``model``; the id of the new chat, whose trace is there at once.

        Raises NotFoundError, BadRequestError when the trace has no prompt, TooManyTurnsError.
        """
        services = self._services
        model = model.strip()
        if not model or len(model) > MAX_MODEL:
            raise BadRequestError(both("缺少模型名", "the name of a model is missing"))
        if services.traces.detail == "off":
            raise BadRequestError(both("追踪已关闭（Traces=off）", "traces are off (Traces=off)"))
        body = {**request_of(await services.traces.one(id)).body, "model": model}
        services.running.admit()
        new = services.new_id("turn")
        services.traces.replays(new, id)
        chat = InnerChat(
            services.running,
            services.parts_of_turn,
            lambda: self._rules(tools=tools),
            lambda _kind: new,
            services.model_redirect.internal,
        )
        context = CallContext(turn_id="", door=Door.NON_STREAM, client_ip=client_ip)
        if not services.background.start(_asked(chat, body, context), f"replay of {id}"):
            raise TooManyTurnsError(both("后台任务太多", "too many background tasks"))
        return new

    def _rules(self, *, tools: bool) -> TurnRules:
        rules = self._services.turn_rules(stream=False)
        return rules if tools else replace(rules, max_tool_rounds=0, diaries=False, native="off")


async def _asked(chat: InnerChat, body: Mapping[str, Any], context: CallContext) -> None:
    try:
        await chat(dict(body), context)
    except VcpError as error:  # its trace says so
        log.info("a replay ended with an error: %s", error.code)
