"""``/healthz`` and ``/readyz``: open, one word each (decision D35)."""

from __future__ import annotations

import logging

from fastapi import APIRouter
from starlette.responses import PlainTextResponse

from app.services import Services

log = logging.getLogger(__name__)


def health_routes(services: Services) -> APIRouter:
    """The routes of this group."""
    router = APIRouter()
    told = ""

    @router.head("/healthz", include_in_schema=False)
    @router.get("/healthz", summary="The process answers", response_class=PlainTextResponse)
    async def healthz() -> PlainTextResponse:
        return PlainTextResponse("ok")

    @router.head("/readyz", include_in_schema=False)
    @router.get("/readyz", summary="Requests are served", response_class=PlainTextResponse)
    async def readyz() -> PlainTextResponse:
        nonlocal told
        if services.ready:
            told = ""
            return PlainTextResponse("ready")
        if not services.started:
            return PlainTextResponse("starting", 503)
        trouble = services.trouble()
        if trouble != told:  # the answer is open to everybody: what is wrong is for the log, once
            log.warning("not ready: %s", trouble)
            told = trouble
        return PlainTextResponse("unwell", 503)

    return router
