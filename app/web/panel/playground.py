"""Chatting with any model and agent through the real route, with the tool calls of the turn told beside the text."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from app.chat.payload import dumps
from app.errors import BadRequestError, UpstreamError, both
from app.extend import (
    CallFinished,
    CallFound,
    CallStarted,
    DeclaredRoute,
    Event,
    PageGroup,
    PanelPage,
    RoundFinished,
    ToolResult,
    TurnStarted,
)
from app.hub.masks import Masks
from app.protocol.markers import RESULT_PLAIN_OUTPUT, TOOL_REQUEST_END, TOOL_REQUEST_START
from app.web.admin.bodies import json_object
from app.web.chat import ChatRoute
from app.web.errors import JsonResponse
from app.web.panel.frame import Panel, panel_route

CHAT_PATH = "/v1/chat/completions"
MAX_MODELS = 2000
MAX_TEXTS = 50
"""Texts of Markdown in one request."""

RESULT_CHARS = 100_000
"""Most characters of a result in a card; the model got all of it."""

WAITING = 500
"""Events of one turn that may wait for the browser; what comes beyond is not shown, the text always is."""

_NEWS_OF: ContextVar[asyncio.Queue[bytes] | None] = ContextVar("playground_news", default=None)
"""Where events of the turn go that runs in this context. A turn's tasks inherit it, so that no id has to be guessed."""


class PlaygroundPart:
    """The page, and its way into the chat route: the gate has let an administrator in, so no key is needed."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        services = panel.services
        self._chat_route = ChatRoute(services, show_vcp=False)
        self._masks = Masks(services.secrets)
        services.events.listen(self._hear, TurnStarted, CallFound, CallStarted, CallFinished, RoundFinished)

    def pages(self) -> Sequence[PanelPage]:
        """One."""
        return (PanelPage("playground", PageGroup.CHAT, "试聊", "Playground", 10, "chat 对话 测试 try"),)

    def routes(self) -> Sequence[DeclaredRoute]:
        """The page, the chat, lists of models, Markdown as HTML."""
        return (
            panel_route("/playground", self._show),
            panel_route("/playground/chat", self._chat, "POST"),
            panel_route("/playground/models", self._models),
            panel_route("/playground/markdown", self._markdown, "POST"),
        )

    async def _show(self, request: Request) -> Response:
        services = self._panel.services
        agents = await asyncio.to_thread(services.prompt_files.agents.load)
        return self._panel.page(
            request,
            "playground.html",
            "playground",
            agents=sorted(agents.aliases),
            chosen=request.query_params.get("agent", "")[:200],
            model=request.query_params.get("model", "")[:200],
            markers={"start": TOOL_REQUEST_START, "end": TOOL_REQUEST_END},
            demo=not services.config.has_model_api,
        )

    async def _models(self, _request: Request) -> Response:
        services = self._panel.services
        try:
            found = await services.upstream.merged_models()
        except UpstreamError as error:
            return JsonResponse({"models": [], "error": error.message}, 502)
        public = services.model_redirect.public_names()
        names = {str(one.get("id", "")) for one in found[:MAX_MODELS]}
        return JsonResponse({"models": sorted({public.get(name, name) for name in names if name}, key=str.lower)})

    async def _markdown(self, request: Request) -> Response:
        texts = (await json_object(request)).get("texts")
        if not isinstance(texts, list) or len(texts) > MAX_TEXTS or not all(isinstance(one, str) for one in texts):
            raise BadRequestError(
                both(f"texts 应为最多 {MAX_TEXTS} 个文本", f"texts is a list of at most {MAX_TEXTS} texts")
            )
        return JsonResponse({"html": await asyncio.to_thread(self._rendered, texts)})

    def _rendered(self, texts: Sequence[str]) -> list[str]:
        return [str(self._panel.markdown(text)) for text in texts]

    async def _chat(self, _request: Request) -> Response:
        return _ChatAnswer(self._chat_route)

    def _hear(self, event: Event) -> None:
        queue = _NEWS_OF.get()
        if queue is None or queue.full():
            return
        if (told := self._told(event)) is not None:
            queue.put_nowait(b"event: vcp\ndata: " + dumps(told) + b"\n\n")

    def _told(self, event: Event) -> dict[str, Any] | None:
        match event:
            case TurnStarted():
                return {"type": "turn", "id": event.turn_id}
            case CallFound():
                return {"type": "found", "id": event.call_id, "tool": event.tool, "skipped": event.skipped_why}
            case CallStarted():
                where = event.node or (f"pid {event.pid}" if event.pid else event.origin)
                return {"type": "started", "id": event.call_id, "tool": event.tool, "where": where}
            case CallFinished():
                return {
                    "type": "finished",
                    "id": event.call.id,
                    "tool": event.call.tool,
                    "outcome": str(event.outcome),
                    "arguments": self._masks.text(_cut(_pretty(dict(event.call.arguments)))),
                    "result": self._masks.text(shown_result(event.result)),
                    "waited": event.waited,
                    "ran": event.ran,
                }
            case RoundFinished():
                return {"type": "round", "number": event.number, "usage": dict(event.usage or {})}
            case _:
                return None


class _ChatAnswer(Response):
    """Hands the connection to the chat route, and puts what happens in the turn between the events of its stream."""

    def __init__(self, route: ChatRoute) -> None:
        super().__init__()
        self._route = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        queue: asyncio.Queue[bytes] = asyncio.Queue(WAITING)
        sending = asyncio.Lock()
        begun = asyncio.Event()
        streaming = ended = False

        async def passing(message: Message) -> None:
            nonlocal streaming, ended
            async with sending:
                if message["type"] == "http.response.start":
                    names = dict(message.get("headers", ()))
                    streaming = names.get(b"content-type", b"").startswith(b"text/event-stream")
                    begun.set()
                elif streaming and not message.get("more_body", False):
                    while not queue.empty():
                        await send({"type": "http.response.body", "body": queue.get_nowait(), "more_body": True})
                    ended = True
                await send(message)

        async def telling() -> None:
            await begun.wait()
            while True:
                news = await queue.get()
                async with sending:
                    if streaming and not ended:
                        await send({"type": "http.response.body", "body": news, "more_body": True})

        token = _NEWS_OF.set(queue)
        teller = asyncio.create_task(telling(), name="calls of a turn in the playground")
        try:
            await self._route({**scope, "path": CHAT_PATH, "raw_path": CHAT_PATH.encode()}, receive, passing)
        finally:
            teller.cancel()
            await asyncio.gather(teller, return_exceptions=True)
            _NEWS_OF.reset(token)


def shown_result(result: ToolResult) -> str:
    """A result as a person reads it in a card, cut to ``RESULT_CHARS``; pictures are named and not shown."""
    if not result.ok:
        text = result.message or str(result.error_kind)
    elif result.structured is not None:
        value = result.structured
        if isinstance(value, dict) and value.keys() == {RESULT_PLAIN_OUTPUT}:
            value = value[RESULT_PLAIN_OUTPUT]
        text = value if isinstance(value, str) else _pretty(value)
    else:
        text = "\n".join(
            str(part.get("text", "")) if part.get("type") == "text" else f"[{part.get('type')}]"
            for part in result.parts or ()
        )
    text = text or result.message
    return _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= RESULT_CHARS else f"{text[:RESULT_CHARS]}…"


def _pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)
