"""Pages that plugins inside the server bring."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from app.errors import NotFoundError, both
from app.extend import DeclaredRoute, PageVisit, PanelPage
from app.web.panel.frame import Panel, panel_route


class PluginPagesPart:
    """One route for all of them: which pages there are changes with the plugins."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel

    def pages(self) -> Sequence[PanelPage]:
        """Those of the plugins that are loaded now."""
        return [owned.page for owned in self._panel.services.in_process.pages()]

    def routes(self) -> Sequence[DeclaredRoute]:
        """The page and its forms."""
        return (panel_route("/plugin-pages/{plugin}/{path}", self._show, "GET", "POST"),)

    async def _show(self, request: Request) -> Response:
        address = f"plugin-pages/{request.path_params['plugin']}/{request.path_params['path']}"
        owned = next((one for one in self._panel.services.in_process.pages() if one.page.path == address), None)
        if owned is None:
            raise NotFoundError(both("没有此页面，插件可能已停用", "no such page; its plugin may be off"))
        form = await self._panel.form(request) if request.method == "POST" else {}
        visit = PageVisit(self._panel.language(request), request.method, dict(request.query_params), form)
        content = await owned.content(visit)
        # The plugin runs inside the server and is the operator's own code; what it shows is its to escape.
        return self._panel.page(
            request, "plugin_page.html", owned.page.path, entry=owned.page, content=Markup(content), plugin=owned.plugin
        )
