"""How the index of notes and its vectors are: checking, making anew with progress, another model, an import."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.errors import NotFoundError, VcpError
from app.extend import DeclaredRoute, Json, PageGroup, PanelPage
from app.web.panel.frame import Panel, panel_route


class MemoryIndexPart:
    """The page of the index. What takes long runs on by itself; the page shows how far it is."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._work: asyncio.Task[dict[str, Json]] | None = None
        self._what = ""

    def pages(self) -> Sequence[PanelPage]:
        """One."""
        return (
            PanelPage(
                "memory-index", PageGroup.MEMORY, "记忆索引", "Memory index", 40, "vector 向量 rebuild 重建 embed"
            ),
        )

    def routes(self) -> Sequence[DeclaredRoute]:
        """The page, its state, and its buttons."""
        return (
            panel_route("/memory-index", self._show),
            panel_route("/memory-index/state", self._state),
            panel_route("/memory-index/check", self._check, "POST"),
            panel_route("/memory-index/rebuild", self._rebuild, "POST"),
            panel_route("/memory-index/reembed", self._reembed, "POST"),
            panel_route("/memory-index/import", self._import, "POST"),
        )

    async def _show(self, request: Request) -> Response:
        return self._panel.page(request, "memory_index.html", "memory-index", **await self._now())

    async def _state(self, request: Request) -> Response:
        return self._panel.fragment(request, "memory_index_state.html", **await self._now())

    async def _now(self) -> dict[str, Any]:
        memory = self._panel.services.memory
        try:
            status: dict[str, Any] | None = await memory.index.status() | {"vectors": memory.vectors.status()}
        except NotFoundError:
            status = None
        work = self._work
        outcome: dict[str, Json] | None = None
        failed = ""
        if work is not None and work.done():
            fault = work.exception()
            failed = "" if fault is None else str(fault)
            outcome = work.result() if fault is None else None
        running = work is not None and not work.done()
        return {"index": status, "what": self._what, "running": running, "outcome": outcome, "failed": failed}

    async def _check(self, request: Request) -> Response:
        form = await self._panel.form(request)
        repair = form.get("repair") == "true"
        return await self._begun(request, "repair" if repair else "check", repair=repair)

    async def _rebuild(self, request: Request) -> Response:
        return await self._begun(request, "rebuild")

    async def _begun(self, request: Request, what: str, *, repair: bool = False) -> Response:
        if self._work is None or self._work.done():
            index = self._panel.services.memory.index
            work = index.rebuild() if what == "rebuild" else index.check(repair=repair)
            self._what = what
            self._work = asyncio.create_task(_told(work), name=f"{what} of the index, asked for in the panel")
            await asyncio.wait({self._work}, timeout=0.3)
        return await self._state(request)

    async def _reembed(self, request: Request) -> Response:
        self._panel.services.memory.vectors.reembed(confirm=True)
        return await self._state(request)

    async def _import(self, request: Request) -> Response:
        form = await self._panel.form(request)
        found = await self._panel.services.memory.vectors.import_store(
            form.get("path", "").strip(), confirm=form.get("confirm") == "true"
        )
        return self._panel.fragment(request, "memory_index_import.html", found=found, path=form.get("path", "").strip())


async def _told(work: Any) -> dict[str, Json]:
    try:
        found: dict[str, Json] = await work
    except OSError as fault:
        raise VcpError(fault.strerror or str(fault)) from fault
    return found
