"""WebSockets of ``vcp serve``: a real process and its end, dead clients, the port of tool clients."""

from __future__ import annotations

import asyncio
import signal
import sys
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.errors import ConfigError
from app.hub.clients import ClientType
from tests.cli.commands import refused
from tests.cli.test_serve import answering, configured, halved, refuses
from tests.hub.clients import SOCKET_KEY, address, connected
from tests.program import Program, started
from tests.server import read_stream, run, running
from tests.web.sockets import Raw, until

IDLE = 300


def base(program: Program) -> str:
    return program.base_url.removesuffix("/v1")


def test_sockets_live_until_the_chats_have_ended_and_are_told_goodbye(tmp_path: Path) -> None:
    """P83: a chat that ends in its time may still need a far node."""

    async def test() -> None:
        async with ScriptedUpstream([halved(say("the first half and the second half").streamed())]) as upstream:
            configured(tmp_path, upstream.base_url, f"VCP_Key={SOCKET_KEY}")
            with started("serve", "--port", "0", cwd=tmp_path) as program:
                async with connected(address(base(program), "/vcp-distributed-server")) as node:
                    async with answering(program, "k") as (_, response):
                        await upstream.held()
                        program.process.send_signal(signal.SIGTERM)
                        await refuses(program.base_url)
                        await (await node.connection.ping())
                        upstream.release()
                        await response.aread()
                    assert read_stream(response).text == "the first half and the second half"
                    assert (await node.goodbye(after_more=True))[0] == 1001
                assert await asyncio.to_thread(program.ended) == 0
                assert "Traceback" not in program.logged

    run(test())


def test_a_second_signal_does_not_wait_for_anybody_and_a_stop_not_for_idle_sockets(tmp_path: Path) -> None:
    """Hundreds of clients that never answer, handshakes in their middle, and a chat that would go on for long."""

    async def test() -> None:
        environ = {"ShutdownSeconds": "600", "VCP_Key": SOCKET_KEY, "SocketMaxConnections": str(IDLE)}
        with started("serve", "--port", "0", cwd=tmp_path, environ=environ) as program:
            where = httpx.URL(base(program))
            opened = await asyncio.gather(*(asyncio.open_connection(where.host, where.port) for _ in range(IDLE + 5)))
            clients = [Raw(*streams) for streams in opened]
            path = f"/vcpinfo/VCP_Key={SOCKET_KEY}"
            for answer in await asyncio.gather(*(client.handshake(path) for client in clients[:IDLE])):
                assert answer.startswith(b"HTTP/1.1 101 ")
            for client in clients[IDLE:]:
                client.writer.write(b"GET /VCPlog/VCP_Key=")
            async with answering(program, program.key, messages=[{"role": "user", "content": "slow"}]) as (_, response):
                await anext(response.aiter_text())
                program.process.send_signal(signal.SIGTERM)
                await refuses(program.base_url)
                program.process.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(program.ended) == 0
            assert "Traceback" not in program.logged
            assert [await client.close_code() for client in clients[:IDLE]] == [1001] * IDLE
            for client in clients:
                client.writer.transport.abort()

    run(test())


FROZEN = """
import asyncio, sys
from websockets.asyncio.client import connect
async def main():
    async with connect(sys.argv[1], proxy=None) as connection:
        await connection.recv()
        print("connected", flush=True)
        await connection.wait_closed()
asyncio.run(main())
"""


def test_a_client_whose_process_stands_still_is_gone_after_two_pings(tmp_path: Path) -> None:
    """P81."""

    async def test() -> None:
        config = (f"VCP_Key={SOCKET_KEY}", "SocketPingSeconds=0.1")
        async with running(tmp_path, "http://127.0.0.1:9", config=config) as server:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", FROZEN, address(server.url), stdout=asyncio.subprocess.PIPE
            )
            try:
                assert process.stdout is not None
                assert await process.stdout.readline() == b"connected\n"
                await asyncio.sleep(0.5)  # five pings, answered
                assert server.services.hub.count(ClientType.VCP_LOG) == 1
                process.send_signal(signal.SIGSTOP)
                await until(lambda: server.services.hub.count(ClientType.VCP_LOG) == 0)
                numbers = (await server.client.get("/metrics")).text
                assert 'vcp_sockets_ended_total{reason="silent"} 1.0' in numbers
                assert 'vcp_clients{type="VCPLog"} 0.0' in numbers
                assert "vcp_socket_incoming_bytes 0.0" in numbers
            finally:
                process.kill()
                await process.wait()

    run(test())


def test_a_port_of_tool_clients_that_others_reach_needs_a_token(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """D63."""
    (tmp_path / "config.env").write_text("ToolSocketPort=5005\nToolSocketHost=0.0.0.0\n", encoding="utf-8")
    told = refused(capsys, "serve", "--home", str(tmp_path), "--port", "0")
    assert "ToolSocketToken" in told
    assert "0.0.0.0" in told


def test_a_port_of_tool_clients_is_not_the_servers_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "config.env").write_text("ToolSocketPort=5005\nPORT=5005\n", encoding="utf-8")
    assert "ToolSocketPort" in refused(capsys, "serve", "--home", str(tmp_path))


def test_a_reload_that_takes_the_token_away_is_not_put_in_force(tmp_path: Path) -> None:
    async def test() -> None:
        config = ("ToolSocketPort=5005", "ToolSocketHost=0.0.0.0", "ToolSocketToken=t")
        async with running(tmp_path, "http://127.0.0.1:9", config=config) as server:
            services = server.services
            before = services.config
            without = before.settings.model_copy(update={"tool_socket_token": ""})
            with pytest.raises(ConfigError):
                services.apply(replace(before, settings=without))
            assert services.config is before

    run(test())
