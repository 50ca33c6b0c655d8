"""Results of background plugins: which there are, what one says, deleting one (vcp-core 1.10, 3.6)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.extend import DeclaredRoute, PageGroup, PanelPage
from app.protocol.json_text import pretty_json, strict_json
from app.tools.background_results import ResultLine
from app.web.admin.bodies import whole_number
from app.web.panel.frame import URL, Panel, panel_route

PAGE = "results"
ROWS = 100
READ_BYTES = 1024 * 1024
SHOWN_CHARS = 60_000
"""Of a longer result a page shows the beginning."""

MAX_WORDS = 200


@dataclass(frozen=True, slots=True)
class Shown:
    """A result with the plugin and the task that its name stands for."""

    line: ResultLine
    plugin: str
    task: str


class ResultsPart:
    """The list, and a page for each result."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel

    def pages(self) -> Sequence[PanelPage]:
        """One."""
        words = "VCPAsyncResults VCP_ASYNC_RESULT 异步 后台 callback asynchronous"
        return (PanelPage(PAGE, PageGroup.TOOLS, "异步结果", "Background results", 70, words),)

    def routes(self) -> Sequence[DeclaredRoute]:
        """The list, one result, its end."""
        return (
            panel_route("/results", self._list),
            panel_route("/results/{name}", self._one),
            panel_route("/results/{name}", self._delete, "POST"),
        )

    async def _list(self, request: Request) -> Response:
        services = self._panel.services
        words = request.query_params.get("q", "").strip()[:MAX_WORDS]
        lines = await asyncio.to_thread(services.background_results.listed)
        fitting = [line for line in lines if words.lower() in line.name.lower()]
        pages = max(1, math.ceil(len(fitting) / ROWS))
        page = min(whole_number(request, "page"), pages)
        names = self._plugins()
        settings = services.settings
        return self._panel.page(
            request,
            "results.html",
            PAGE,
            results=[_shown(line, names) for line in fitting[(page - 1) * ROWS : page * ROWS]],
            total=len(lines),
            bytes=sum(line.size for line in lines),
            words=words,
            page_number=page,
            pages=pages,
            address=f"{URL}/results?q={quote(words)}&",
            days=settings.background_result_days,
            count=settings.background_result_count,
            deleted=request.query_params.get("done") == "deleted",
        )

    def _plugins(self) -> Sequence[str]:
        names = (plugin.name for plugin in self._panel.services.found_plugins.plugins)
        return sorted(names, key=len, reverse=True)

    async def _one(self, request: Request) -> Response:
        name = request.path_params["name"]
        services = self._panel.services
        data = await asyncio.to_thread(services.background_results.content, name, READ_BYTES + 1)
        text = await asyncio.to_thread(_readable, data)
        line = ResultLine(name, 0, len(data), own=False)
        shown = _shown(line, self._plugins())
        cut = len(text) > SHOWN_CHARS
        return self._panel.page(
            request, "results_one.html", PAGE, shown=shown, text=text[:SHOWN_CHARS], cut=cut, limit=SHOWN_CHARS
        )

    async def _delete(self, request: Request) -> Response:
        name = request.path_params["name"]
        await asyncio.to_thread(self._panel.services.background_results.delete, name)
        return RedirectResponse(f"{URL}/results?done=deleted", 303)


def _shown(line: ResultLine, longest_first: Sequence[str]) -> Shown:
    """Of names that may be split in several ways the longest plugin is meant; of a plugin that is gone, the first."""
    stem = line.name.removesuffix(".json")
    plugin = next((name for name in longest_first if stem.startswith(f"{name}-")), stem.partition("-")[0])
    return Shown(line, plugin, stem[len(plugin) + 1 :])


def _readable(data: bytes) -> str:
    """The result indented, or as it is when it is no JSON or too long."""
    text = data.decode("utf-8-sig", "replace")
    if len(data) > READ_BYTES:
        return text
    try:
        return pretty_json(strict_json(text))
    except (ValueError, RecursionError):
        return text
