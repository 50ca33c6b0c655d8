"""Connections that fail, are refused or break: what people are told, and that the node comes back (P81, P82)."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from pathlib import Path

import pytest

from app.node.line import open_line
from app.node.main_server import main_server
from app.node.pauses import Pauses
from app.node.trouble import trouble_of
from tests.node.bench import NODE_KEY, main_end, running_node, until
from tests.server import ECHO, run, write_plugin


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, ("密钥", "key is wrong", "VCP_KEY")),
        (403, ("封禁", "blocked")),
        (404, ("--url", "Main_Server_URL")),
        (503, ("503",)),
    ],
)
def test_a_refusal_is_told_in_both_languages_with_the_way_out_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, status: int, words: tuple[str, ...]
) -> None:
    caplog.set_level(logging.DEBUG)

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url) as node:
            main.status = status
            await until(lambda: main.tries >= 3)
            assert all(word in " ".join(node.told) for word in words)
            assert len(node.told) == 1, "the same trouble is told once"
            main.status = None
            await main.introduced()
            await until(lambda: node.node.connected)
        logged = [record for record in caplog.records if not record.name.startswith("websockets.server")]
        assert NODE_KEY not in " ".join(record.getMessage() for record in logged)
        assert NODE_KEY not in " ".join(node.told)

    run(test())


def test_refusals_are_repeated_after_the_long_pause(tmp_path: Path) -> None:
    """An address that tries wrong keys is blocked; a reload, which may bring the right key, ends the pause."""

    async def test() -> None:
        pauses = Pauses(lambda: 1.0, first=0.01, longest=0.01, refused=3600)
        async with main_end() as main, running_node(tmp_path, main.url, pauses=pauses) as node:
            main.status = 401
            await until(lambda: node.told)
            tries = main.tries
            await asyncio.sleep(0.05)
            assert main.tries == tries
            main.status = None
            (tmp_path / "Plugin" / "New").mkdir(parents=True)
            await node.services.reload(["anything"])
            await main.introduced()

    run(test())


def test_a_redirect_is_not_followed_since_the_key_is_in_the_address(tmp_path: Path) -> None:
    async def test() -> None:
        async with main_end() as other, main_end() as main, running_node(tmp_path, main.url) as node:
            main.location = f"{other.url}/elsewhere"
            main.status = 302
            await until(lambda: node.told)
            assert "final address" in node.told[0]
            assert other.tries == 0

    run(test())


def test_a_server_that_hangs_up_after_the_handshake_gets_growing_pauses(tmp_path: Path) -> None:
    """P82, with injected chance and short times."""
    given: list[float] = []

    class Watched(Pauses):
        def after(self, held: float, *, refused: bool = False) -> float:
            given.append(super().after(held, refused=refused))
            return given[-1]

    async def test() -> None:
        pauses = Watched(lambda: 1.0, first=0.01, longest=0.08)
        async with main_end() as main, running_node(tmp_path, main.url, pauses=pauses):
            main.hangs_up = True
            await until(lambda: len(given) >= 5)
        assert given[:5] == [0.01, 0.02, 0.04, 0.08, 0.08]

    run(test())


def test_a_main_server_that_hangs_up_without_an_answer_is_told_so(tmp_path: Path) -> None:
    """Spec 6.1: the reference closes the connection for a wrong key."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async def test() -> None:
        async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with running_node(tmp_path, f"ws://127.0.0.1:{port}") as node:
                await until(lambda: node.told)
                assert "VCP_Key" in node.told[0]

    run(test())


def test_a_silent_line_is_given_up_and_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """P81 from the other end: a main server that stops answering pings."""

    async def test() -> None:
        config = ["SocketPingSeconds=0.05"]
        async with main_end() as main, running_node(tmp_path, main.url, config=config):
            link, _ = await main.introduced()
            link.connection.transport.pause_reading()
            again, _ = await main.introduced()
            assert again is not link
            link.connection.transport.resume_reading()
        assert "silent" in caplog.text

    run(test())


def test_a_line_that_is_well_and_idle_is_kept(tmp_path: Path) -> None:
    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url, config=["SocketPingSeconds=0.01"]) as node:
            await main.introduced()
            await until(lambda: node.node.connected)
            await asyncio.sleep(0.2)  # twenty pings
            assert node.node.connected and main.tries == 1

    run(test())


def test_a_node_that_has_not_connected_yet_ends_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as mute:
            async with running_node(tmp_path, f"ws://127.0.0.1:{mute.getsockname()[1]}") as node:
                await asyncio.sleep(0.01)
                await node.left()

    run(test())


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (socket.gaierror(-2, "Name or service not known"), "no host chat.example.com"),
        (ConnectionRefusedError(111, "Connection refused"), "wss://chat.example.com cannot be reached"),
        (TimeoutError(), "did not answer in time"),
        (ssl.SSLError(1, "WRONG_VERSION_NUMBER"), "ws://"),
    ],
)
def test_every_trouble_says_what_to_look_at(error: Exception, words: str) -> None:
    assert words in str(trouble_of(error, main_server("wss://chat.example.com")))


CERTIFICATE = Path(__file__).parents[1] / "upstream" / "localhost.pem"


def test_wss_works_with_an_authority_of_ones_own_and_is_refused_without(tmp_path: Path) -> None:
    async def test() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
        async with main_end(ssl=context) as main:
            url = main.url.replace("ws://127.0.0.1", "wss://localhost")
            async with running_node(tmp_path / "a", url, tls=ssl.create_default_context()) as node:
                await until(lambda: node.told)
                assert "--ca" in node.told[0]
            trusting = ssl.create_default_context(cafile=CERTIFICATE)
            async with running_node(tmp_path / "b", url, tls=trusting):
                await main.introduced()

    run(test())


def test_the_way_through_a_proxy_of_the_system_works() -> None:
    asked: list[bytes] = []

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head.split(b"\r\n")[0])
        host, port = head.split()[1].decode().split(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(pipe(reader, far_writer), pipe(far_reader, writer))

    async def test() -> None:
        async with main_end() as main, await asyncio.start_server(proxy, "127.0.0.1", 0) as server:
            line = await open_line(
                main.url,
                {},
                tls=None,
                proxy=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}",
                max_frame=1000,
                max_queued=lambda: 1000,
                agent="test",
            )
            assert await line.send({"type": "hello", "data": 1})
            assert await (await main.joined()).receive() == 1
            assert asked == [f"CONNECT {main.url.removeprefix('ws://')} HTTP/1.1".encode()]
            await line.close()

    run(test())


def test_changed_plugins_are_told_anew(tmp_path: Path) -> None:
    """Live reload: a new tool is offered, one that is gone is not callable any more."""
    write_plugin(tmp_path, "Echo", ECHO)

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url) as node:
            link, registered = await main.introduced()
            assert [tool["name"] for tool in registered["tools"]] == ["Echo"]
            write_plugin(tmp_path, "Second", ECHO)
            echo = tmp_path / "Plugin" / "Echo" / "plugin-manifest.json"
            echo.rename(echo.with_name("plugin-manifest.json.block"))
            await node.services.reload()
            registered = await link.receive("register_tools")
            assert [tool["name"] for tool in registered["tools"]] == ["Second"]
            assert (await link.call("1", "Echo", text="x"))["status"] == "error"
            await node.services.reload(["nothing"])
            assert (await link.call("2", "Second", text="x"))["status"] == "success"

    run(test())
