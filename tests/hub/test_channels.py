"""Paths, client types, keys and acknowledgements (spec 6.1, 10.6 W1, W2; B5)."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from app.hub.clients import ClientType
from app.hub.hub import PATHS
from tests.hub.clients import SOCKET_KEY, address, bare, bearer, connected
from tests.server import run, running

UPSTREAM = "http://127.0.0.1:9"
CONFIG = (f"VCP_Key={SOCKET_KEY}",)


@pytest.mark.parametrize("kind", ["VCPLog", "VCPInfo"])
def test_clients_of_log_and_info_are_acknowledged(tmp_path: Path, kind: str) -> None:
    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            connected(address(server.url, PATHS[ClientType(kind)])) as client,
        ):
            assert await client.receive() == {
                "type": "connection_ack",
                "message": f"WebSocket connection successful for {kind}.",
            }
            assert server.services.hub.count(ClientType(kind)) == 1

    run(main())


@pytest.mark.parametrize("kind", list(PATHS))
def test_every_type_of_client_connects_at_its_path(tmp_path: Path, kind: ClientType) -> None:
    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server:
            async with connected(address(server.url, PATHS[kind])) as client:
                await (await client.connection.ping())
                assert [one.kind for one in server.services.hub.clients(kind)] == [kind]
            while server.services.hub.count(kind):
                await asyncio.sleep(0)

    run(main())


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/vcplog/VCP_Key={SOCKET_KEY}", 404),
        (f"/VCPlog/VCP_Key={SOCKET_KEY}/", 401),
        (f"/VCPlog?VCP_Key={SOCKET_KEY}", 401),
        ("/VCPlog", 401),
        ("/VCPlog/VCP_Key=", 404),
        ("/VCPlog/VCP_Key=wrong", 401),
        ("/VCPlog/VCP_Key=%73ocket-key", 401),
        ("/nowhere/VCP_Key=socket-key", 404),
        ("/v1/chat/completions", 404),
        ("/", 404),
    ],
)
def test_who_is_refused_gets_a_status_before_the_upgrade(tmp_path: Path, path: str, status: int) -> None:
    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server:
            with pytest.raises(InvalidStatus) as refused:
                async with connected(f"ws{server.url.removeprefix('http')}{path}"):
                    pass
            assert refused.value.response.status_code == status
            assert b"error" in refused.value.response.body

    run(main())


def test_a_key_also_comes_as_header_or_subprotocol(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server:
            where = bare(server.url)
            async with connected(where, additional_headers={"Authorization": f"Bearer {SOCKET_KEY}"}) as client:
                assert (await client.receive())["type"] == "connection_ack"
            async with connected(where, subprotocols=[SOCKET_KEY]) as client:
                assert client.connection.subprotocol == SOCKET_KEY
            encoded = "vcp-key." + base64.urlsafe_b64encode(SOCKET_KEY.encode()).decode().rstrip("=")
            async with connected(where, subprotocols=["vcp", encoded]) as client:
                assert client.connection.subprotocol == "vcp"

    run(main())


def test_the_servers_key_opens_sockets_only_while_there_is_none_of_their_own(tmp_path: Path) -> None:
    async def main() -> None:
        headers = {"Authorization": bearer()}
        async with running(tmp_path / "a", UPSTREAM) as server, connected(bare(server.url), additional_headers=headers):
            pass
        async with running(tmp_path / "b", UPSTREAM, config=CONFIG) as server:
            with pytest.raises(InvalidStatus):
                async with connected(bare(server.url), additional_headers=headers):
                    pass

    run(main())


def test_a_message_longer_than_the_limit_ends_the_connection(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            connected(address(server.url)) as client,
        ):
            await client.receive()
            await client.send("[" + " " * 1024 * 1024 + "]")
            assert (await client.goodbye())[0] == 1009

    run(main())
