"""The only place that writes HTTP errors, in the two shapes of decision D26."""

from __future__ import annotations

import html
import logging
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.chat.payload import dumps
from app.errors import BadRequestError, BodyTimeoutError, NotFoundError, VcpError, both
from app.protocol.chat import error_object
from app.protocol.markers import FATAL_ERROR
from app.web.headers import raw_header
from app.web.paths import shown_path

log = logging.getLogger(__name__)

OPENAI_PATHS = frozenset({"/v1/chat/completions", "/v1/chatvcp/completions", "/v1/models", "/v1/embeddings"})
"""Routes whose errors are OpenAI error objects; all others answer ``{"error": "text"}``."""


class JsonResponse(Response):
    """JSON in UTF-8 with the content type that clients of the reference server know."""

    media_type = "application/json; charset=utf-8"

    def __init__(self, content: Any, status_code: int = 200, headers: dict[str, str] | None = None) -> None:
        super().__init__(dumps(content), status_code)
        for name, value in (headers or {}).items():
            self.raw_headers.append(raw_header(name, value))


def error_response(path: str, error: VcpError) -> JsonResponse:
    """The answer for an error on this (canonical) path."""
    if path in OPENAI_PATHS:
        return openai_error(error)
    return JsonResponse({"error": error.message}, error.status, _headers(error))


def _headers(error: VcpError) -> dict[str, str] | None:
    return {"Connection": "close"} if isinstance(error, BodyTimeoutError) else None  # its rest may still come


def openai_error(error: VcpError) -> JsonResponse:
    """An error as an OpenAI error object; official clients show the message of no other shape."""
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    return JsonResponse(error_object(error.message, kind, error.code), error.status, _headers(error))


async def send_error(scope: Scope, receive: Receive, send: Send, error: VcpError) -> None:
    """Write the error's answer."""
    await error_response(scope["path"], error)(scope, receive, send)


def path_key_error(status: int, text: str) -> Response:
    """The answer of routes with a key in their path (spec 1.11)."""
    return PlainTextResponse(text, status)


def admin_error(
    status: int,
    error: str,
    explained: str,
    *,
    as_json: bool,
    told: bool = True,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """What somebody gets who is no administrator: JSON, with ``explained`` if ``told``, or a small page (spec 1.3)."""
    if as_json:
        content = {"error": error, "message": explained} if told else {"error": error}
        return JsonResponse(content, status, dict(headers or {}))
    page = (
        '<!doctype html><html lang="zh"><head><meta charset="utf-8">'
        f"<title>{html.escape(error)}</title></head>"
        f"<body><h1>{html.escape(error)}</h1><p>{html.escape(explained)}</p></body></html>"
    )
    return HTMLResponse(page, status, headers)


def install_error_handlers(app: FastAPI, page: Callable[[Request], Response | None]) -> None:
    """Answer everything that goes wrong in a route, without a stack trace (B13).

    ``page`` gives a person the page of an address that nothing has; None where no person asks for a page.
    """

    async def known(request: Request, error: Exception) -> Response:
        assert isinstance(error, VcpError)
        return error_response(request.scope["path"], error)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path = request.scope["path"]
        if (shown := page(request)) is not None:
            return shown
        if error.status_code == 404:
            return error_response(path, NotFoundError(f"{both('没有此接口', 'no route')}: {request.method} {path}"))
        answer = BadRequestError(f"{both('请求不被接受', str(error.detail))}: {request.method} {path}")
        answer.status = error.status_code
        response = error_response(path, answer)
        response.headers.update(dict(error.headers or {}))
        return response

    app.add_exception_handler(VcpError, known)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, _unknown)


def guarded(route: ASGIApp) -> ASGIApp:
    """A route outside the application's own layers: what goes wrong in it is answered as in all others (B13)."""
    return ServerErrorMiddleware(route, handler=_unknown)


async def _unknown(request: Request, error: Exception) -> Response:
    log.error("request %s %s failed", request.method, shown_path(request.scope["path"]), exc_info=error)
    return error_response(request.scope["path"], VcpError(FATAL_ERROR))
