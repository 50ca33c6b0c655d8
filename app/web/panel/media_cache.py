"""``media-cache``: leads to the page of the plugin that keeps descriptions of media, or says that it is off."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.extend import DeclaredRoute, PanelPage
from app.web.panel.frame import URL, Panel, panel_route

PLUGIN_PAGE = "plugin-pages/ImageProcessor/media-cache"


class MediaCachePart:
    """The short address of the page, whether its plugin is on or not."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel

    def pages(self) -> Sequence[PanelPage]:
        """None: the plugin brings the entry of the navigation."""
        return ()

    def routes(self) -> Sequence[DeclaredRoute]:
        """The address."""
        return (panel_route("/media-cache", self._lead),)

    async def _lead(self, request: Request) -> Response:
        if any(owned.page.path == PLUGIN_PAGE for owned in self._panel.services.in_process.pages()):
            return RedirectResponse(f"{URL}/{PLUGIN_PAGE}", 303)
        return self._panel.page(request, "media_cache.html", "media-cache")
