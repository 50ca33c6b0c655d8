"""What needs attention: the bell of every page, the list on the dashboard, a page of its own."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from app.extend import DeclaredRoute, PanelPage
from app.services.attention import Kind, attention
from app.web.panel.frame import Panel, panel_route


class AttentionPart:
    """``/AdminPanel/attention``: a page; with ``count`` what the bell shows; with ``list`` the list alone."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel

    def pages(self) -> Sequence[PanelPage]:
        """None: the bell leads here."""
        return ()

    def routes(self) -> Sequence[DeclaredRoute]:
        """All in one."""
        return (panel_route("/attention", self._show),)

    async def _show(self, request: Request) -> Response:
        found = await attention(self._panel.services)
        if "count" in request.query_params:
            urgent = [one.kind for one in found if one.kind is not Kind.INFO]
            return self._panel.fragment(request, "attention_bell.html", count=len(urgent))
        pages = {page.path for group in self._panel.navigation().values() for page in group}
        if "list" in request.query_params:
            return self._panel.fragment(request, "attention_list.html", found=found, pages=pages)
        return self._panel.page(request, "attention.html", "attention", found=found, pages=pages)
