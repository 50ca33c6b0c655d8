"""The HTTP client of in-process plugins: limits, proxies of our configuration, nothing until it is used."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx
import pytest

from app.demo.script import json_reply
from app.demo.scripted import ScriptedUpstream
from app.upstream.side_requests import side_client


def test_requests_arrive_with_limits_and_our_name() -> None:
    async def main() -> None:
        async with ScriptedUpstream([json_reply({"a": 1})]) as up, side_client(dict) as client:
            answered = await client.get(up.base_url + "/x")
            assert answered.json() == {"a": 1}
            assert up.exchanges[0].request.headers["user-agent"].startswith("vcp-server/")
            assert client.timeout == httpx.Timeout(60, connect=10)
            assert client.trust_env is False

    asyncio.run(main())


def test_the_proxy_of_the_environment_of_now_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")

    async def main() -> None:
        environ: Mapping[str, str] = {}
        async with ScriptedUpstream([json_reply({}), json_reply({})]) as proxy, side_client(lambda: environ) as client:
            await client.get(proxy.base_url)
            environ = {"HTTP_PROXY": proxy.base_url}
            await client.get("http://service.invalid/path")
            direct, proxied = (exchange.request for exchange in proxy.exchanges)
            assert direct.headers["host"] != "service.invalid"
            assert proxied.headers["host"] == "service.invalid"

    asyncio.run(main())


def test_a_proxy_that_cannot_be_used_is_an_error_of_the_request() -> None:
    async def main() -> None:
        async with side_client(lambda: {"ALL_PROXY": "socks5://127.0.0.1:9"}) as client:
            with pytest.raises(httpx.ProxyError, match="socks5"):
                await client.get("http://service.invalid/")

    asyncio.run(main())


def test_a_client_that_was_never_used_closes_at_once() -> None:
    async def main() -> None:
        client = side_client(dict)
        await client.aclose()
        assert client.is_closed

    asyncio.run(main())
