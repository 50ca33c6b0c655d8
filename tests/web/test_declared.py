"""Routes of further parts: served with the access they declare, refused when they declare none that is known."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.types import ASGIApp

from app.errors import ConfigError
from app.extend import Access, DeclaredRoute
from app.services import Services
from app.web.app import create_app
from tests.web.asgi import BEARER, KEY, ask, services_in


class Brought:
    """Routes as a part brings them."""

    def __init__(self, *declared: Any) -> None:
        self._declared = declared

    def routes(self) -> Sequence[DeclaredRoute]:
        return self._declared


async def path_seen(request: Request) -> PlainTextResponse:
    return PlainTextResponse(request.url.path)


def route(path: str, *methods: str) -> Route:
    return Route(path, path_seen, methods=list(methods or ("GET",)))


def declared(path: str, access: Access, *methods: str) -> DeclaredRoute:
    return DeclaredRoute(route(path, *methods), access)


def app_with(home: Path, *sources: Brought) -> ASGIApp:
    return create_app(Services(services_in(home).config, KEY, routes=sources))


@pytest.mark.parametrize("path", ["/part/Ab", "/PART/Ab", "/part//Ab/"])
def test_a_route_that_declares_the_key_needs_it_in_every_spelling(tmp_path: Path, path: str) -> None:
    app = app_with(tmp_path, Brought(declared("/part/{name}", Access.KEY)))
    assert asyncio.run(ask(app, "GET", path)).status == 401
    answer = asyncio.run(ask(app, "GET", path, BEARER))
    assert (answer.status, answer.body) == (200, b"/part/Ab")


@pytest.mark.parametrize("path", ["/metrics", "/Metrics", "//metrics/"])
def test_a_route_that_declares_itself_open_is_open_in_every_spelling(tmp_path: Path, path: str) -> None:
    app = app_with(tmp_path, Brought(declared("/part", Access.KEY)), Brought(declared("/metrics", Access.OPEN)))
    answer = asyncio.run(ask(app, "GET", path))
    assert (answer.status, answer.body) == (200, b"/metrics")
    assert asyncio.run(ask(app, "GET", "/part")).status == 401
    assert asyncio.run(ask(app, "GET", "/metrics/x")).status == 401


def test_a_route_of_the_framework_is_served_and_described(tmp_path: Path) -> None:
    router = APIRouter()

    @router.get("/part")
    async def part() -> dict[str, str]:
        return {"said": "yes"}

    app = app_with(tmp_path, Brought(DeclaredRoute(router.routes[0], Access.OPEN)))
    assert asyncio.run(ask(app, "GET", "/part")).json == {"said": "yes"}
    document = asyncio.run(ask(app, "GET", "/openapi.json", BEARER)).json
    assert document["paths"]["/part"]["get"]["security"] == []


def test_errors_of_such_a_route_are_answered_as_everywhere(tmp_path: Path) -> None:
    app = app_with(tmp_path, Brought(declared("/part", Access.KEY)))
    answer = asyncio.run(ask(app, "POST", "/part", BEARER))
    assert (answer.status, list(answer.json)) == (405, ["error"])


OTHERS: list[BaseRoute] = [WebSocketRoute("/hub", path_seen), Mount("/hub", routes=[route("/x")])]


@pytest.mark.parametrize(
    ("brought", "said"),
    [
        ([route("/bare")], r"/bare.*access is None"),
        ([DeclaredRoute(route("/none"), None)], r"/none.*access is None"),
        ([declared("/panel", Access.ADMIN)], r"/panel.*access is admin"),
        ([declared("/pw/{key}", Access.PATH_KEY)], r"/pw/\{key\}.*access is path_key"),
        *(([DeclaredRoute(other, Access.KEY)], r"/hub.*only HTTP") for other in OTHERS),
        ([declared("/v1/models", Access.OPEN)], r"/v1/models.*the server's own"),
        ([declared("/healthz", Access.KEY, "POST")], r"/healthz.*the server's own"),
        ([declared("/open/{name}", Access.OPEN)], r"/open/\{name\}.*parameters"),
        ([declared("/{any}", Access.KEY)], r"/\{any\}.*/healthz is open"),
        ([declared("/a/b", Access.OPEN), declared("/a/{x}", Access.KEY, "POST")], r"/a/\{x\}.*/a/b is open"),
        ([declared("/a", Access.OPEN), declared("/a", Access.KEY, "POST")], r"/a.*/a is open"),
    ],
)
def test_what_could_be_open_by_oversight_is_refused_by_name(tmp_path: Path, brought: list[Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        app_with(tmp_path, Brought(*brought))
