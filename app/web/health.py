"""``/healthz`` and ``/readyz``: open, one word each (decision D35)."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import PlainTextResponse

from app.services import Services


def health_routes(services: Services) -> APIRouter:
    """The routes of this group."""
    router = APIRouter()

    @router.head("/healthz", include_in_schema=False)
    @router.get("/healthz", summary="The process answers", response_class=PlainTextResponse)
    async def healthz() -> PlainTextResponse:
        return PlainTextResponse("ok")

    @router.head("/readyz", include_in_schema=False)
    @router.get("/readyz", summary="Requests are served", response_class=PlainTextResponse)
    async def readyz() -> PlainTextResponse:
        return PlainTextResponse("ready") if services.ready else PlainTextResponse("starting", 503)

    return router
