"""The extra port of tool clients: who comes in by address, Host, Origin and token (WS-16, D63, D64)."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.errors import ConfigError
from app.extend import DeclaredSocket, SocketHandler, SocketRequest
from app.web.admission import Admission
from app.web.blocking import AddressBlocks
from app.web.server import TOOL_SOCKET_SETTINGS, serve
from app.web.socket_traffic import SocketTraffic
from app.web.tool_socket_port import TOOL_PATH, is_allowed_origin, is_own_host, tool_socket_app
from tests.server import HEADERS, KEY, run, running
from tests.web.sockets import KIB, Recorder, Site, frame, raw, until

UPSTREAM = "http://127.0.0.1:9"
TOKEN = "tool-token"


class Tools:
    """A part that serves tool clients."""

    def __init__(self) -> None:
        self.handlers: list[Recorder] = []

    def sockets(self) -> Sequence[DeclaredSocket]:
        return [DeclaredSocket(TOOL_PATH, self.accept, max_message_bytes=lambda: 10 * KIB, keys=lambda: (KEY,))]

    def accept(self, request: SocketRequest) -> SocketHandler:
        self.handlers.append(Recorder(request))
        return self.handlers[-1]


@asynccontextmanager
async def port(home: Path, *config: str) -> AsyncIterator[tuple[Site, Tools, Any]]:
    """A server with the extra port."""
    async with running(home, UPSTREAM, config=config) as server:
        tools = Tools()
        server.services.sockets = (tools,)
        blocks = AddressBlocks(home / "ip_blacklist.json", enabled=lambda: True, clock=lambda: 0.0)
        async with serve(tool_socket_app(server.services, Admission(blocks, SocketTraffic()))) as url:
            yield Site(url, handlers=tools.handlers), tools, server


async def status(place: Site, path: str = "/", *headers: str, host: str = "") -> int:
    """The status of the answer to somebody who wants to connect."""
    async with raw(place, handshake=False) as client:
        head = f"GET {path} HTTP/1.1\r\nHost: {host or f'localhost:{place.port}'}\r\nUpgrade: websocket\r\n"
        more = "".join(f"{header}\r\n" for header in headers)
        fixed = (
            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MTIzNDU2Nzg5MDEyMzQ1Ng==\r\n\r\n"
        )
        client.writer.write((head + more + fixed).encode())
        answer = await client.reader.readuntil(b"\r\n\r\n")
        if (got := int(answer.split()[1])) != 101:
            assert "error" in json.loads(await client.reader.read())
        return got


def test_programs_of_this_machine_come_in_without_a_token_at_any_path(tmp_path: Path) -> None:
    async def main() -> None:
        async with port(tmp_path) as (place, tools, _):
            async with raw(place, handshake=False) as client:
                assert (await client.handshake("/?snapshot=1")).startswith(b"HTTP/1.1 101 ")
                await client.send(frame("hello"))
                await until(lambda: tools.handlers[0].texts == ["hello"])
                assert tools.handlers[0].request == SocketRequest("/", "127.0.0.1", {"snapshot": "1"})
            assert await status(place, "/socket/of/mine") == 101
            assert await status(place, "/", "Authorization: Bearer anything") == 101
            assert await status(place, "/", "Sec-WebSocket-Protocol: mcp") == 101

    run(main())


def test_without_a_token_the_host_must_be_this_machine(tmp_path: Path) -> None:
    """A page whose name was made to point to 127.0.0.1 (DNS rebinding) still sends its own name."""

    async def main() -> None:
        async with port(tmp_path) as (place, _, _server):
            own = f"http://localhost:{place.port}"
            for host in (
                "evil.example",
                "evil.example:5005",
                "127.0.0.1.evil.example",
                "localhost@evil.example",
                "x y",
            ):
                assert await status(place, host=host) == 403
                assert await status(place, "/", f"Origin: {own}", host=host) == 403
            for host in ("127.0.0.1", "LOCALHOST:5005", "[::1]:5005"):
                assert await status(place, host=host) == 101

    run(main())


def test_without_a_token_pages_of_other_sites_are_refused_before_the_upgrade(tmp_path: Path) -> None:
    async def main() -> None:
        async with port(tmp_path, "ToolSocketOrigins=https://tavern.example.com") as (place, tools, _):
            for origin in (
                "https://evil.example",
                "null",
                "https://localhost.evil.example",
                "chrome-extension://abc",
                "x",
            ):
                assert await status(place, "/", f"Origin: {origin}") == 403
            assert tools.handlers == []
            for origin in (
                "http://localhost:8000",
                "http://127.0.0.1",
                "http://[::1]:3000",
                "https://tavern.example.com",
            ):
                assert await status(place, "/", f"Origin: {origin}") == 101

    run(main())


def test_with_a_token_everybody_needs_it_and_no_origin_matters(tmp_path: Path) -> None:
    async def main() -> None:
        async with port(tmp_path, f"ToolSocketToken={TOKEN}") as (place, _, _server):
            evil = "Origin: https://evil.example"
            assert await status(place) == 401
            assert await status(place, "/wrong") == 401
            assert await status(place, f"/VCP_Key={TOKEN}") == 401
            assert await status(place, "/", f"Authorization: Bearer {KEY}".encode().decode("latin-1")) == 401
            assert await status(place, f"/{TOKEN}", evil, host="tools.example.com") == 101
            assert await status(place, f"/{TOKEN}/", evil) == 101
            assert await status(place, f"/{TOKEN}/below?snapshot=1") == 101
            assert await status(place, "/", f"Authorization: Bearer {TOKEN}", evil) == 101
            assert await status(place, "/", f"Sec-WebSocket-Protocol: {TOKEN}", evil) == 101

    run(main())


def test_a_port_that_others_reach_lets_nobody_in_without_a_token(tmp_path: Path) -> None:
    """Should the settings lose the token while the port is open to all, it is open to nobody."""

    async def main() -> None:
        async with port(tmp_path, "ToolSocketHost=0.0.0.0") as (place, _, _server):
            assert await status(place) == 403

    run(main())


def test_whoever_comes_through_a_proxy_of_this_machine_is_not_of_this_machine(tmp_path: Path) -> None:
    async def main() -> None:
        async with port(tmp_path, "TrustedProxies=127.0.0.1") as (place, _, _server):
            assert await status(place, "/", "X-Forwarded-For: 203.0.113.5") == 403
            assert await status(place) == 101

    run(main())


def test_the_port_has_limits_of_its_own(tmp_path: Path) -> None:
    async def main() -> None:
        config = ("ToolSocketMaxConnections=1", "ToolSocketFramesPerSecond=5")
        async with port(tmp_path, *config) as (place, tools, server), raw(place, handshake=False) as client:
            await client.handshake("/")
            assert await status(place) == 503
            assert server.services.hub is not None
            await client.send(frame("x") * 6)
            assert await client.close_code() == 1008
            assert len(tools.handlers[0].texts) == 5
            while await status(place) != 101:
                pass
            async with raw(place, handshake=False) as long:
                while b"101" not in await long.handshake("/"):
                    await long.end()
                await long.send(frame("x" * 11 * KIB))
                assert await long.close_code() == 1009

    run(main())


def test_nobody_comes_in_before_the_server_runs_or_while_it_stops(tmp_path: Path) -> None:
    async def main() -> None:
        async with port(tmp_path) as (place, _, server):
            server.services.started = False
            assert await status(place) == 503
            server.services.started = True
            server.services.stopping.begin()
            assert await status(place) == 503

    run(main())


def test_plain_requests_get_no_route(tmp_path: Path) -> None:
    async def main() -> None:
        async with port(tmp_path) as (place, _, _server), httpx.AsyncClient(trust_env=False) as web:
            for path in ("/", "/v1/models", f"/{TOKEN}"):
                answer = await web.get(place.url + path, headers=HEADERS)
                assert answer.status_code == 404
                assert "error" in answer.json()
                assert TOKEN not in answer.text

    run(main())


def test_without_anybody_who_serves_tool_clients_there_is_no_port(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, UPSTREAM) as server:
            blocks = AddressBlocks(tmp_path / "x.json", enabled=lambda: True, clock=lambda: 0.0)
            services = server.services
            services.sockets = tuple(
                source for source in services.sockets if TOOL_PATH not in [one.path for one in source.sockets()]
            )
            with pytest.raises(ConfigError):
                tool_socket_app(services, Admission(blocks, SocketTraffic()))

    run(main())


def test_a_port_that_is_taken_is_an_error_that_names_its_settings(tmp_path: Path) -> None:
    async def main() -> None:
        async with port(tmp_path) as (_, _tools, server):
            blocks = AddressBlocks(tmp_path / "x.json", enabled=lambda: True, clock=lambda: 0.0)
            app = tool_socket_app(server.services, Admission(blocks, SocketTraffic()))
            with socket.create_server(("127.0.0.1", 0)) as taken:
                number = taken.getsockname()[1]
                with pytest.raises(ConfigError, match=r"ToolSocketHost.*ToolSocketPort"):
                    async with serve(app, port=number, settings=TOOL_SOCKET_SETTINGS):
                        raise AssertionError("it must not get here")

    run(main())


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:1", "127.0.0.1:65535", "127.9.9.9", "[::1]", "[::1]:5", "LocalHost."]
)
def test_hosts_of_this_machine(host: str) -> None:
    assert is_own_host(host)


@pytest.mark.parametrize(
    "host",
    ["", "a", ":5005", "::1", "[::1", "[::1]x", "127.0.0.1:x", "localhost/x", "u@localhost", "0.0.0.0", "127.0.0.1 "],
)
def test_hosts_that_are_not(host: str) -> None:
    assert not is_own_host(host)


def test_origins() -> None:
    assert is_allowed_origin("", ())
    assert is_allowed_origin("https://evil.example", ("*",))
    assert is_allowed_origin("null", ("null",))
    assert not is_allowed_origin("ftp://localhost", ())
    assert not is_allowed_origin("http://[::1", ())
    assert not is_allowed_origin("http://user@localhost", ())
