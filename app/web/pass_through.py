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
from app.upstream.reply import Reply
from app.upstream.wire import StreamedBody
from app.web.body import BodyStream
from app.web.call_depth import call_depth
from app.web.errors import openai_error
from app.web.form_model import FormScan
from app.web.model_names import with_public_name
from app.web.upstream_answers import copied_headers, ended_by_hang_up, relay

SETTING = "PassThroughRoutes"
HELD_BYTES = 256 * 1024
"""A body up to this size is read before it is sent, so that it can be sent again when a connection turns out dead."""

MAX_MODEL_BYTES = 1024 * 1024
"""Bytes of what is said of one model."""

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

    A JSON body is read whole, since the model in it decides which upstream serves it and may have another name there;
    of a form only what comes before its model is held.
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
        public = _named(scope) if model else ""
        sent: bytes | StreamedBody
        if _is_json(headers):
            sent = await body.beginning(services.settings.pass_through_body_limit_mb * 1024 * 1024 + 1)
            sent, named = redirected_body(sent, services.settings, services.model_redirect)
            model = named or model
        else:
            sent, named = await self._upload(body, headers)
            model = named or model
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
        if reply.status == 200 and public != model:
            await _answer_under(public, model, reply, send)
        else:
            await relay(reply, scope, send)

    async def _upload(self, body: BodyStream, headers: Headers) -> tuple[bytes | StreamedBody, str]:
        """A body that is no JSON, with the upstream's name of its model, and that name; empty where none is named.

        What a form says is looked for only where it matters: with several upstreams, or with names of our own. Then
        the upload is held until its model has come.
        """
        services = self._services
        held = bytearray(await body.beginning(HELD_BYTES))
        scan = FormScan(headers.get("content-type", ""))
        found = None
        if services.upstream.has_several or services.model_redirect.public_names():
            found = scan.find(held)
            while not (found or scan.over or body.ended.is_set()):
                held += await body.next()
                found = scan.find(held)
        name, grown = "", 0
        if found is not None:
            name = upstream_name(found.name, services.settings, services.model_redirect)
            written = name.encode("utf-8", "surrogateescape")
            grown = len(written) - (found.end - found.start)
            held[found.start : found.end] = written
        if body.ended.is_set():
            return bytes(held), name
        return StreamedBody(body.rest(bytes(held)), None if body.length is None else body.length + grown), name


def passed_headers(headers: Headers) -> dict[str, str]:
    """The client's headers that are meant for the model API."""
    return {name: headers[name] for name in PASSED_HEADERS if name in headers}


def redirected_body(data: bytes, settings: Settings, redirect: ModelRedirect) -> tuple[bytes, str]:
    """A JSON body with the upstream's name of its model, and that name; as it came when there is nothing to change."""
    try:
        value: Any = loads_request(data) if data.strip() else None
    except (ValueError, RecursionError):
        return data, ""  # for the upstream to refuse
    model = value.get("model") if isinstance(value, dict) else None
    if not isinstance(model, str) or not model:
        return data, ""
    name = upstream_name(model, settings, redirect)
    return (data if name == model else dumps({**value, "model": name})), name


def upstream_name(model: str, settings: Settings, redirect: ModelRedirect) -> str:
    """What the upstream calls a model. Models that a whitelist names are called the same everywhere (spec 1.6)."""
    if model in settings.whitelist_image_model or model in settings.whitelist_embedding_model:
        return model
    return redirect.internal(model)


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
    if "rest" in scope.get("path_params", {}):
        rest = _named(scope)
        if _leads_elsewhere(rest):
            raise NotFoundError(f"{both('没有此接口', 'no route')}: {scope['method']} {path}")
        if path.startswith("/v1/models/"):
            model = redirect.internal(rest)
            path = f"/v1/models/{model}"
    query = scope.get("query_string", b"").decode("latin-1")
    return quote(path, safe=_SAFE) + (f"?{query}" if query else ""), model


def _named(scope: Scope) -> str:
    """What stands in the place of the star."""
    rest: str = scope.get("path_params", {}).get("rest", "")
    return rest


async def _answer_under(public: str, internal: str, reply: Reply, send: Send) -> None:
    """What the upstream says of one model, under the name that the client asked for, as in the list (spec 1.5)."""
    async with reply:
        data = with_public_name(await reply.read_all(MAX_MODEL_BYTES), internal, public)
    headers = [*copied_headers(reply), (b"content-length", str(len(data)).encode())]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": data})
