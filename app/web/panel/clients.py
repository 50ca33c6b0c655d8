"""Who is connected: nodes, tool clients and all others; ending a connection; keys of nodes (vcp-core 6; B15)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.errors import ConfigError, NotFoundError, both
from app.extend import DeclaredRoute, PageGroup, PanelPage, SearchHit
from app.hub.clients import Client, ClientType
from app.hub.nodes.key_file import NodeKey, limit_node_tools, make_node_key, read_node_keys, revoke_node_key
from app.web.panel.frame import URL, Panel, panel_route

PAGE = "clients"
ROWS = 200
SHOWN_TOOLS = 8
GOING_AWAY = 1001
"""The close code of a connection that an administrator ends."""

KINDS: Mapping[ClientType, tuple[str, str]] = {
    ClientType.VCP_LOG: ("通知客户端", "Notifications (VCPLog)"),
    ClientType.VCP_INFO: ("信息客户端", "Details (VCPInfo)"),
    ClientType.CHROME_OBSERVER: ("浏览器扩展", "Browser extension"),
    ClientType.CHROME_CONTROL: ("浏览器控制", "Browser control"),
    ClientType.ADMIN_PANEL: ("管理面板", "Admin panel"),
    ClientType.TOOL_CLIENT: ("工具客户端", "Tool client"),
}
"""All types but nodes, which have a table of their own."""

DONE = {
    "ended": (
        "连接已断开。程序通常会自动重连。",
        "The connection was ended. Programs mostly connect again by themselves.",
    ),
    "limited": ("可提供的工具已保存。", "The list of tools was saved."),
    "revoked": ("密钥已作废，该节点的连接会随即断开。", "The key counts no longer; that node is hung up."),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A client that is no node, with the names of the tools that it brings."""

    client: Client
    tools: tuple[str, ...] = ()


class ClientsPart:
    """The page of connections and the one of node keys."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel

    def pages(self) -> Sequence[PanelPage]:
        """One."""
        words = "WebSocket VCPLog 分布式 distributed node key 密钥 vcp node Chrome"
        return (PanelPage(PAGE, PageGroup.SYSTEM, "客户端与节点", "Clients and nodes", 30, words),)

    def routes(self) -> Sequence[DeclaredRoute]:
        """Connections and keys."""
        return (
            panel_route("/clients", self._show),
            panel_route("/clients/connected", self._rows),
            panel_route("/clients/end", self._end, "POST"),
            panel_route("/clients/keys", self._keys),
            panel_route("/clients/keys", self._make_key, "POST"),
            panel_route("/clients/keys/limit", self._limit, "POST"),
            panel_route("/clients/keys/revoke", self._revoke, "POST"),
        )

    async def find(self, words: str, limit: int) -> Sequence[SearchHit]:
        """Connected nodes by name."""
        names = [node.name for node in self._panel.services.nodes.list() if words.lower() in node.name.lower()]
        return [SearchHit(f"节点 {name}", f"Node {name}", f"{URL}/{PAGE}") for name in names[:limit]]

    # ------------------------------------------------------------------ connections

    async def _show(self, request: Request) -> Response:
        return self._panel.page(request, "clients.html", PAGE, done=_done(request), **self._connected())

    async def _rows(self, request: Request) -> Response:
        return self._panel.fragment(request, "clients_connected.html", **self._connected())

    def _connected(self) -> Mapping[str, Any]:
        services = self._panel.services
        nodes = services.nodes.list()
        rows = [Row(client) for kind in KINDS for client in services.hub.clients(kind)]
        rows += [Row(client, services.tool_clients.tools_of(client)) for client in services.tool_clients.clients()]
        return {
            "nodes": nodes[:ROWS],
            "node_count": len(nodes),
            "rows": rows[:ROWS],
            "count": len(rows),
            "limit": ROWS,
            "kinds": KINDS,
            "shown_tools": SHOWN_TOOLS,
            "now": time.time(),
        }

    async def _end(self, request: Request) -> Response:
        wanted = (await self._panel.form(request)).get("client", "")
        services = self._panel.services
        everybody = [client for kind in ClientType for client in services.hub.clients(kind)]
        client = next((one for one in (*everybody, *services.tool_clients.clients()) if one.id == wanted), None)
        if client is None:
            raise NotFoundError(both("此客户端已断开", "this client is gone already"))
        client.close(GOING_AWAY, "ended by an administrator")
        return RedirectResponse(f"{URL}/clients?done=ended", 303)

    # ------------------------------------------------------------------ keys of nodes

    async def _keys(self, request: Request) -> Response:
        return await self._keys_page(request)

    async def _keys_page(
        self,
        request: Request,
        *,
        fault: str = "",
        form: Mapping[str, str] | None = None,
        made: str = "",
        status: int = 200,
    ) -> Response:
        services = self._panel.services
        keys: Sequence[NodeKey] = ()
        problems: Sequence[str] = ()
        broken = ""
        try:
            file = await asyncio.to_thread(read_node_keys, services.in_force.home)
            keys, problems = sorted(file.keys.values(), key=lambda key: (key.revoked, key.name)), file.problems
        except ConfigError as error:
            broken = error.message
        connected = {node.identity for node in services.nodes.list()}
        return self._panel.page(
            request,
            "clients_keys.html",
            PAGE,
            status=status,
            keys=keys,
            problems=problems,
            broken=broken,
            fault=fault,
            form=form or {},
            made=made,
            connected=connected,
            only_keys=services.settings.node_keys_only,
            done=_done(request),
        )

    async def _make_key(self, request: Request) -> Response:
        form = await self._panel.form(request)
        name, home = form.get("name", "").strip(), self._panel.services.in_force.home
        tools = _tools(form.get("tools", ""))
        try:
            made = await asyncio.to_thread(make_node_key, home, name, time.time(), tools=tools, any_tool=tools is None)
        except ConfigError as error:
            return await self._keys_page(request, fault=error.message, form=form, status=400)
        return await self._keys_page(request, made=made, form={"name": name})

    async def _limit(self, request: Request) -> Response:
        form = await self._panel.form(request)
        home, tools = self._panel.services.in_force.home, _tools(form.get("tools", ""))
        try:
            await asyncio.to_thread(limit_node_tools, home, form.get("name", ""), tools)
        except ConfigError as error:
            return await self._keys_page(request, fault=error.message, status=400)
        return RedirectResponse(f"{URL}/clients/keys?done=limited", 303)

    async def _revoke(self, request: Request) -> Response:
        form = await self._panel.form(request)
        await asyncio.to_thread(revoke_node_key, self._panel.services.in_force.home, form.get("name", ""))
        return RedirectResponse(f"{URL}/clients/keys?done=revoked", 303)


def _tools(text: str) -> tuple[str, ...] | None:
    """Names of tools by lines or commas; None, any tool, for an empty text."""
    names = [name.strip() for name in text.replace(",", "\n").replace("，", "\n").splitlines()]
    return tuple(name for name in names if name) or None


def _done(request: Request) -> tuple[str, str] | None:
    return DONE.get(request.query_params.get("done", ""))
