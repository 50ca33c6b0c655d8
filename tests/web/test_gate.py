"""What every request passes before a route sees it: key, path, CORS, blocks (spec 1.1, 1.2; D26, D35, D36)."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message

from app.config.settings import read
from app.web.app import create_app
from app.web.blocking import KEY_FAILURES
from tests.web.asgi import BEARER, KEY, app_in, ask, services_in

OPENAI = ["/v1/chat/completions", "/v1/chatvcp/completions", "/v1/models", "/v1/embeddings"]
PLAIN = ["/v1/human/tool", "/v1/interrupt", "/openapi.json", "/nothing", "/v1/schedule_task"]
UNAUTHORIZED = "Unauthorized (Bearer token required)"


def wrong_keys() -> list[Any]:
    return [
        pytest.param((), id="none"),
        pytest.param((("authorization", ""),), id="empty"),
        pytest.param((("authorization", f"bearer {KEY}"),), id="R1 lower case scheme"),
        pytest.param((("authorization", f"BEARER {KEY}"),), id="upper case scheme"),
        pytest.param((("authorization", f"Bearer  {KEY}"),), id="double space"),
        pytest.param((("authorization", f"Bearer\t{KEY}"),), id="tab"),
        pytest.param((("authorization", f"Bearer{KEY}"),), id="no space"),
        pytest.param((("authorization", KEY),), id="no scheme"),
        pytest.param((("authorization", f"Bearer {KEY}x"),), id="longer"),
        pytest.param((("authorization", f"Bearer {KEY[:-1]}"),), id="shorter"),
        pytest.param((("authorization", f"Bearer {KEY.upper()}"),), id="other case"),
        pytest.param((("authorization", "Bearer undefined"),), id="B6 undefined"),
        pytest.param((("authorization", "Bearer "),), id="no key"),
        pytest.param((("authorization", "Bearer ключ"),), id="another script"),
        pytest.param((("x-api-key", KEY),), id="another header"),
    ]


@pytest.mark.parametrize("headers", wrong_keys())
def test_only_bearer_one_space_and_the_key_lets_a_request_pass(
    tmp_path: Path, headers: tuple[tuple[str, str], ...]
) -> None:
    answer = asyncio.run(ask(app_in(tmp_path), "POST", "/v1/human/tool", *headers))
    assert (answer.status, answer.json) == (401, {"error": UNAUTHORIZED})
    assert answer.reads == 0


@pytest.mark.parametrize(
    ("key", "given"),
    [
        ("plain", "Bearer plain"),
        (KEY, f"Bearer {KEY}"),
        (KEY, f"Bearer {KEY} \t"),
        ("ключ 😀", "Bearer ключ 😀"),
        ("from-env-\udcff", "Bearer from-env-\udcff"),
    ],
    ids=["ascii", "Chinese", "blanks behind the value are none of it", "emoji", "bytes that are no UTF-8"],
)
def test_a_key_of_any_bytes_lets_its_owner_in(tmp_path: Path, key: str, given: str) -> None:
    answer = asyncio.run(ask(app_in(tmp_path, key=key), "GET", "/nothing", ("authorization", given)))
    assert answer.status == 404


@pytest.mark.parametrize("given", ["Bearer ", "Bearer", "Bearer undefined", ""])
def test_without_a_configured_key_nobody_gets_in(tmp_path: Path, given: str) -> None:
    answer = asyncio.run(ask(app_in(tmp_path, key=""), "GET", "/v1/models", ("authorization", given)))
    assert answer.status == 401


@pytest.mark.parametrize("path", OPENAI + PLAIN)
def test_errors_have_the_shape_of_their_path(tmp_path: Path, path: str) -> None:
    app = app_in(tmp_path)
    method = "GET" if path == "/v1/models" else "POST"
    refused = asyncio.run(ask(app, method, path))
    assert refused.status == 401
    assert refused.headers["content-type"] == "application/json; charset=utf-8"
    if path in OPENAI:
        assert refused.json["error"]["message"] == UNAUTHORIZED
        assert (refused.json["error"]["type"], refused.json["error"]["code"]) == (
            "invalid_request_error",
            "invalid_api_key",
        )
    else:
        assert refused.json == {"error": UNAUTHORIZED}


@pytest.mark.parametrize(
    "path",
    [
        *("/nothing", "/v1", "/", "/v1/nothing", "/V1//Nothing/", "/embeddings/x"),
    ],
)
def test_unknown_paths_are_401_without_and_404_with_the_key_as_json(tmp_path: Path, path: str) -> None:
    app = app_in(tmp_path)
    assert asyncio.run(ask(app, "POST", path)).status == 401
    answer = asyncio.run(ask(app, "POST", path, BEARER, blocks=[b'{"model":"m"}']))
    assert answer.status == 404
    assert isinstance(answer.json["error"], str)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/chat/completions", "POST"),
        ("PUT", "/v1/chatvcp/completions", "POST"),
        ("POST", "/v1/models", "GET"),
        ("GET", "/v1/human/tool", "POST"),
        ("DELETE", "/v1/interrupt", "POST"),
        ("POST", "/healthz", "GET"),
        ("BREW", "/v1/models", "GET"),
    ],
)
def test_a_wrong_method_is_405_as_json_and_names_the_right_one(
    tmp_path: Path, method: str, path: str, allowed: str
) -> None:
    answer = asyncio.run(ask(app_in(tmp_path), method, path, BEARER))
    assert answer.status == 405
    assert answer.headers["allow"] == allowed
    assert answer.json["error"]


@pytest.mark.parametrize("path", ["/healthz", "/HEALTHZ", "/healthz/", "//healthz"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_health_is_open_and_one_word(tmp_path: Path, method: str, path: str) -> None:
    answer = asyncio.run(ask(app_in(tmp_path), method, path))
    assert (answer.status, answer.headers["content-length"]) == (200, "2")


@pytest.mark.parametrize(
    "path",
    [
        "/healthz/../v1/models",
        "/v1/../healthz",
        "/healthz/x",
        "/v1/healthz",
        "/healthz%2f..%2fv1/models",
        "/healthz;x",
        "/./healthz",
        "/../../etc/passwd",
        "/healthz\x00",
        "/" + "a/" * 5000,
    ],
)
def test_no_way_around_the_key_by_odd_paths(tmp_path: Path, path: str) -> None:
    app = app_in(tmp_path)
    assert asyncio.run(ask(app, "GET", path)).status == 401
    assert asyncio.run(ask(app, "GET", path, BEARER)).status == 404


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/human/tool", "/v1/interrupt", "/nothing"])
def test_nothing_of_an_endless_body_is_read_without_the_key(tmp_path: Path, path: str) -> None:
    answer = asyncio.run(ask(app_in(tmp_path), "POST", path, blocks=itertools.repeat(b"x" * 65536)))
    assert (answer.status, answer.reads) == (401, 0)


@pytest.mark.parametrize(
    ("path", "config", "limit"),
    [
        ("/v1/chat/completions", "ChatBodyLimitMB=1", 1024),
        ("/v1/human/tool", "ToolBodyLimitMB=1", 1024),
        ("/v1/interrupt", "", 64),
    ],
)
def test_a_body_over_its_limit_is_413_and_not_read_on(tmp_path: Path, path: str, config: str, limit: int) -> None:
    app = app_in(tmp_path, config)
    headers = (BEARER, ("content-type", "text/plain"))
    chunked = asyncio.run(ask(app, "POST", path, *headers, blocks=itertools.repeat(b"x" * 1024)))
    assert (chunked.status, chunked.reads) == (413, limit + 1)
    declared = asyncio.run(ask(app, "POST", path, *headers, ("content-length", str(limit * 1024 + 1))))
    assert (declared.status, declared.reads) == (413, 0)
    message = declared.json["error"]["message"] if path in OPENAI else declared.json["error"]
    assert message.endswith("larger than the 64 KB this route takes" if limit == 64 else "1 MB this route takes")


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/interrupt"])
@pytest.mark.parametrize(
    "body",
    [b"{", b"{'a':1}", b"\xff\xfe", b"[" * 50_000, b'{"messages":[{}]} x', b"<xml/>", b"null,"],
    ids=["cut", "quotes", "no UTF-8", "deep", "more behind it", "xml", "comma"],
)
def test_malformed_json_is_400_as_json(tmp_path: Path, path: str, body: bytes) -> None:
    answer = asyncio.run(ask(app_in(tmp_path), "POST", path, BEARER, blocks=[body]))
    assert answer.status == 400
    error = answer.json["error"]
    assert "JSON" in (error["message"] if path in OPENAI else error)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"", "JSON"),
        (b"[]", "object"),
        (b'"text"', "object"),
        (b"null", "object"),
        (b"{}", "messages"),
        (b'{"messages":null}', "messages"),
        (b'{"messages":{}}', "messages"),
        (b'{"messages":"hi"}', "messages"),
        (b'{"messages":[]}', "messages"),
        (b'{"messages":["hi"]}', "messages[0]"),
        (b'{"messages":[{"role":"user","content":"x"},null]}', "messages[1]"),
    ],
)
def test_missing_or_wrong_messages_are_400_with_an_openai_error(tmp_path: Path, body: bytes, named: str) -> None:
    for path in OPENAI[:2]:
        answer = asyncio.run(ask(app_in(tmp_path), "POST", path, BEARER, blocks=[body]))
        assert answer.status == 400
        error = answer.json["error"]
        assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_request_error")
        assert named in error["message"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models", "/anything", "/healthz"])
def test_a_preflight_needs_no_key(tmp_path: Path, path: str) -> None:
    answer = asyncio.run(
        ask(
            app_in(tmp_path),
            "OPTIONS",
            path,
            ("origin", "https://chat.example"),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "authorization,content-type,x-odd"),
        )
    )
    assert (answer.status, answer.body, answer.reads) == (204, b"", 0)
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["access-control-allow-methods"] == "GET,HEAD,PUT,PATCH,POST,DELETE"
    assert answer.headers["access-control-allow-headers"] == "authorization,content-type,x-odd"


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("https://a.example", "https://a.example"),
        ("https://b.example:8443", "https://b.example:8443"),
        ("https://evil.example", None),
        ("https://a.example.evil.example", None),
        ("null", None),
        (None, None),
    ],
)
def test_a_list_of_origins_allows_exactly_those(tmp_path: Path, origin: str | None, allowed: str | None) -> None:
    app = app_in(tmp_path, "CorsOrigins=https://a.example, https://b.example:8443/")
    headers = () if origin is None else (("origin", origin),)
    for method, path, extra in [("OPTIONS", "/v1/models", ()), ("GET", "/v1/models", ()), ("GET", "/x", (BEARER,))]:
        answer = asyncio.run(ask(app, method, path, *headers, *extra))
        assert answer.headers.get("access-control-allow-origin") == allowed
        assert "Origin" in answer.headers["vary"]


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/v1/models", (), 401),
        ("GET", "/nothing", (BEARER,), 404),
        ("GET", "/v1/interrupt", (BEARER,), 405),
        ("POST", "/v1/chat/completions", (BEARER,), 400),
        ("POST", "/v1/interrupt", (BEARER, ("content-length", "99999999")), 413),
    ],
)
def test_errors_carry_the_cors_header_too(
    tmp_path: Path, method: str, path: str, headers: tuple[tuple[str, str], ...], status: int
) -> None:
    answer = asyncio.run(ask(app_in(tmp_path), method, path, ("origin", "https://x.example"), *headers))
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (status, "*")


def test_many_wrong_keys_block_an_address_for_http_and_websockets_but_not_others(tmp_path: Path) -> None:
    app = app_in(tmp_path)

    async def main() -> None:
        for _ in range(KEY_FAILURES - 1):
            assert (await ask(app, "GET", "/x", ("authorization", "Bearer no"), client="9.9.9.9")).status == 401
        assert (await ask(app, "GET", "/x", BEARER, client="9.9.9.9")).status == 404
        await websocket(app, "9.9.9.9", "Bearer no")  # counts like any other door
        blocked = await ask(app, "GET", "/x", BEARER, client="9.9.9.9")
        assert blocked.status == 403
        assert blocked.json == {"error": "Forbidden: Your IP address has been blocked due to suspicious activity."}
        assert (await ask(app, "GET", "/healthz", client="9.9.9.9")).status == 403
        assert (await ask(app, "GET", "/v1/models", BEARER, client="9.9.9.9")).json["error"]["code"] == "forbidden"
        assert (await ask(app, "OPTIONS", "/x", client="9.9.9.9")).status == 204
        assert (await ask(app, "GET", "/x", BEARER, client="9.9.9.8")).status == 404
        assert await websocket(app, "9.9.9.9", f"Bearer {KEY}") == 403
        assert await websocket(app, "9.9.9.8", "Bearer no") == 401

    asyncio.run(main())


def test_settings_of_the_gate_count_as_soon_as_they_change(tmp_path: Path) -> None:
    services = services_in(tmp_path)
    (tmp_path / "ip_blacklist.json").write_text('["9.9.9.9"]', encoding="utf-8")
    app = create_app(services)
    origin, forwarded = ("origin", "https://a.example"), ("x-forwarded-for", "9.9.9.9")
    blocks = lambda: asyncio.run(ask(app, "GET", "/v1/none", BEARER, origin, forwarded))  # noqa: E731 - one word
    assert (blocks().status, blocks().headers["access-control-allow-origin"]) == (404, "*")
    changed = {"TrustedProxies": "127.0.0.1", "CorsOrigins": "https://a.example"}
    services.in_force.config = replace(services.config, settings=read(changed)[0])
    assert (blocks().status, blocks().headers["access-control-allow-origin"]) == (403, "https://a.example")
    services.in_force.config = replace(services.config, settings=read({**changed, "IpBlacklist": "false"})[0])
    assert blocks().status == 404


def test_requests_without_any_key_are_not_counted_as_wrong_keys(tmp_path: Path) -> None:
    app = app_in(tmp_path)

    async def main() -> None:
        for _ in range(KEY_FAILURES + 5):
            assert (await ask(app, "GET", "/v1/models", client="9.9.9.9")).status == 401
        assert (await ask(app, "GET", "/x", BEARER, client="9.9.9.9")).status == 404

    asyncio.run(main())


async def websocket(app: Any, client: str, authorization: str) -> int:
    """The status with which a WebSocket is refused."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "websocket",
        "path": "/VCPlog",
        "raw_path": b"/VCPlog",
        "root_path": "",
        "query_string": b"",
        "headers": [(b"authorization", authorization.encode())],
        "client": (client, 1),
        "subprotocols": [],
    }
    await app(scope, receive, send)
    assert sent[0]["type"] == "websocket.http.response.start"
    return int(sent[0]["status"])


def test_a_fault_inside_a_route_is_a_500_without_a_stack_trace_and_keeps_the_cors_header(tmp_path: Path) -> None:
    services = services_in(tmp_path)

    class Broken:
        def interrupt(self, request_id: str) -> bool:
            raise ZeroDivisionError("secret detail")

    services.running = Broken()  # type: ignore[assignment]  # any fault will do, and none is known

    async def main() -> None:
        sent: list[Message] = []
        app = create_app(services)
        with pytest.raises(ZeroDivisionError):  # for the web server's log
            await _post(app, b'{"requestId":"x"}', sent)
        assert sent[0]["status"] == 500
        assert b"secret" not in sent[1]["body"]
        assert sent[1]["body"] == b'{"error":"A fatal internal error occurred."}'
        assert (b"access-control-allow-origin", b"*") in sent[0]["headers"]

    asyncio.run(main())


async def _post(app: Any, body: bytes, sent: list[Message]) -> None:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/interrupt",
        "raw_path": b"/v1/interrupt",
        "root_path": "",
        "query_string": b"",
        "headers": [(b"authorization", f"Bearer {KEY}".encode())],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive, send)
