"""MCP servers and groups of tools: how they are, starting and stopping, consent, signing in, their files."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.config.operator_file import OperatorFile
from app.errors import BadRequestError, VcpError, both
from app.extend import DeclaredRoute, PageGroup, PanelPage, SearchHit
from app.mcp.client.status import ServerStatus
from app.mcp.groups.groups import Group
from app.mcp.groups.measure import Measured, measured
from app.protocol.token_estimate import estimated_tokens
from app.services.operator_files import groups_of, servers_of
from app.services.tool_watch import clean_text
from app.tools.descriptions import describe
from app.web.admin.mcp import ACTIONS, begin_sign_in, consent, hand_on, sign_out, steer
from app.web.mcp_servers import MAX_DIFF_CHARS, MAX_TEXT_CHARS, server_facts
from app.web.panel.frame import Panel, panel_route

TABS = ("servers", "groups", "file", "groups-file")
MAX_SHOWN = 200
"""Servers, and groups, of one page."""

MAX_NAMES = 1_500
"""Names of tools that are listed in one page."""

MAX_DETAILS_CHARS = 2_000
CHANGED_CHARS = 60_000
"""Of old and new words of changed tools in one page; those beyond are shown when people have decided on the first."""


@dataclass(frozen=True, slots=True)
class GroupLine:
    """A group as the page shows it; ``tokens`` are those of the descriptions of its tools, estimated."""

    group: Group
    tools: tuple[str, ...]
    more: int
    tokens: int


class McpPart:
    """The page, and what its forms do."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._services = panel.services
        self._clean = clean_text(panel.services)

    def pages(self) -> Sequence[PanelPage]:
        """One."""
        words = "mcp server 服务器 groups 分组 consent 同意 oauth 登录 sign-in mcp_servers.json tool_groups.json"
        return (PanelPage("mcp", PageGroup.TOOLS, "MCP 与分组", "MCP and groups", 20, words),)

    def routes(self) -> Sequence[DeclaredRoute]:
        """The page, and its forms."""
        return (
            panel_route("/mcp", self._show),
            panel_route("/mcp-act/{name}", self._act, "POST"),
            panel_route("/mcp-consent/{name}", self._consent, "POST"),
            panel_route("/mcp-sign-in/{name}", self._sign_in, "POST"),
            panel_route("/mcp-address/{name}", self._hand_on, "POST"),
            panel_route("/mcp-sign-out/{name}", self._sign_out, "POST"),
        )

    async def find(self, words: str, limit: int) -> Sequence[SearchHit]:
        """Servers by name."""
        names = [status.name for status in self._services.mcp.upstream_servers.states()]
        found = [name for name in names if words.lower() in name.lower()]
        return [SearchHit(f"MCP 服务器 {name}", f"MCP server {name}", "/AdminPanel/mcp") for name in found[:limit]]

    async def _show(self, request: Request) -> Response:
        tab = request.query_params.get("tab", "")
        tab = tab if tab in TABS else TABS[0]
        if tab == "servers":
            values = await self._servers()
            if "hx-request" in request.headers and "hx-history-restore-request" not in request.headers:
                return self._panel.fragment(request, "mcp_servers.html", **values)
        elif tab == "groups":
            values = await self._groups()
        else:
            file = (servers_of if tab == "file" else groups_of)(self._services.in_force)
            edited = await asyncio.to_thread(file.read)
            values = {
                "file": edited,
                "file_name": file.path.name,
                "save": "/admin_api/mcp-servers/file" if tab == "file" else "/admin_api/tool-groups/file",
                "problems": await asyncio.to_thread(file.problems, edited.text),
            }
        return self._panel.page(request, "mcp.html", "mcp", tab=tab, **values)

    async def _servers(self) -> dict[str, Any]:
        states = self._services.mcp.upstream_servers.states()
        room = _Room(MAX_NAMES, CHANGED_CHARS)
        shown = [await self._server(status, room) for status in states[:MAX_SHOWN]]
        problems = await asyncio.to_thread(_problems_of, servers_of(self._services.in_force))
        return {"servers": shown, "more": max(0, len(states) - MAX_SHOWN), "problems": problems}

    async def _server(self, status: ServerStatus, room: _Room) -> Mapping[str, Any]:
        facts = await server_facts(self._services, status)
        if facts.get("changed"):
            facts = room.with_changes(facts)
        specs = self._services.router.specs()
        names = [name for name, spec in specs.items() if spec.origin == f"mcp:{status.name}"]
        shown = room.names(names)
        return {
            **facts,
            "error": self._clean(status.error),
            "details": self._clean(status.details[-MAX_DETAILS_CHARS:]) if status.details != status.error else "",
            "names": shown,
            "more": len(names) - len(shown),
        }

    async def _groups(self) -> dict[str, Any]:
        now = self._services.mcp.tool_groups.of_now()

        def looked_at() -> tuple[Measured, list[GroupLine]]:
            room = _Room(MAX_NAMES, 0)
            return measured(now), [_line(group, room) for group in list(now.groups.values())[:MAX_SHOWN]]

        numbers, lines = await asyncio.to_thread(looked_at)
        settings = self._services.settings
        return {
            "lines": lines,
            "more": max(0, len(now.groups) - MAX_SHOWN),
            "numbers": numbers,
            "automatic": settings.tool_groups_auto,
            "problems": await asyncio.to_thread(_problems_of, groups_of(self._services.in_force)),
        }

    # --- what forms do ----------------------------------------------------------------------------------------------

    async def _act(self, request: Request) -> Response:
        action = (await self._panel.form(request)).get("action", "")
        if action not in ACTIONS:
            raise BadRequestError(both("未知的操作", "no such action"))
        return self._said(request, await steer(self._services, request.path_params["name"], action))

    async def _consent(self, request: Request) -> Response:
        tools = {
            name.removeprefix("tool:"): digest
            for name, digest in (await self._panel.form(request)).items()
            if name.startswith("tool:") and digest
        }
        if not tools:
            raise BadRequestError(both("没有选择工具", "no tool was chosen"))
        accepted = await consent(self._services, request.path_params["name"], tools)
        return self._said(request, both(f"已同意 {len(accepted)} 个工具。", f"Consented to {len(accepted)} tools."))

    async def _sign_in(self, request: Request) -> Response:
        return self._said(request, begin_sign_in(self._services, request.path_params["name"]))

    async def _hand_on(self, request: Request) -> Response:
        address = (await self._panel.form(request)).get("address", "")
        return self._said(request, await hand_on(self._services, request.path_params["name"], address))

    async def _sign_out(self, request: Request) -> Response:
        return self._said(request, await sign_out(self._services, request.path_params["name"]))

    def _said(self, request: Request, message: str) -> Response:
        chinese, _, english = message.partition(" / ")
        return self._panel.told(request, chinese, english or chinese, events={"mcp-changed": {}})


