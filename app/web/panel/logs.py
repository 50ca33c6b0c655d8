"""The server's log: its newest lines live, older ones page by page, whole files to download."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from markupsafe import escape
from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from app.chat.payload import dumps
from app.errors import NotFoundError, VcpError, both
from app.extend import DeclaredRoute, PageGroup, PanelPage
from app.observe.log_pages import (
    LEVELS,
    LogEntry,
    LogPage,
    LogSearch,
    Tail,
    log_files,
    log_path,
    page_before,
    read_raw,
    size_of,
    tail_after,
)
from app.web.panel.frame import URL, Panel, page_headers, panel_route

PAGE_ENTRIES = 200
PAGE_CHARS = 200_000
"""Most entries, and characters of their HTML, on one page."""

MAX_STREAMS = 10
"""Pages that follow the log at a time."""

LOOK_SECONDS = 0.5
PING_SECONDS = 20
DOWNLOAD_BYTES = 256 * 1024
MAX_SEARCH_CHARS = 200
MAX_PLACE = 10**15


class TooManyFollowersError(VcpError):
    """More pages follow the log than are served."""

    status = 503
    code = "too_many_streams"


class LogsPart:
    """The page, its stream and its downloads."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._streams = 0
        self._ended = asyncio.Event()
        panel.services.stopping.at_begin(self._ended.set)

    def pages(self) -> Sequence[PanelPage]:
        """One."""
        return (PanelPage("logs", PageGroup.SYSTEM, "服务器日志", "Server log", 80, "log error debug tail 错误"),)

    def routes(self) -> Sequence[DeclaredRoute]:
        """All of them."""
        return (
            panel_route("/logs", self._show),
            panel_route("/logs/stream", self._follow),
            panel_route("/logs/download", self._download),
        )

    @property
    def _home(self) -> Path:
        return self._panel.services.config.home

    async def _show(self, request: Request) -> Response:
        query = request.query_params
        search, name = _search(request), query.get("file", "")
        before = _place(query.get("before", ""))
        files = await asyncio.to_thread(log_files, self._home)
        newest = files[0].name if files else ""
        page = LogPage((), 0, 0, 0)
        missing = False
        if files:
            try:
                path = await asyncio.to_thread(log_path, self._home, name)
                page = _within(await asyncio.to_thread(page_before, path, before, PAGE_ENTRIES, search))
                name = path.name
            except NotFoundError:
                missing = True
        live = self._panel.services.settings.server_log and not missing and before is None and name in ("", newest)
        kept = {"level": search.level, "q": search.text}
        return self._panel.page(
            request,
            "logs.html",
            "logs",
            status=404 if missing else 200,
            files=files,
            name=name or newest,
            newest=newest,
            found=page,
            search=search,
            levels=LEVELS,
            live=live,
            switched_off=not self._panel.services.settings.server_log,
            missing=missing,
            paged=before is not None,
            older=f"{URL}/logs?{urlencode({'file': name, 'before': page.begin, **kept})}" if page.begin else "",
            latest=f"{URL}/logs?{urlencode({'file': name, **kept})}",
            stream=f"{URL}/logs/stream?{urlencode({**kept, 'from': f'{name}:{page.end}'})}",
        )

    async def _follow(self, request: Request) -> Response:
        if self._streams >= MAX_STREAMS:
            raise TooManyFollowersError(both("跟踪日志的页面过多", "too many pages follow the log"))
        given = request.headers.get("last-event-id") or request.query_params.get("from", "")
        name, _, offset = given.partition(":")
        pieces = self._pieces(_search(request), name, _place(offset) or 0)
        return EventSourceResponse(pieces, headers=page_headers(), ping=PING_SECONDS)

    async def _pieces(self, search: LogSearch, name: str, offset: int) -> AsyncIterator[dict[str, str]]:
        if self._streams >= MAX_STREAMS:  # many came at once
            return
        self._streams += 1
        try:
            yield {"event": "open", "data": "{}"}
            while not self._ended.is_set():
                try:
                    tail = await asyncio.to_thread(tail_after, self._home, name, offset, search)
                except (NotFoundError, OSError):  # there is no log now; there may be one later
                    name, offset = "", 0
                    tail = Tail((), "", 0)
                moved = (tail.file, tail.offset) != (name, offset)
                name, offset = tail.file, tail.offset
                if tail.entries or tail.skipped:
                    told = {"skipped": tail.skipped, "entries": [_told(one) for one in tail.entries]}
                    yield {"event": "entries", "id": f"{name}:{offset}", "data": dumps(told).decode("utf-8")}
                elif moved:
                    yield {"event": "place", "id": f"{name}:{offset}", "data": "{}"}
                if not moved:
                    await self._pause()
        finally:
            self._streams -= 1

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await self._ended.wait()
        except TimeoutError:
            return

    async def _download(self, request: Request) -> Response:
        path = await asyncio.to_thread(log_path, self._home, request.query_params.get("file", ""))
        size = await asyncio.to_thread(size_of, path)
        headers = {**page_headers(), "Content-Disposition": f'attachment; filename="{path.name}"'}
        return StreamingResponse(_bytes(path, size), media_type="text/plain; charset=utf-8", headers=headers)


async def _bytes(path: Path, size: int) -> AsyncIterator[bytes]:
    """What the file held when it was asked for."""
    offset = 0
    while offset < size:
        data = await asyncio.to_thread(read_raw, path, offset, min(DOWNLOAD_BYTES, size - offset))
        if not data:  # it was emptied meanwhile
            return
        offset += len(data)
        yield data


def _search(request: Request) -> LogSearch:
    level, text = request.query_params.get("level", ""), request.query_params.get("q", "")
    return LogSearch(level if level in LEVELS else "", text.strip()[:MAX_SEARCH_CHARS])


def _place(text: str) -> int | None:
    """An offset in a file; None for what is none."""
    return min(int(text), MAX_PLACE) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def _within(page: LogPage) -> LogPage:
    """The newest entries of the page that fit on one; the others are on the next one."""
    chars = 0
    for index in range(len(page.entries) - 1, -1, -1):
        chars += len(escape(page.entries[index].text)) + 200
        if chars > PAGE_CHARS and index < len(page.entries) - 1:
            kept = page.entries[index + 1 :]
            return LogPage(kept, kept[0].offset, page.end, page.size)
    return page


def _told(entry: LogEntry) -> dict[str, Any]:
    return {"time": entry.time, "level": entry.level, "source": entry.source, "text": entry.text}
