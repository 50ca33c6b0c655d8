"""What happens while a page is open: approvals that wait, nodes that come and go, finished tasks, reloads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import Response

from app.chat.payload import dumps
from app.errors import VcpError, both
from app.extend import (
    ApprovalAsked,
    ApprovalSettled,
    DeclaredRoute,
    Event,
    NodeJoined,
    NodeLeft,
    PanelPage,
    Reloaded,
    TaskFinished,
)
from app.web.panel.frame import Panel, page_headers, panel_route

MAX_STREAMS = 50
"""Open pages that hear news at a time; further ones ask again now and then by themselves."""

QUEUE = 100
MAX_CHARS = 200
PING_SECONDS = 20
HEARD = (ApprovalAsked, ApprovalSettled, NodeJoined, NodeLeft, TaskFinished, Reloaded)


class TooManyStreamsError(VcpError):
    """More pages are open than are served with news."""

    status = 503
    code = "too_many_streams"


@dataclass(frozen=True, slots=True)
class News:
    """One piece of news: ``kind`` is ok, info, warn or bad."""

    topic: str
    kind: str
    chinese: str
    english: str
    address: str = ""


class NewsPart:
    """A stream of notices for each open page."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._queues: set[asyncio.Queue[News | None]] = set()
        panel.services.events.listen(self._hear, *HEARD)
        panel.services.stopping.at_begin(self._end)

    def pages(self) -> Sequence[PanelPage]:
        """None: news come to every page."""
        return ()

    def routes(self) -> Sequence[DeclaredRoute]:
        """The stream."""
        return (panel_route("/news", self._stream),)

    async def _stream(self, request: Request) -> Response:
        if len(self._queues) >= MAX_STREAMS:
            raise TooManyStreamsError(both("打开的页面过多", "too many pages are open"))
        chinese = self._panel.language(request) == "zh"
        return EventSourceResponse(self._pieces(chinese=chinese), headers=page_headers(), ping=PING_SECONDS)

    async def _pieces(self, *, chinese: bool) -> AsyncIterator[dict[str, str]]:
        if len(self._queues) >= MAX_STREAMS:  # many came at once
            return
        queue: asyncio.Queue[News | None] = asyncio.Queue(QUEUE)
        self._queues.add(queue)
        try:
            yield {"event": "open", "data": "{}"}
            while (news := await queue.get()) is not None:
                text = news.chinese if chinese else news.english
                shown = {"topic": news.topic, "kind": news.kind, "text": text[:MAX_CHARS], "address": news.address}
                yield {"event": "news", "data": dumps(shown).decode("utf-8")}
        finally:
            self._queues.discard(queue)

    def _hear(self, event: Event) -> None:
        if self._queues and (news := news_of(event)) is not None:
            self._tell(news)

    def _end(self) -> None:
        for queue in self._queues:
            while queue.full():
                queue.get_nowait()
            queue.put_nowait(None)

    def _tell(self, news: News) -> None:
        for queue in self._queues:
            if not queue.full():  # a page that takes nothing misses what is new; its bell shows what waits
                queue.put_nowait(news)


def news_of(event: Event) -> News | None:
    """An event as a piece of news, None when people need not be told."""
    match event:
        case ApprovalAsked():
            tool = event.call.tool
            return News("approvals", "warn", f"工具 {tool} 等待审批", f"Tool {tool} waits for approval", "approvals")
        case ApprovalSettled():
            word = {True: ("已批准", "approved"), False: ("已拒绝", "rejected"), None: ("已超时", "timed out")}
            chinese, english = word[event.approved]
            return News("approvals", "info", f"{event.tool} {chinese}", f"{event.tool}: {english}", "approvals")
        case NodeJoined():
            return News("nodes", "ok", f"节点 {event.node} 已连接", f"Node {event.node} is connected", "clients")
        case NodeLeft():
            return News("nodes", "warn", f"节点 {event.node} 已断开", f"Node {event.node} is gone", "clients")
        case TaskFinished() if event.error:
            tool = event.tool
            return News("tasks", "bad", f"定时任务 {tool} 失败", f"Scheduled call of {tool} failed", "schedules")
        case Reloaded() if event.problems:
            first = event.problems[0]
            return News("reload", "bad", f"部分文件未生效：{first}", f"Some files are not in force: {first}", "")
        case Reloaded():
            return News("reload", "ok", "改动的文件已生效", "Changed files are in force", "")
        case _:
            return None
