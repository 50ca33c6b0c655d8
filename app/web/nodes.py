"""``GET /v1/nodes``: which far nodes are connected and how they are, for ``vcp nodes``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fastapi import APIRouter
from starlette.responses import Response

from app.hub.nodes.state import NodeState
from app.web.errors import JsonResponse


def nodes_routes(states: Callable[[], Sequence[NodeState]]) -> APIRouter:
    """The routes of this group; ``states`` gives the nodes of now."""
    router = APIRouter()

    @router.head("/v1/nodes", include_in_schema=False)
    @router.get("/v1/nodes", summary="Connected nodes")
    async def nodes() -> Response:
        return JsonResponse({"nodes": [state.as_json() for state in states()]})

    return router
