"""Routes with a key in their path (spec 1.11; R18, B2, B5, B8, D36)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from app.extend import Access, DeclaredRoute, PathKey
from app.services import Services
from app.web.app import create_app
from app.web.blocking import KEY_FAILURES
from app.web.paths import shown_path
from tests.web.asgi import BEARER, KEY, ask, services_in

IMAGES = "/pw={key}/images/{path:path}"
WRONG = "Unauthorized: Invalid key for image access."


class Pictures:
    """Brings the two routes as the image and the file service do."""

    def __init__(self, image_key: str = "Bild-钥匙", file_key: str = "File") -> None:
        self.image_key = image_key
        self.file_key = file_key

    def routes(self) -> Sequence[DeclaredRoute]:
        def route(path: str, *methods: str) -> Route:
            return Route(path, seen, methods=list(methods or ("GET",)))

        images = PathKey("key", lambda: self.image_key, WRONG, "")
        files = PathKey("key", lambda: self.file_key, "Unauthorized: Invalid key for file access.", "no File_Key")
        other = PathKey("key", lambda: "Other", "wrong other", "")
        return [
            DeclaredRoute(route(IMAGES), Access.PATH_KEY, images),
            DeclaredRoute(route("/pw={key}/files/{path:path}"), Access.PATH_KEY, files),
            DeclaredRoute(route("/pw={key}/files/{path:path}", "PUT"), Access.PATH_KEY, other),
        ]


async def seen(request: Request) -> PlainTextResponse:
    return PlainTextResponse(request.path_params["path"])


def app_with(home: Path, source: Pictures) -> ASGIApp:
    return create_app(Services(services_in(home).config, KEY, routes=[source]))


@pytest.mark.parametrize(
    ("path", "rest"),
    [
        ("/pw=Bild-钥匙/images/Cats/A b.PNG", "Cats/A b.PNG"),
        ("/PW=Bild-钥匙//Images/Cats/", "Cats/"),
        ("/pw=Bild-钥匙/images/", ""),
        ("/pw=Bild-钥匙/images", ""),
        ("/pw=Bild-钥匙/IMAGES/../x", "../x"),
    ],
)
def test_the_right_key_opens_whatever_the_case_of_the_fixed_parts(tmp_path: Path, path: str, rest: str) -> None:
    answer = asyncio.run(ask(app_with(tmp_path, Pictures()), "GET", path))
    assert (answer.status, answer.body.decode()) == (200, rest)
    assert answer.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize("key", ["wrong", "bild-钥匙", "Bild-钥匙x", "Bild-钥匙 ", "undefined", "ключ", "File"])
def test_r18_a_wrong_key_is_401_as_plain_text(tmp_path: Path, key: str) -> None:
    for headers in ((), (BEARER,)):
        answer = asyncio.run(ask(app_with(tmp_path, Pictures()), "GET", f"/pw={key}/images/a.png", *headers))
        assert (answer.status, answer.body.decode()) == (401, WRONG)
        assert answer.headers["content-type"].startswith("text/plain")


def test_a_first_part_that_is_no_key_needs_the_bearer_key_and_is_then_400_as_plain_text(tmp_path: Path) -> None:
    app = app_with(tmp_path, Pictures())
    for path in ("/x/images/a.png", "/pw=/images/a.png", "/pwd/files/a"):
        assert asyncio.run(ask(app, "GET", path)).status == 401
        answer = asyncio.run(ask(app, "GET", path, BEARER))
        assert (answer.status, answer.headers["content-type"]) == (400, "text/plain; charset=utf-8")
    for path in ("/v1/images/none", "/x/other/a.png", "/images/a.png"):
        assert asyncio.run(ask(app, "GET", path, BEARER)).status == 404
    assert asyncio.run(ask(app, "GET", "/admin_api/images/a.png", BEARER)).status == 503


def test_without_a_configured_key_nothing_opens_and_a_key_that_is_set_later_counts(tmp_path: Path) -> None:
    source = Pictures("", "")
    app = app_with(tmp_path, source)
    for key in ("x", "undefined"):
        assert asyncio.run(ask(app, "GET", f"/pw={key}/images/a")).status == 404
        answer = asyncio.run(ask(app, "GET", f"/pw={key}/files/a"))
        assert (answer.status, answer.body) == (500, b"no File_Key")
    source.image_key = "x"
    assert asyncio.run(ask(app, "GET", "/pw=x/images/a")).status == 200


def test_of_two_routes_at_one_path_each_asks_for_its_own_key(tmp_path: Path) -> None:
    app = app_with(tmp_path, Pictures())
    ways = [("GET", "File"), ("PUT", "Other"), ("GET", "Other"), ("PUT", "File"), ("DELETE", "Other")]
    found = [asyncio.run(ask(app, method, f"/pw={key}/files/a")).status for method, key in ways]
    assert found == [200, 200, 401, 401, 401]


def test_guessing_keys_blocks_and_a_page_of_pictures_under_one_old_key_does_not(tmp_path: Path) -> None:
    app = app_with(tmp_path, Pictures())

    async def main() -> None:
        for _ in range(3 * KEY_FAILURES):
            assert (await ask(app, "GET", "/pw=old/images/a", client="9.9.9.9")).status == 401
        for number in range(KEY_FAILURES):
            assert (await ask(app, "GET", f"/pw={number}/images/a", client="9.9.9.8")).status == 401
        assert (await ask(app, "GET", "/pw=Bild-钥匙/images/a", client="9.9.9.9")).status == 200
        assert (await ask(app, "GET", "/pw=Bild-钥匙/images/a", client="9.9.9.8")).status == 403

    asyncio.run(main())


def test_b5_keys_and_tokens_in_a_path_are_masked_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert shown_path("/pw=Secret/images/pw=Secret.png") == "/pw=***/images/pw=***"
    assert shown_path("/VCPlog/VCP_Key=Secret") == "/VCPlog/VCP_Key=***"
    assert shown_path("/Plugin-Callback/Secret/Video/7") == "/Plugin-Callback/***/Video/7"
    assert shown_path("/v1/plugin-callback/Secret/Video/7") == "/v1/plugin-callback/***/Video/7"
    assert shown_path("/plugin-callback/Video/7") == "/plugin-callback/Video/7"
    with caplog.at_level(logging.DEBUG):
        app = app_with(tmp_path, Pictures())
        for path in ("/pw=Secret-1/images/a", "/plugin-callback/Secret-2/a/b"):
            asyncio.run(ask(app, "POST", path))
    assert "POST /pw=***/images/a from 127.0.0.1" in caplog.text
    assert "Secret" not in caplog.text
