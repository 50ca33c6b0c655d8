"""Chat bodies that no honest client sends: a clear refusal or a clean pass, never a crash of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from tests.server import run, running

USER = b'{"messages":[{"role":"user","content":"x"}]'


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        USER + b',"seed":' + b"9" * 10_000 + b"}",
        USER[:-2] + b'\xff"}]}',
        b'{"messages":[null]}',
        b'{"messages":{}}',
        b"[]",
        b"",
    ],
    ids=["100000 lists", "10000 digits", "no UTF-8", "null", "object", "list", "nothing"],
)
def test_what_cannot_be_read_is_refused_as_the_clients_fault(tmp_path: Path, body: bytes) -> None:
    async def main() -> None:
        async with ScriptedUpstream([]) as up, running(tmp_path, up.base_url) as server:
            answer = await server.client.post("/v1/chat/completions", content=body)
            assert answer.status_code == 400
            assert answer.json()["error"]["type"] == "invalid_request_error"

    run(main())


@pytest.mark.parametrize("nest", [(b"[", b"]"), (b'{"a":', b"}")], ids=["lists", "objects"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_body_that_can_only_just_be_read_is_never_our_crash(
    tmp_path: Path, nest: tuple[bytes, bytes], stream: bool
) -> None:
    async def main() -> None:
        async with ScriptedUpstream(lambda _: say("ok")) as up, running(tmp_path, up.base_url) as server:
            for depth in (250, 960, 980, 1000, 1015):
                flag = b"true" if stream else b"false"
                body = USER + b',"stream":' + flag + b',"x":' + nest[0] * depth + b"1" + nest[1] * depth + b"}"
                answer = await server.client.post("/v1/chat/completions", content=body)
                # Where the limit lies is Python's business: passed on whole, or refused with the reason.
                if up.requests and up.requests[-1].body == body:
                    assert answer.status_code == 200
                else:
                    assert "nested too deeply" in answer.text
                    assert answer.status_code == (200 if stream else 400)

    run(main())


@pytest.mark.parametrize(
    "fields",
    [
        b',"n":-1',
        b',"model":["m"]',
        b',"stream_options":7',
        b',"requestId":{"a":[]}',
    ],
    ids=["n", "model", "stream_options", "requestId"],
)
def test_odd_fields_are_the_upstreams_business(tmp_path: Path, fields: bytes) -> None:
    async def main() -> None:
        async with ScriptedUpstream([say("ok")]) as up, running(tmp_path, up.base_url) as server:
            answer = await server.client.post("/v1/chat/completions", content=USER + fields + b"}")
            assert answer.status_code == 200
            assert fields[1:] in up.requests[0].body

    run(main())


def test_a_small_limit_is_told_in_its_own_unit(tmp_path: Path) -> None:
    async def main() -> None:
        async with ScriptedUpstream([]) as up, running(tmp_path, up.base_url) as server:
            answer = await server.client.post("/v1/interrupt", json={"requestId": "r" * 1_000_000})
            assert answer.status_code == 413
            assert " 0 MB" not in answer.text

    run(main())


@pytest.mark.parametrize("content", [b"5", b"null", b'[null,5,"s",{"type":"text"},{"type":"text","text":5}]'])
def test_contents_of_any_type_pass_unchanged(tmp_path: Path, content: bytes) -> None:
    async def main() -> None:
        async with ScriptedUpstream([say("ok")]) as up, running(tmp_path, up.base_url) as server:
            body = b'{"messages":[{"role":"system","content":' + content + b'},{"content":1}]}'
            assert (await server.client.post("/v1/chat/completions", content=body)).status_code == 200
            assert up.requests[0].body == body

    run(main())
