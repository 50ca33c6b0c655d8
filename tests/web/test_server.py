"""A real uvicorn as a guest of the running loop."""

import asyncio
import signal
import socket

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from app.errors import ConfigError
from app.web.connection import MAX_HEAD_BYTES
from app.web.server import serve


def app_with(lifespan=None, endpoint=None):
    async def hello(request):
        return PlainTextResponse("hello")

    return Starlette(routes=[Route("/", endpoint or hello)], lifespan=lifespan)


class Life:
    """A lifespan that tells what it saw."""

    def __init__(self):
        self.seen = []

    def __call__(self, app):
        return self

    async def __aenter__(self):
        self.seen.append("start")

    async def __aexit__(self, *fault):
        self.seen.append("stop")


def test_it_serves_on_a_free_port_and_closes_it_afterwards():
    async def run():
        life = Life()
        async with serve(app_with(life)) as base, httpx.AsyncClient(trust_env=False, verify=False) as client:
            assert base.startswith("http://127.0.0.1:")
            assert (await client.get(base)).text == "hello"
            assert life.seen == ["start"]
        assert life.seen == ["start", "stop"]
        with pytest.raises(httpx.ConnectError):
            async with httpx.AsyncClient(trust_env=False, verify=False) as client:
                await client.get(base)

    asyncio.run(run())


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_every_address_of_both_kinds_is_served_where_every_one_is_wanted():
    async def run():
        async with serve(app_with(), "::") as base, httpx.AsyncClient(trust_env=False, verify=False) as client:
            port = httpx.URL(base).port
            assert base == f"http://[::1]:{port}"
            for host in ("[::1]", "127.0.0.1"):
                assert (await client.get(f"http://{host}:{port}")).text == "hello"

    asyncio.run(run())


def test_two_servers_run_side_by_side():
    async def run():
        async with (
            serve(app_with()) as one,
            serve(app_with()) as two,
            httpx.AsyncClient(trust_env=False, verify=False) as client,
        ):
            assert one != two
            assert [(await client.get(base)).text for base in (one, two)] == ["hello", "hello"]

    asyncio.run(run())


def test_idle_connections_of_clients_do_not_hold_up_the_end():
    async def run():
        async with httpx.AsyncClient(trust_env=False, verify=False) as client, serve(app_with()) as base:
            await client.get(base)

    asyncio.run(run())


def test_an_open_answer_is_cancelled_after_its_grace():
    async def run():
        entered, stopped = asyncio.Event(), asyncio.Event()

        async def forever(request):
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            async with serve(app_with(endpoint=forever), grace=0) as base:
                asking = asyncio.ensure_future(client.get(base))
                await entered.wait()
            assert stopped.is_set()
            await asyncio.wait([asking])
            assert asking.exception() is not None or asking.result().status_code == 500

    asyncio.run(run())


def test_an_application_that_does_not_start_is_an_error_not_the_end_of_the_process():
    class Failing(Life):
        async def __aenter__(self):
            raise ValueError("no database")

    async def run():
        with pytest.raises(ConfigError):
            async with serve(app_with(Failing())):
                raise AssertionError("it must not get here")

    asyncio.run(run())


def test_a_port_that_is_taken_is_an_error_that_names_the_settings():
    async def run():
        with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError, match=r"HOST.*PORT"):
            async with serve(app_with(), port=taken.getsockname()[1]):
                raise AssertionError("it must not get here")

    asyncio.run(run())


def test_an_error_in_the_block_ends_the_server_and_comes_out():
    async def run():
        life = Life()
        with pytest.raises(ZeroDivisionError):
            async with serve(app_with(life)):
                raise ZeroDivisionError
        assert life.seen == ["start", "stop"]

    asyncio.run(run())


def test_cancelling_the_block_ends_the_server():
    async def run():
        life, inside = Life(), asyncio.Event()

        async def serve_for_ever():
            async with serve(app_with(life)):
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.ensure_future(serve_for_ever())
        await inside.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert life.seen == ["start", "stop"]

    asyncio.run(run())


def test_signal_handlers_of_the_process_are_left_alone():
    async def run():
        before = signal.getsignal(signal.SIGTERM)
        async with serve(app_with()):
            assert signal.getsignal(signal.SIGTERM) is before

    asyncio.run(run())


async def raw(base, blocks):
    """Send blocks until the other side answers or hangs up; what it sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(base.rpartition(":")[2]))
    answer = asyncio.ensure_future(reader.read())
    try:
        for block in blocks:
            writer.write(block)
            await writer.drain()
            if answer.done():
                break
        return await answer
    except ConnectionError:
        return b""
    finally:
        answer.cancel()
        writer.close()


def test_headers_without_end_are_refused_and_the_server_lives_on():
    async def run():
        sent = 0

        def endless():
            nonlocal sent
            yield b"GET / HTTP/1.1\r\nX-Long: "
            while sent < 64 * MAX_HEAD_BYTES:
                sent += 16384
                yield b"a" * 16384

        async with serve(app_with()) as base, httpx.AsyncClient(trust_env=False, verify=False) as client:
            answer = await raw(base, endless())
            assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")
            assert (await client.get(base)).text == "hello"

    asyncio.run(run())


def test_a_head_in_many_pieces_below_the_limit_is_taken():
    async def run():
        async with serve(app_with()) as base:
            head = b"GET / HTTP/1.1\r\nConnection: close\r\nX-Long: " + b"a" * (MAX_HEAD_BYTES // 2) + b"\r\n\r\n"
            pieces = [head[place : place + 1000] for place in range(0, len(head), 1000)]
            assert (await raw(base, pieces)).endswith(b"hello")

    asyncio.run(run())


@pytest.mark.parametrize("begun", [b"", b"GET / HT", b"\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / "])
def test_a_client_that_does_not_finish_its_head_is_hung_up_on(monkeypatch, begun):
    monkeypatch.setattr("app.web.connection.HEAD_SECONDS", 0.05)

    async def run():
        async with serve(app_with()) as base:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(base.rpartition(":")[2]))
            writer.write(begun)
            received = await asyncio.wait_for(reader.read(), 10)
            assert received.endswith(b"hello") == (b"Host" in begun)
            writer.close()

    asyncio.run(run())


def test_a_slow_answer_is_not_cut_by_a_head_that_comes_behind_it(monkeypatch):
    monkeypatch.setattr("app.web.connection.HEAD_SECONDS", 0.02)

    async def run():
        go = asyncio.Event()

        async def slow(request):
            await go.wait()
            return PlainTextResponse("at last")

        async with serve(app_with(endpoint=slow)) as base:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(base.rpartition(":")[2]))
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / ")
            asyncio.get_running_loop().call_later(0.1, go.set)
            assert (await asyncio.wait_for(reader.read(), 10)).endswith(b"at last")
            writer.close()

    asyncio.run(run())


def test_a_broken_handshake_of_a_websocket_is_refused_without_advice(caplog):
    async def run():
        async with serve(app_with()) as base:
            upgrade = b"Upgrade: websocket\r\nConnection: Upgrade, close\r\nSec-WebSocket-Version: 13\r\n"
            answer = await raw(base, [b"GET / HTTP/1.1\r\nHost: x\r\n" + upgrade + b"\r\n"])
            assert answer.startswith(b"HTTP/1.1 400 ")

    asyncio.run(run())
    assert "pip install" not in caplog.text
