"""Routes of the model API that are passed through as they are, after the key was seen to be right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, unquote

from starlette.datastructures import Headers
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from app.chat.payload import dumps, loads_request
from app.config.model_redirect import ModelRedirect
from app.config.settings import Settings
from app.errors import NotFoundError, UpstreamError, VcpError, both
from app.extend import Access, DeclaredRoute
from app.services import Services
from app.upstream.wire import StreamedBody
from app.web.body import BodyStream
from app.web.call_depth import call_depth
from app.web.errors import openai_error
from app.web.upstream_answers import ended_by_hang_up, relay

SETTING = "PassThroughRoutes"
HELD_BYTES = 256 * 1024
"""A body up to this size is read before it is sent, so that it can be sent again when a connection turns out dead."""

PASSED_HEADERS = ("content-type", "accept", "user-agent", "idempotency-key", "openai-beta")
"""What a client says that is meant for the model API; nothing else of its headers leaves the house."""

_SAFE = "/:@!$&'()*+,;=~"


class PassThrough:
    """The ``RouteSource`` of the setting ``PassThroughRoutes``."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> Sequence[DeclaredRoute]:
        """The routes that the setting of now names."""
        declared = []
        for entry in self._services.settings.pass_through_routes:
            method, _, path = entry.partition(" ")
            template = f"/v1/{path.removesuffix('*')}{{rest:path}}" if path.endswith("/*") else f"/v1/{path}"
            route = Route(template, PassThroughRoute(self._services), methods=[method])
            if method != "HEAD" and route.methods is not None:
                route.methods.discard("HEAD")  # an answer without a body would be waited for
            declared.append(DeclaredRoute(route, Access.KEY, brought_by=SETTING))
        return declared


class PassThroughRoute:
    """One route: the body goes up as it comes, the answer comes down as it comes.

    A JSON body is read whole, since the model in it decides which upstream serves it and may have another name there.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        services = self._services
        try:
            body = BodyStream(scope, receive, services.settings.pass_through_body_limit_mb * 1024 * 1024)
            await ended_by_hang_up(self._exchange(scope, send, body), receive, body.ended)
        except VcpError as error:
            await openai_error(error)(scope, receive, send)

    async def _exchange(self, scope: Scope, send: Send, body: BodyStream) -> None:
        services = self._services
        headers = Headers(scope=scope)
        path, model = _target(scope, services.model_redirect)
        sent: bytes | StreamedBody
        if _is_json(headers):
            sent = await body.beginning(services.settings.pass_through_body_limit_mb * 1024 * 1024 + 1)
            sent, named = redirected_body(sent, services.settings, services.model_redirect)
            model = named or model
        else:
            sent = await body.beginning(HELD_BYTES)
            if not body.ended.is_set():
                sent = StreamedBody(body.rest(sent), body.length)
        try:
            reply = await services.upstream.request(
                scope["method"],
                path,
                body=sent,
                headers=passed_headers(headers),
                model=model,
                depth=call_depth(headers, services.settings),
            )
        except UpstreamError:
            if isinstance(sent, StreamedBody) and sent.fault is not None:
                raise sent.fault from None  # it was the client's side that failed
            raise
        await relay(reply, scope, send)


def passed_headers(headers: Headers) -> dict[str, str]:
    """The client's headers that are meant for the model API."""
    return {name: headers[name] for name in PASSED_HEADERS if name in headers}


def redirected_body(data: bytes, settings: Settings, redirect: ModelRedirect) -> tuple[bytes, str]:
    """A JSON body with the upstream's name of its model, and that name; as it came when there is nothing to change.

    Models that a whitelist names are called the same everywhere (spec 1.6).
    """
    try:
        value: Any = loads_request(data) if data.strip() else None
    except (ValueError, RecursionError):
        return data, ""  # for the upstream to refuse
    model = value.get("model") if isinstance(value, dict) else None
    if not isinstance(model, str) or not model:
        return data, ""
    if model in settings.whitelist_image_model or model in settings.whitelist_embedding_model:
        return data, model
    internal = redirect.internal(model)
    return (data if internal == model else dumps({**value, "model": internal})), internal


def _is_json(headers: Headers) -> bool:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def _leads_elsewhere(rest: str) -> bool:
    """Whether a server behind us may read another path into this one: many drop ``;…``, decode twice, turn ``\\``."""
    parts = re.split(r"[/\\]", unquote(rest))
    return not rest.isprintable() or any(part.partition(";")[0] in ("", ".", "..") for part in parts)


def _target(scope: Scope, redirect: ModelRedirect) -> tuple[str, str]:
    """Path and query as the upstream gets them, and the model that the path names."""
    path, model = scope["path"], ""
    rest: str | None = scope.get("path_params", {}).get("rest")
    if rest is not None:
        if _leads_elsewhere(rest):
            raise NotFoundError(f"{both('没有此接口', 'no route')}: {scope['method']} {path}")
        if path.startswith("/v1/models/"):
            model = redirect.internal(rest)
            path = f"/v1/models/{model}"
    query = scope.get("query_string", b"").decode("latin-1")
    return quote(path, safe=_SAFE) + (f"?{query}" if query else ""), model
