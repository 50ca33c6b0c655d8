"""Routes of further parts: served with the access they declare, refused when they declare none that is known."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fastapi import APIRouter
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Match, Mount, Route, WebSocketRoute
from starlette.types import ASGIApp

from app.errors import ConfigError
from app.extend import Access, DeclaredRoute, PathKey, Reloaded
from app.services import Services
from app.web.app import create_app
from app.web.declared import served_routes
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


@pytest.mark.parametrize("path", ["/numbers", "/Numbers", "//numbers/"])
def test_a_route_that_declares_itself_open_is_open_in_every_spelling(tmp_path: Path, path: str) -> None:
    app = app_with(tmp_path, Brought(declared("/part", Access.KEY)), Brought(declared("/numbers", Access.OPEN)))
    answer = asyncio.run(ask(app, "GET", path))
    assert (answer.status, answer.body) == (200, b"/numbers")
    assert asyncio.run(ask(app, "GET", "/part")).status == 401
    assert asyncio.run(ask(app, "GET", "/numbers/x")).status == 401


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


KEYED = PathKey("key", lambda: "pw", "wrong", "missing")
OTHERS: list[BaseRoute] = [WebSocketRoute("/hub", path_seen), Mount("/hub", routes=[route("/x")])]


@pytest.mark.parametrize(
    ("brought", "said"),
    [
        ([route("/bare")], r"/bare.*access is None"),
        ([DeclaredRoute(route("/none"), None)], r"/none.*access is None"),
        ([declared("/pw/{key}", Access.PATH_KEY)], r"/pw/\{key\}.*which key"),
        ([DeclaredRoute(route("/pw/{k}"), Access.PATH_KEY, KEYED)], r"/pw/\{k\}.*no parameter key"),
        ([declared("/admin_api/x", Access.KEY)], r"/admin_api/x.*administrators"),
        ([declared("/AdminPanel/x", Access.OPEN)], r"/AdminPanel/x.*administrators"),
        ([declared("/ADMIN_API/{x}", Access.OWN)], r"/ADMIN_API/\{x\}.*administrators"),
        ([declared("/a/{x}", Access.OWN), declared("/a/b", Access.KEY)], r"/a/b.*/a/\{x\} is own"),
        ([declared("/a/{x}", Access.ADMIN), declared("/{y}/b", Access.KEY)], r"/\{y\}/b.*/a/\{x\} is admin"),
        ([declared("/a/{rest:path}", Access.OWN), declared("/a/b/c", Access.KEY)], r"/a/b/c.*is own"),
        ([declared("/a/{x:path}/b", Access.OWN)], r"/a/\{x:path\}/b.*last part"),
        ([declared("/a/b-{x:path}", Access.KEY)], r"/a/b-\{x:path\}.*last part"),
        ([declared("/v1/MODELS", Access.KEY)], r"/v1/MODELS.*the server's own"),
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


def test_a_route_with_a_check_of_its_own_is_reached_without_the_key_in_every_spelling(tmp_path: Path) -> None:
    own = Brought(declared("/part-callback/{token}/{name}", Access.OWN, "POST"), declared("/part", Access.KEY))
    app = app_with(tmp_path, own)
    for path in ("/part-callback/Ab/Cd", "/PART-Callback//Ab/Cd/"):
        assert asyncio.run(ask(app, "POST", path)).body == b"/part-callback/Ab/Cd"
    assert asyncio.run(ask(app, "GET", "/part-callback/Ab/Cd")).status == 405
    for path in ("/part-callback/Ab", "/part-callback/Ab/Cd/Ef", "/v1/part-callback/Ab/Cd", "/part"):
        assert asyncio.run(ask(app, "POST", path)).status == 401


def test_a_blocked_address_reaches_no_route_of_any_access(tmp_path: Path) -> None:
    (tmp_path / "ip_blacklist.json").write_text('["9.9.9.9"]', encoding="utf-8")
    kinds = [access for access in Access if access is not Access.PATH_KEY]
    app = app_with(tmp_path, Brought(*(declared(f"/{access}", access) for access in kinds)))
    for access in kinds:
        assert asyncio.run(ask(app, "GET", f"/{access}", BEARER, client="9.9.9.9")).status == 403


class Changing:
    """A source whose routes change while the server runs."""

    def __init__(self, *declared: DeclaredRoute) -> None:
        self.now: tuple[Any, ...] = declared

    def routes(self) -> Sequence[DeclaredRoute]:
        return self.now


def test_routes_are_asked_for_again_after_a_reload_and_are_replaced_at_once(tmp_path: Path) -> None:
    source = Changing(declared("/a", Access.KEY), declared("/b", Access.OPEN))
    services = Services(services_in(tmp_path).config, KEY, routes=[source])
    app = create_app(services)
    status = lambda path, *headers: asyncio.run(ask(app, "GET", path, *headers)).status  # noqa: E731 - three words
    assert (status("/a"), status("/a", BEARER), status("/b")) == (401, 200, 200)
    source.now = (declared("/a", Access.OPEN), declared("/c/{x}", Access.OWN))
    assert (status("/a"), status("/b")) == (401, 200)  # nobody has told yet
    services.events.publish(Reloaded(("plugins",)))
    assert (status("/a"), status("/b"), status("/b", BEARER), status("/C/x")) == (200, 401, 404, 200)
    assert "/b" not in asyncio.run(ask(app, "GET", "/openapi.json", BEARER)).json["paths"]


def test_a_fault_of_our_own_in_a_reload_leaves_the_routes_as_they_were(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = Changing(declared("/a", Access.OPEN))
    services = Services(services_in(tmp_path).config, KEY, routes=[source])
    app = create_app(services)
    source.now = (declared("/b", Access.OPEN), route("/bare"))
    services.events.publish(Reloaded(("plugins",)))
    assert asyncio.run(ask(app, "GET", "/a")).status == 200
    assert asyncio.run(ask(app, "GET", "/b")).status == 401
    assert "/bare" in caplog.text


def test_a_refused_route_of_a_plugin_is_told_and_costs_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    brought = [
        DeclaredRoute(route("/none"), None, brought_by="plugin Odd"),  # type: ignore[arg-type]  # any word may come
        DeclaredRoute(route("/healthz"), Access.KEY, brought_by="plugin Odd"),
        DeclaredRoute(route("/fine"), Access.KEY, brought_by="plugin Odd"),
    ]
    app = app_with(tmp_path, Brought(*brought))
    assert asyncio.run(ask(app, "GET", "/fine", BEARER)).status == 200
    assert asyncio.run(ask(app, "GET", "/none", BEARER)).status == 404
    assert asyncio.run(ask(app, "GET", "/healthz")).body == b"ok"
    said = [record.getMessage() for record in caplog.records]
    assert [line.split(" is not served")[0] for line in said] == ["plugin Odd", "plugin Odd"]
    assert "/none" in said[0] and "/healthz" in said[1]


PARTS = ["a", "B", "{x}", "a{x}", "{x:int}", "1", "A{y}"]
TEMPLATES = st.builds(
    lambda parts, rest: "/" + "/".join([*parts, *rest]),
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=3),
    st.sampled_from([[], [], ["{rest:path}"]]),
).filter(lambda path: all(path.count("{" + name) <= 1 for name in "xy"))
PATHS = st.lists(st.sampled_from(["a", "A", "b", "aB", "1", "a1", ""]), min_size=1, max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)


@given(
    st.lists(st.tuples(TEMPLATES, st.sampled_from(["key", "own", "open", "admin"]), st.booleans()), max_size=5),
    st.lists(PATHS, min_size=1, max_size=5),
    st.sampled_from(["GET", "POST"]),
)
def test_what_the_gate_decides_is_what_the_route_that_answers_has_declared(
    brought: list[tuple[str, str, bool]], paths: list[str], method: str
) -> None:
    all_of_them = [
        DeclaredRoute(route(path, "POST" if post else "GET"), Access(access), brought_by="plugin")
        for path, access, post in brought
    ]
    logging.disable(logging.ERROR)
    try:
        served = served_routes([Brought(*all_of_them)], [], {})
    finally:
        logging.disable(logging.NOTSET)
    declared_access = {id(one.route): one.access for one in all_of_them}
    for path in paths:
        canonical = served.table.canonical(path)
        scope = {"type": "http", "method": method, "path": canonical, "root_path": ""}
        matches = [(one.matches(scope)[0], one) for one in served.added]
        answering = next((one for match, one in matches if match is Match.FULL), None) or next(
            (one for match, one in matches if match is Match.PARTIAL), None
        )
        rule = served.table.rule(canonical, method)
        decided = Access.KEY if rule is None else rule.access
        assert decided is (Access.KEY if answering is None else declared_access[id(answering)])
