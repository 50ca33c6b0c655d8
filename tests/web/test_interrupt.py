"""``POST /v1/interrupt``: the shapes of its answers (spec 1.7; R4, P69, D28)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from app.demo.script import Hold, Reply
from app.demo.scripted import ScriptedUpstream
from tests.server import run, running
from tests.web.asgi import BEARER, app_in, ask

NO_ID = {"error": "requestId or messageId is required."}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" \n",
        b"{}",
        b"[]",
        b'"x"',
        b"null",
        b'{"id":"x"}',
        b'{"requestId":""}',
        b'{"requestId":null,"messageId":""}',
        b'{"requestId":true}',
        b'{"requestId":["x"]}',
        b'{"requestId":{}}',
    ],
)
def test_without_an_id_it_is_400(tmp_path: Path, body: bytes) -> None:
    answer = asyncio.run(ask(app_in(tmp_path), "POST", "/v1/interrupt", BEARER, blocks=[body]))
    assert (answer.status, answer.json) == (400, NO_ID)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b'{"requestId":"zz"}', "zz"),
        (b'{"messageId":"yy"}', "yy"),
        (b'{"requestId":"first","messageId":"second"}', "first"),
        (b'{"requestId":"","messageId":"second"}', "second"),
        (b'{"requestId":17}', "17"),
        (b'{"requestId":1180591620717411303425}', "1180591620717411303425"),
        ('{"requestId":"请求"}'.encode(), "请求"),
        (b'{"requestId":"\\ud800"}', "\ud800"),
    ],
)
def test_an_unknown_id_is_404(tmp_path: Path, body: bytes, named: str) -> None:
    answer = asyncio.run(ask(app_in(tmp_path), "POST", "/v1/interrupt", BEARER, blocks=[body]))
    assert answer.status == 404
    assert answer.json == {"status": "error", "message": f"Request {named} not found or already completed."}


@pytest.mark.parametrize("field", ["requestId", "messageId"])
def test_a_running_request_is_stopped_whichever_field_named_it_and_is_then_unknown(tmp_path: Path, field: str) -> None:
    async def main() -> None:
        async with ScriptedUpstream([Reply((Hold(),))]) as up, running(tmp_path, up.base_url) as server:
            chat = asyncio.create_task(server.chat("x", **{field: "id-1"}))
            await up.held()
            other = "messageId" if field == "requestId" else "requestId"
            got = await server.client.post("/v1/interrupt", content=json.dumps({other: "id-1"}))
            assert got.status_code == 200
            assert got.json() == {"status": "success", "message": "Interrupt signal sent for request id-1."}
            answer = (await chat).json()
            assert answer["choices"][0]["message"]["content"] == "请求已被用户中止"
            assert answer["choices"][0]["finish_reason"] == "stop"
            again = await server.client.post("/v1/interrupt", content=json.dumps({field: "id-1"}))
            assert again.status_code == 404

    run(main())
