"""What belongs to administrators (spec 1.3; R17, P72, D84-D86, B2, B18)."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from app.extend import Access, DeclaredRoute
from app.services import Services
from app.web.admin_access import (
    BLOCK_SECONDS,
    FAILURES,
    MAX_ADDRESSES,
    WINDOW_SECONDS,
    AdminAccess,
    LoginAttempts,
)
from app.web.app import create_app
from tests.web.asgi import BEARER, KEY, ask, services_in

SET = ("AdminUsername=Chef", "AdminPassword=пароль:密码")
JSON = ("accept", "text/html, application/json")


def basic(name: str = "Chef", password: str = "пароль:密码") -> tuple[str, str]:
    return "authorization", "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


class Panel:
    def routes(self) -> Sequence[DeclaredRoute]:
        paths = ["/admin_api/of-a-test", "/AdminPanel/{path:path}", "/elsewhere"]
        methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
        return [DeclaredRoute(Route(path, seen, methods=methods), Access.ADMIN) for path in paths]


async def seen(request: Request) -> PlainTextResponse:
    return PlainTextResponse(request.url.path)


def app_in(home: Path, *config: str) -> ASGIApp:
    return create_app(Services(services_in(home, *config).config, KEY, routes=[Panel()]))


def get(app: ASGIApp, path: str, *headers: tuple[str, str], **options: Any) -> Any:
    return asyncio.run(ask(app, options.pop("method", "GET"), path, *headers, **options))


@pytest.mark.parametrize(
    "config",
    [
        (),
        ("AdminUsername=a",),
        ("AdminPassword=b",),
        ("AdminUsername=a", "AdminPassword="),
        ("AdminUsername=", "AdminPassword=b"),
    ],
)
def test_p72_without_name_or_password_everybody_is_refused(tmp_path: Path, config: tuple[str, ...]) -> None:
    app = app_in(tmp_path, *config)
    for headers in ((), (BEARER,), (basic("", ""),), (basic("a", ""),), (basic("", "b"),)):
        answer = get(app, "/admin_api/config/main", *headers)
        assert answer.status == 503
        assert answer.json["error"] == "Service Unavailable: Admin credentials not configured."
        assert answer.json["message"]


@pytest.mark.parametrize(
    "path",
    [
        "/admin_api/config/main",
        "/Admin_api/config/main",
        "//ADMIN_API//config/main/",
        "/admin_api",
        "/admin_api/nothing/here",
        "/adminpanel/",
        "/AdminPanel",
        "/ADMINPANEL/x.js",
        "/admin_apiX",
        "/elsewhere",
    ],
)
def test_b2_every_spelling_needs_the_administrator_and_not_the_key_whether_a_route_exists_or_not(
    tmp_path: Path, path: str
) -> None:
    app = app_in(tmp_path, *SET)
    for headers in ((), (BEARER,), (("authorization", f"Bearer {KEY}x"),)):
        refused = get(app, path, JSON, *headers)
        assert (refused.status, refused.json) == (401, {"error": "Unauthorized"})
        assert refused.headers["www-authenticate"] == 'Basic realm="Admin Panel"'
    allowed = get(app, path, JSON, basic())
    assert allowed.status in (200, 404)
    assert (allowed.status == 200) is ("config" in path or "lsewhere" in path or "panel" in path.lower())


@pytest.mark.parametrize("path", ["/v1/models", "/nothing", "/openapi.json"])
def test_an_administrator_has_no_key_by_that(tmp_path: Path, path: str) -> None:
    assert get(app_in(tmp_path, *SET), path, basic()).status == 401


@pytest.mark.parametrize(
    ("given", "right"),
    [
        (basic(), True),
        (("authorization", basic()[1].replace("Basic", "bAsIc")), True),
        (basic("chef"), False),
        (basic(password="пароль"), False),
        (basic(password="пароль:密码 "), False),
        (basic(password=""), False),
        (basic(""), False),
        (("authorization", "Basic"), False),
        (("authorization", "Basic !!!"), False),
        (("authorization", "Basic Y2hlZg=="), False),
        (("authorization", "Basic " + "A" * 100_000), False),
        (("authorization", "Basic \udcff\udcfe"), False),
    ],
)
def test_only_the_right_name_and_password_come_in(tmp_path: Path, given: tuple[str, str], right: bool) -> None:
    answer = get(app_in(tmp_path, *SET), "/admin_api/config/main", given)
    assert (answer.status, answer.reads) == (200 if right else 401, 0)


@pytest.mark.parametrize(
    ("path", "accept", "as_json"),
    [
        ("/admin_api/x", "text/html", True),
        ("/Admin_API/config/main", "text/html", True),
        ("/AdminPanel/", "text/html", False),
        ("/AdminPanel/", "application/json", True),
        ("/AdminPanel/", "", False),
    ],
)
def test_refusals_are_json_for_programs_and_a_page_for_people(
    tmp_path: Path, path: str, accept: str, as_json: bool
) -> None:
    for config, status in (((), 503), (SET, 401)):
        answer = get(app_in(tmp_path, *config), path, ("accept", accept))
        if status == 401 and accept == "text/html" and not as_json:
            assert (answer.status, answer.headers["location"]) == (303, "/AdminPanel/login?next=%2FAdminPanel%2F")
            continue
        assert answer.status == status
        assert ("json" in answer.headers["content-type"]) is as_json
        assert answer.body.startswith(b"{" if as_json else b"<!doctype html>")


def test_r17_five_wrong_passwords_block_even_the_right_one_and_say_for_how_long(tmp_path: Path) -> None:
    app = app_in(tmp_path, *SET)
    for _ in range(5):
        assert get(app, "/admin_api/config/main", basic(password="no")).status == 401
    for path, headers in (("/admin_api/config/main", (basic(),)), ("/AdminPanel/", (JSON,))):
        answer = get(app, path, *headers)
        assert answer.status == 429
        assert 1790 <= int(answer.headers["retry-after"]) <= 1800
        assert answer.json["error"] == "Too Many Requests"
        assert "30 分钟" in answer.json["message"]
    assert get(app, "/admin_api/config/main", basic(), client="9.9.9.9").status == 200
    assert get(app, "/v1/interrupt", BEARER, method="POST").status == 400


def test_d85_missing_credentials_are_no_attempt_and_success_clears(tmp_path: Path) -> None:
    app = app_in(tmp_path, *SET)
    for _ in range(3 * FAILURES):
        assert get(app, "/AdminPanel/").status == 401
        assert get(app, "/AdminPanel/", BEARER).status == 401
    for _ in range(3):
        for _ in range(FAILURES - 1):
            assert get(app, "/AdminPanel/", basic(password="no")).status == 401
        assert get(app, "/AdminPanel/", basic()).status == 200


def test_the_window_begins_at_the_first_failure_and_a_block_ends() -> None:
    now = [0.0]
    attempts = LoginAttempts(lambda: now[0])
    for _ in range(FAILURES - 1):
        attempts.failed("a")
    now[0] = WINDOW_SECONDS + 1
    attempts.failed("a")
    assert attempts.blocked_for("a") == 0
    for _ in range(FAILURES - 1):
        attempts.failed("a")
    assert attempts.blocked_for("a") == BLOCK_SECONDS
    assert (attempts.blocked_for("b"), attempts.blocked_addresses()) == (0, 1)
    now[0] += BLOCK_SECONDS
    assert (attempts.blocked_for("a"), attempts.blocked_addresses()) == (0, 0)
    attempts.failed("a")
    assert attempts.blocked_for("a") == 0


@pytest.mark.parametrize("other", ["2001:db8:0:1:ffff::9", "2001:DB8:0:1::1%eth0", "2001:db8:0:1::/64"])
def test_all_addresses_that_one_client_of_ipv6_has_share_their_attempts(other: str) -> None:
    attempts = LoginAttempts(lambda: 0.0)
    for number in range(FAILURES):
        attempts.failed(f"2001:db8:0:1::{number:x}")
    assert attempts.blocked_for(other) == BLOCK_SECONDS
    assert attempts.blocked_for("2001:db8:0:2::1") == 0
    assert attempts.blocked() == [("2001:db8:0:1::/64", BLOCK_SECONDS)]
    attempts.succeeded(other)
    assert attempts.blocked_for("2001:db8:0:1::1") == 0


def test_what_is_no_address_counts_as_it_is() -> None:
    attempts = LoginAttempts(lambda: 0.0)
    for _ in range(FAILURES):
        attempts.failed("un:known")
    assert attempts.blocked() == [("un:known", BLOCK_SECONDS)]


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 403), ({"sec-fetch-site": "same-origin"}, None), ({"origin": "http://panel", "host": "panel"}, None)],
)
def test_b18_with_the_cookie_of_a_login_a_write_must_say_where_it_comes_from(
    headers: dict[str, str], status: int | None
) -> None:
    access = AdminAccess(lambda: ("a", "b"), lambda: 0.0, lambda token: token == "t", lambda: 1)
    sent = Headers({"cookie": "vcp_admin_1=t", **headers})
    refused = access.refusal("/admin_api/x", "POST", sent, "x")
    assert (None if refused is None else refused.status_code) == status
    assert access.refusal("/admin_api/x", "GET", sent, "x") is None


def test_attempts_do_not_grow_without_end() -> None:
    attempts = LoginAttempts(lambda: 0.0)
    for number in range(MAX_ADDRESSES + FAILURES):
        attempts.failed(str(number))
    for _ in range(FAILURES - 1):
        attempts.failed("0")
    assert attempts.blocked_for("0") == 0  # its first failure was forgotten


def writes() -> Iterator[Any]:
    ours = ("host", "panel.example:6005")
    yield pytest.param((), True, id="a program")
    yield pytest.param((ours, ("origin", "http://panel.example:6005")), True, id="our page")
    yield pytest.param((ours, ("origin", "https://PANEL.example:6005")), True, id="our page behind TLS")
    yield pytest.param((("sec-fetch-site", "same-origin"), ("origin", "https://outside")), True, id="the browser knows")
    yield pytest.param((("sec-fetch-site", "none"),), True, id="typed in")
    yield pytest.param((("sec-fetch-site", "same-site"),), False, id="a neighbour")
    yield pytest.param((("sec-fetch-site", "cross-site"), ours), False, id="another site")
    yield pytest.param((ours, ("origin", "http://panel.example")), False, id="another port")
    yield pytest.param((ours, ("origin", "https://evil.example")), False, id="another origin")
    yield pytest.param((ours, ("origin", "null")), False, id="a sandbox")
    yield pytest.param((("origin", "null"),), False, id="nothing to compare")
    yield pytest.param((ours, ("origin", "http://[panel")), False, id="nonsense")


@pytest.mark.parametrize(("headers", "allowed"), list(writes()))
def test_b18_no_other_site_changes_anything(
    tmp_path: Path, headers: tuple[tuple[str, str], ...], allowed: bool
) -> None:
    app = app_in(tmp_path, *SET)
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        answer = get(app, "/admin_api/of-a-test", basic(), *headers, method=method)
        assert (answer.status, answer.reads) == (200 if allowed else 403, 0)
    assert get(app, "/admin_api/of-a-test", basic(), *headers).status == 200


@pytest.mark.parametrize("path", ["/admin_api/of-a-test", "/AdminPanel/", "/ADMIN_api/none", "/elsewhere"])
def test_b18_pages_of_other_sites_may_not_read_anything(tmp_path: Path, path: str) -> None:
    app = app_in(tmp_path, *SET, "CorsOrigins=*, https://a.example")
    origin = ("origin", "https://a.example")
    for answer in (
        get(app, path, basic(), origin),
        get(app, path, origin),
        get(app, path, origin, ("access-control-request-method", "POST"), method="OPTIONS"),
    ):
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert get(app, path, origin, method="OPTIONS").status == 401


def test_credentials_that_change_count_at_once(tmp_path: Path) -> None:
    now = ["a", "b"]
    access = AdminAccess(lambda: (now[0], now[1]), lambda: 0.0)
    headers = Headers({"authorization": basic("a", "b")[1]})
    assert access.refusal("/admin_api/x", "GET", headers, "x") is None
    now[1] = "c"
    refused = access.refusal("/admin_api/x", "GET", headers, "x")
    assert refused is not None and refused.status_code == 401
