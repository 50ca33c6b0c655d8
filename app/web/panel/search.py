"""The search of the top bar: pages by their names, and what the parts of the panel find."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from app.extend import DeclaredRoute, PanelPage, SearchHit
from app.web.panel.frame import Panel, PanelPart, panel_route, search_hits

MAX_CHARS = 100
HITS_OF_PART = 6


class SearchPart:
    """One route that answers with a list of links."""

    def __init__(self, panel: Panel, parts: Sequence[PanelPart]) -> None:
        self._panel = panel
        self._parts = parts

    def pages(self) -> Sequence[PanelPage]:
        """None: the search is on every page."""
        return ()

    def routes(self) -> Sequence[DeclaredRoute]:
        """The list."""
        return (panel_route("/search", self._answer),)

    async def _answer(self, request: Request) -> Response:
        words = request.query_params.get("q", "").strip()[:MAX_CHARS]
        hits: list[SearchHit] = []
        if words:
            hits += self._pages_with(words.lower())
            hits += await search_hits(self._parts, words, HITS_OF_PART)
        return self._panel.fragment(request, "search.html", words=words, hits=hits)

    def _pages_with(self, words: str) -> Sequence[SearchHit]:
        pages = [page for group in self._panel.navigation().values() for page in group]
        return [
            SearchHit(page.chinese, page.english, page.address)
            for page in pages
            if words in f"{page.chinese} {page.english} {page.words} {page.path}".lower()
        ][:HITS_OF_PART]
