"""Chat requests go past the framework's layers; nobody outside may notice."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.protocol.markers import FATAL_ERROR
from app.web.errors import guarded
from app.web.server import serve
from tests.server import run, running


@pytest.mark.parametrize("begun", [False, True])
def test_a_fault_in_a_chat_route_is_answered_in_the_shape_of_openai(
    begun: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        if begun:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"data: ", "more_body": True})
        raise ZeroDivisionError("a secret of ours")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
        else:
            await guarded(broken)(scope, receive, send)

    async def main() -> None:
        async with serve(app) as url, httpx.AsyncClient(trust_env=False, verify=False) as client:
            if begun:
                with pytest.raises(httpx.RemoteProtocolError):
                    await client.post(f"{url}/v1/chat/completions")
                return
            response = await client.post(f"{url}/v1/chat/completions")
        assert response.status_code == 500
        assert response.json()["error"]["message"] == FATAL_ERROR
        assert "secret" not in response.text

    with caplog.at_level(logging.ERROR):
        asyncio.run(asyncio.wait_for(main(), 20))
    assert "a secret of ours" in caplog.text


def test_other_methods_of_a_chat_path_and_its_other_spellings_are_still_known(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            ScriptedUpstream([say("yes"), say("yes")]) as upstream,
            running(tmp_path, upstream.base_url) as server,
        ):
            assert (await server.client.get("/v1/chat/completions")).status_code == 405
            for path in ("/chat/completions", "/V1/v1/Chat/Completions/"):
                response = await server.chat("hello", path=path)
                assert response.json()["choices"][0]["message"]["content"] == "yes", response.text

    run(main())