def _problems_of(file: OperatorFile) -> tuple[str, ...]:
    """What is wrong with a file, so that nobody takes one that cannot be used for an empty one."""
    try:
        return file.problems(file.read().text)
    except VcpError as error:
        return (error.message,)
    except OSError as fault:
        return (f"{file.path.name}: {fault.strerror or fault}",)


class _Room:
    """What still fits into a page: names of tools, and characters of changed ones."""

    def __init__(self, names: int, chars: int) -> None:
        self._names = names
        self._chars = chars

    def names(self, wanted: Sequence[str]) -> tuple[str, ...]:
        """As many of the names as still fit."""
        shown = tuple(wanted[: max(0, self._names)])
        self._names -= len(shown)
        return shown

    def with_changes(self, facts: dict[str, Any]) -> dict[str, Any]:
        """The facts with those changed tools that still fit, always the first; the others by name only."""
        shown: list[Mapping[str, Any]] = []
        for tool in facts["changed"]:
            self._chars -= sum(len(tool[part]) for part in ("old", "new", "diff"))
            if shown and self._chars < 0:
                break
            shown.append({**tool, "cut": _is_cut(tool)})
        left = [tool["name"] for tool in facts["changed"][len(shown) :]]
        return {**facts, "changed": shown, "alsoChanged": [*left, *facts["alsoChanged"]]}


def _is_cut(tool: Mapping[str, Any]) -> bool:
    texts = len(tool["old"]) >= MAX_TEXT_CHARS or len(tool["new"]) >= MAX_TEXT_CHARS
    return texts or len(tool["diff"]) >= MAX_DIFF_CHARS


def _line(group: Group, room: _Room) -> GroupLine:
    names = list(group.members)
    specs = {member.offered.spec.name: member.offered.spec for member in group.members.values()}
    tokens = sum(estimated_tokens(describe(spec) or "") for spec in specs.values())
    shown = room.names(names)
    return GroupLine(group, shown, len(names) - len(shown), tokens)
