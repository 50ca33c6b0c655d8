"""``GET /v1/models``: the upstream's answer, whatever it is (spec 1.5; P32, P35, P36)."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.demo.script import Close, Reply, Reset, Send, broken, json_reply, raw_reply
from app.demo.scripted import ScriptedUpstream
from tests.server import Running, run, running


def with_headers(reply: Reply, *headers: tuple[str, str]) -> Reply:
    return replace(reply, headers=(*reply.headers, *headers))


def asked(tmp_path: Path, *replies: Any, config: tuple[str, ...] = ()) -> list[httpx.Response]:
    """The answers to as many requests as there are replies."""
    answers: list[httpx.Response] = []

    async def main() -> None:
        async with ScriptedUpstream(replies) as up, running(tmp_path, up.base_url, config=config) as server:
            for _ in replies:
                answers.append(await server.client.get("/v1/models"))

    run(main())
    return answers


def test_every_shape_and_status_is_passed_on_as_it_is(tmp_path: Path) -> None:
    replies = [
        json_reply({"object": "list", "data": [{"id": "m", "owned_by": "模型"}]}),
        json_reply([]),
        json_reply({"models": [{"name": "x"}]}),
        json_reply({"error": {"message": "no"}}, 401),
        json_reply({"error": "slow down"}, 429, [("Retry-After", "7")]),
        json_reply({"error": "broken"}, 500),
        raw_reply(b"<html>not here</html>", 404, "text/html; charset=utf-8"),
        raw_reply(b"", 200, "application/json"),
        raw_reply(b"{cut", 200, "application/json"),
        raw_reply(b"\xff\xfe\x00", 200, "application/octet-stream"),
        raw_reply(b"odd", 299, "text/plain"),
    ]
    for reply, answer in zip(replies, asked(tmp_path, *replies), strict=True):
        sent = reply.steps[0]
        assert isinstance(sent, Send)
        assert (answer.status_code, answer.content) == (reply.status, sent.data)
        assert answer.headers["content-type"] == dict(reply.headers)["content-type"]
        assert answer.headers.get("retry-after") == dict(reply.headers).get("Retry-After")


def test_a_compressed_list_is_unpacked_and_its_headers_fit(tmp_path: Path) -> None:
    packed = gzip.compress(json.dumps({"data": [{"id": "a" * 500}]}).encode())
    reply = with_headers(raw_reply(packed, 200, "application/json"), ("Content-Encoding", "gzip"))
    (answer,) = asked(tmp_path, reply)
    assert "content-encoding" not in answer.headers
    assert answer.headers["content-length"] == str(len(answer.content))
    assert answer.json() == {"data": [{"id": "a" * 500}]}


def test_headers_are_copied_except_those_of_one_connection_and_of_the_upstream_itself(tmp_path: Path) -> None:
    reply = with_headers(
        json_reply([]),
        ("X-Request-Id", "r1"),
        ("X-Many", "a"),
        ("X-Many", "b"),
        ("X-Note", "你好".encode().decode("latin-1")),
        ("Keep-Alive", "timeout=5"),
        ("Set-Cookie", "session=1"),
        ("Server", "secret/1.0"),
        ("Access-Control-Allow-Origin", "https://their.example"),
        ("Access-Control-Allow-Credentials", "true"),
    )
    (answer,) = asked(tmp_path, reply, config=("CorsOrigins=https://mine.example",))
    assert answer.status_code == 200
    assert answer.headers["x-request-id"] == "r1"
    assert answer.headers.get_list("x-many") == ["a", "b"]
    (note,) = [value for name, value in answer.headers.raw if name.lower() == b"x-note"]
    assert note.decode() == "你好"
    for name in (
        "keep-alive",
        "set-cookie",
        "server",
        "access-control-allow-origin",
        "access-control-allow-credentials",
    ):
        assert name not in answer.headers


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_an_error_that_does_not_show_the_way(tmp_path: Path, status: int) -> None:
    place = "http://10.0.0.7:8080/internal/path?token=1"
    (answer,) = asked(tmp_path, with_headers(raw_reply(b"", status), ("Location", place)))
    assert answer.status_code == 500
    assert "location" not in answer.headers
    assert answer.json()["error"]["code"] == "upstream_redirect"
    assert "API_URL" in answer.json()["error"]["message"]
    assert "token" not in answer.text


@pytest.mark.parametrize(
    "faulty",
    [
        pytest.param(Reply((Close(),)), id="hangs up"),
        pytest.param(Reply((Reset(),)), id="resets"),
        pytest.param(broken(raw_reply(b"[1, 2, 3]", 200, "application/json"), Close(), after=4), id="breaks off"),
    ],
)
def test_a_fault_of_the_network_is_an_openai_error_with_status_500(tmp_path: Path, faulty: Reply) -> None:
    async def main() -> None:
        async with ScriptedUpstream(lambda request: faulty) as up, running(tmp_path, up.base_url) as server:
            check_fault(await server.client.get("/v1/models"))

    run(main())


def check_fault(answer: httpx.Response) -> None:
    assert answer.status_code == 500
    error = answer.json()["error"]
    assert error["message"].startswith("Internal Server Error: ")
    assert error["type"] == "server_error"
    assert error["code"].startswith("upstream_")


def test_a_closed_port_is_told_in_the_same_shape_and_the_server_lives_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, "http://127.0.0.1:1") as server:
            check_fault(await server.client.get("/v1/models"))
            assert (await server.client.get("/healthz")).text == "ok"

    run(main())


def test_a_list_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.web.models.MAX_LIST_BYTES", 1000)
    (answer,) = asked(tmp_path, raw_reply(b"x" * 1001, 200, "application/json"))
    check_fault(answer)
    assert "1000" in answer.json()["error"]["message"]


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
@pytest.mark.parametrize("path", ["/v1/models", "/models", "/v1/v1/models", "/V1/Models/"])
def test_the_upstream_is_asked_at_one_path_with_its_key_and_the_names_of_the_client(
    tmp_path: Path, suffix: str, path: str
) -> None:
    async def main() -> None:
        async with ScriptedUpstream([json_reply([])]) as up, running(tmp_path, up.base_url + suffix) as server:
            headers = {"User-Agent": "my client/1", "Accept": "application/x", "Cookie": "a=b"}
            assert (await server.client.get(path, headers=headers)).status_code == 200
            request = up.requests[0]
            assert (request.method, request.path) == ("GET", "/v1/models")
            assert request.headers["authorization"] == "Bearer upstream-key"
            assert request.headers["user-agent"] == "my client/1"
            assert request.headers["accept"] == "application/x"
            assert "cookie" not in request.headers

    run(main())


def test_head_is_answered_like_get_without_a_body(tmp_path: Path) -> None:
    async def main() -> None:
        async with ScriptedUpstream([json_reply([1])]) as up, running(tmp_path, up.base_url) as server:
            answer = await server.client.head("/v1/models")
            assert (answer.status_code, answer.content, answer.headers["content-length"]) == (200, b"", "3")
            assert await asked_twice(server) == [405, 405]

    async def asked_twice(server: Running) -> list[int]:
        return [(await server.client.request(method, "/v1/models")).status_code for method in ("POST", "DELETE")]

    run(main())
