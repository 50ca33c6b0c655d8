"""``GET /metrics`` in the text format of Prometheus (D35)."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.extend import Access, DeclaredRoute
from app.observe.metrics import CONTENT_TYPE
from app.services import Services

METRICS_PATH = "/metrics"


class MetricsRoute:
    """The ``RouteSource`` of the numbers: they need the key unless ``MetricsPublic`` says otherwise."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._route = Route(METRICS_PATH, self._answer, methods=["GET"])

    def routes(self) -> Sequence[DeclaredRoute]:
        """The route, with the access of now."""
        public = self._services.settings.metrics_public
        return (DeclaredRoute(self._route, Access.OPEN if public else Access.KEY),)

    async def _answer(self, _request: Request) -> Response:
        return Response(self._services.metrics.text(), headers={"Content-Type": CONTENT_TYPE})
