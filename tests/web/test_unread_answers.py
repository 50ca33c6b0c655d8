"""Clients that ask and then do not read: they hold up nobody, and not for ever."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
import uvicorn
from uvicorn.server import ServerState

from app.web.connection import Connection
from app.web.server import serve
from tests.waiting import until

MORE_THAN_NETWORKS_HOLD = b"x" * (32 * 1024 * 1024)


class Endless:
    """An application whose answer is never taken; ``last_words`` are tried when it is cancelled."""

    def __init__(self):
        self.stuck = asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            if self.stuck.is_set():
                await self.ended.wait()  # as the services wait for running turns
            await send({"type": "lifespan.shutdown.complete"})
            return
        body = {"type": "http.response.body", "body": MORE_THAN_NETWORKS_HOLD, "more_body": True}
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send(body)
        self.stuck.set()
        try:
            await send(body)
        except asyncio.CancelledError:
            await send(body)
        self.ended.set()


@asynccontextmanager
async def unread(base):
    """A client that has asked and reads nothing."""
    _, writer = await asyncio.open_connection("127.0.0.1", int(base.rpartition(":")[2]), limit=1)
    writer.transport.pause_reading()
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    try:
        yield
    finally:
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()


def test_a_client_that_does_not_read_is_hung_up_on(monkeypatch):
    monkeypatch.setattr("app.web.connection.SEND_SECONDS", 0.05)

    async def run():
        app = Endless()
        async with serve(app, grace=0) as base, unread(base):
            await asyncio.wait_for(app.ended.wait(), 10)

    asyncio.run(run())


def test_a_client_that_does_not_read_does_not_hold_up_the_stop(monkeypatch):
    monkeypatch.setattr("app.web.server.ABANDON_SECONDS", 0.05)

    async def run():
        app = Endless()
        async with asyncio.timeout(10) as limit:
            async with serve(app, grace=0) as base:
                client = unread(base)
                await client.__aenter__()
                await app.stuck.wait()
        assert not limit.expired()
        assert app.ended.is_set()
        await client.__aexit__(None, None, None)

    asyncio.run(run())


class Transport(asyncio.Transport):
    """Tells one size of what waits after the other."""

    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes
        self.aborted = asyncio.Event()

    def get_write_buffer_size(self):
        return self.sizes.pop(0)

    def is_closing(self):
        return False

    def abort(self):
        self.aborted.set()

    def close(self):
        """There is nothing to close."""


@pytest.mark.parametrize("sizes", [[90, 90], [90, 60, 60, 20, 20, 20], [90, 120]])
def test_a_client_is_hung_up_on_when_it_takes_nothing_not_when_it_is_slow(monkeypatch, sizes):
    monkeypatch.setattr("app.web.connection.SEND_SECONDS", 0)

    async def run():
        config = uvicorn.Config(Endless(), log_config=None)
        config.load()
        connection = Connection(config, ServerState(), {})
        transport = Transport(list(sizes))
        connection.connection_made(transport)
        connection.pause_writing()
        await asyncio.wait_for(transport.aborted.wait(), 10)
        connection.connection_lost(None)
        assert transport.sizes == []

    asyncio.run(run())


def test_clients_that_leave_too_much_unread_together_are_hung_up_on_the_oldest_first(monkeypatch):
    """Else whoever asks for large answers on many connections fills the memory before anybody's time is over."""
    monkeypatch.setattr("app.web.connection.MAX_UNTAKEN_BYTES", 3 * len(MORE_THAN_NETWORKS_HOLD))
    monkeypatch.setattr("app.web.server.ABANDON_SECONDS", 0.05)
    stuck, ended = [], []

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            return await Endless()(scope, receive, send)
        number = len(stuck)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": MORE_THAN_NETWORKS_HOLD, "more_body": True})
        stuck.append(number)
        try:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            ended.append(number)

    async def run():
        async with asyncio.timeout(20), serve(app, grace=0) as base, AsyncExitStack() as clients:
            for number in range(5):
                await clients.enter_async_context(unread(base))
                await until(lambda wanted=number + 1: len(stuck) == wanted)
            await until(lambda: len(ended) == 2)
            assert ended == [0, 1]

    asyncio.run(run())
