"""The page of agents: their files, their names in ``agent_map.json``, and the preview of prompts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from app.errors import VcpError
from app.extend import DeclaredRoute, PageGroup, PanelPage, SearchHit, Trust
from app.memory.recall.source import RecallSource
from app.prompt import agent_map_file
from app.prompt.agent_map_file import AgentMapText, MapRow
from app.prompt.placeholder_list import PlaceholderLine
from app.prompt.preview import Mark, Preview, ShownPiece
from app.protocol.token_estimate import estimated_tokens
from app.services.prompt_preview import placeholders_of_now, prompt_preview
from app.web.admin.bodies import json_object
from app.web.admin.prompt_files import agent_texts, preview_model, preview_role, preview_text
from app.web.panel.frame import URL, Panel, panel_route
from app.web.panel.prompt_texts import TextFilePages, TextPage

COLOURS = 8
"""Colours of sources; further sources begin again. 0 is the text itself."""

SHOWN_PLACEHOLDERS = 200
MAX_LEGEND = 60
OWN_TEXT = "message"

PAGE = TextPage("agents", ("Agent", "Agents"), "agents", agent_texts, (("names", ("名称", "Names")),))


class AgentsPart:
    """Files, names, trash; and what all editors of prompts ask for: previews and placeholders."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        unused = (
            "没有名称指向此文件，在“名称”页添加后才能用 {{名称}} 引用。",
            "No name stands for this file; add one on the tab Names to use it as {{name}}.",
        )
        self._files = TextFilePages(panel, PAGE, self._aliases, unused)

    def pages(self) -> Sequence[PanelPage]:
        """One."""
        return (PanelPage("agents", PageGroup.PROMPTS, *PAGE.title, 10, "agent_map 提示词 prompt 角色 角色卡"),)

    def routes(self) -> Sequence[DeclaredRoute]:
        """The pages, their forms, previews, placeholders."""
        return (
            panel_route("/agents/names", self._names),
            *self._files.routes(),
            panel_route("/prompts/preview", self._preview, "POST"),
            panel_route("/prompts/placeholders", self._placeholders),
        )

    async def find(self, words: str, limit: int) -> Sequence[SearchHit]:
        """Names first, then files."""
        rows = await asyncio.to_thread(self._rows)
        named = [
            SearchHit(row.alias, row.alias, f"{URL}/agents?file={quote(row.file)}", row.file)
            for row in rows
            if words.lower() in row.alias.lower()
        ][:limit]
        return [*named, *await self._files.find(words, limit - len(named))] if len(named) < limit else named

    def _rows(self) -> Sequence[MapRow]:
        try:
            return agent_map_file.read_agent_map(self._panel.services.in_force.home).rows
        except VcpError:
            return ()  # the tab of names says what is wrong

    def _aliases(self, path: str) -> list[str]:
        return [row.alias for row in self._rows() if row.file.replace("\\", "/") == path]

    async def _names(self, request: Request) -> Response:
        home = self._panel.services.in_force.home
        read, error, status = AgentMapText(), "", 200
        try:
            read = await asyncio.to_thread(agent_map_file.read_agent_map, home)
        except VcpError as fault:
            error, status = fault.message, fault.status
        files = [line.path for line in (await asyncio.to_thread(self._files.texts().files)).files]
        known = set(files)
        return self._panel.page(
            request,
            "agent_names.html",
            "agents",
            status=status,
            **self._files.frame(request),
            rows=[
                {"alias": row.alias, "file": row.file, "found": row.file.replace("\\", "/") in known}
                for row in read.rows
            ],
            repeated=agent_map_file.repeated(read.rows),
            fingerprint=read.fingerprint,
            files=files,
            error=error,
        )

    async def _preview(self, request: Request) -> Response:
        body = await json_object(request)
        services, role, recall = self._panel.services, preview_role(body.get("role")), body.get("recall") is True
        preview = await prompt_preview(
            services, preview_text(body), role=role, model=preview_model(body.get("model")), recall=recall
        )
        files = {row.alias: row.file for row in await asyncio.to_thread(self._rows)}
        legend, colours = _legend(preview, files, self._panel.language(request) == "zh")
        recallable = not recall and any(
            piece.mark is Mark.LATER and piece.source == RecallSource.name for piece in preview.pieces
        )
        return self._panel.fragment(
            request,
            "prompt_preview.html",
            preview=preview,
            role=role,
            pieces=[(piece, colours.get(piece.source, 0)) for piece in preview.pieces],
            legend=legend,
            recallable=recallable,
        )

    async def _placeholders(self, request: Request) -> Response:
        words = request.query_params.get("q", "").strip().lower()[:100]
        found = [line for line in await placeholders_of_now(self._panel.services) if _fits(line, words)]
        return self._panel.fragment(
            request, "prompt_placeholders.html", lines=found[:SHOWN_PLACEHOLDERS], total=len(found)
        )


def _fits(line: PlaceholderLine, words: str) -> bool:
    return words in f"{line.text} {line.chinese} {line.english}".lower()


def _legend(preview: Preview, files: dict[str, str], chinese: bool) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """What each colour is: source, tokens, page; and the colour of each source."""
    texts: dict[str, list[ShownPiece]] = {}
    for piece in preview.pieces:
        if piece.mark is Mark.TEXT:
            texts.setdefault(piece.source, []).append(piece)
    colours: dict[str, int] = {OWN_TEXT: 0}
    for source in texts:
        if source != OWN_TEXT:
            colours[source] = (len(colours) - 1) % COLOURS + 1
    legend = [
        {
            "name": ("此文" if chinese else "this text") if source == OWN_TEXT else source,
            "colour": colours[source],
            "data": any(piece.trust is Trust.DATA for piece in pieces),
            "tokens": estimated_tokens("".join(piece.text for piece in pieces)),
            "address": _address(source, files),
        }
        for source, pieces in list(texts.items())[:MAX_LEGEND]
    ]
    return legend, colours


def _address(source: str, files: dict[str, str]) -> str:
    """The page of a source's file; empty where it has none."""
    kind, _, name = source.partition(":")
    if kind == "agent" and name in files:
        return f"{URL}/agents?file={quote(files[name])}"
    return f"{URL}/variables?file={quote(name)}" if kind == "TVStxt" else ""
