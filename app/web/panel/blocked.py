"""Addresses that are refused, and letting them come again (vcp-core 1.3, 1.8; B8)."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.errors import NotFoundError, both
from app.extend import DeclaredRoute, PageGroup, PanelPage
from app.web.admin_access import LoginAttempts
from app.web.blocking import AddressBlocks
from app.web.gate import CLIENT_IP
from app.web.panel.frame import URL, Panel, panel_route

PAGE = "blocked"
ROWS = 500


class BlockedPart:
    """The page of refused addresses: by failing tool calls, by wrong keys, by wrong passwords."""

    def __init__(self, panel: Panel, blocks: AddressBlocks, attempts: LoginAttempts) -> None:
        self._panel = panel
        self._blocks = blocks
        self._attempts = attempts

    def pages(self) -> Sequence[PanelPage]:
        """One."""
        words = "ip_blacklist 黑名单 封禁 解封 unblock blacklist login"
        return (PanelPage(PAGE, PageGroup.SYSTEM, "封禁地址", "Blocked addresses", 70, words),)

    def routes(self) -> Sequence[DeclaredRoute]:
        """The page and what it can do."""
        return (panel_route("/blocked", self._show), panel_route("/blocked", self._unblock, "POST"))

    async def _show(self, request: Request) -> Response:
        blocks = self._blocks.blocks()
        logins = self._attempts.blocked()
        return self._panel.page(
            request,
            "blocked.html",
            PAGE,
            blocks=blocks[:ROWS],
            block_count=len(blocks),
            logins=logins[:ROWS],
            login_count=len(logins),
            limit=ROWS,
            enabled=self._panel.services.settings.ip_blacklist,
            readable=self._blocks.readable,
            own=request.scope[CLIENT_IP],
            done=request.query_params.get("done") == "unblocked",
        )

    async def _unblock(self, request: Request) -> Response:
        form = await self._panel.form(request)
        address = form.get("address", "")
        if form.get("kind") == "login":
            found = self._attempts.blocked_for(address) > 0
            self._attempts.succeeded(address)
        else:
            found = await self._blocks.unblock(address)
        if not found:
            raise NotFoundError(both("此地址没有被封禁", "this address is not blocked"))
        return RedirectResponse(f"{URL}/blocked?done=unblocked", 303)
