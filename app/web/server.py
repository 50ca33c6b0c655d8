"""Runs an ASGI application on a real uvicorn inside the running event loop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Callable, Generator
from functools import partial

import uvicorn
from starlette.types import ASGIApp

from app.config.addresses import own_address
from app.errors import ConfigError, both
from app.web.connection import Connection
from app.web.socket_connection import SocketConnection
from app.web.socket_traffic import OpenSockets

BACKLOG = 2048
GRACE = 3
"""Seconds that open answers have at shutdown before they are cancelled."""

KEEP_ALIVE_SECONDS = 75
"""An idle connection is kept longer than the usual 60 s of proxies, so that none sends into a closing one."""

ABANDON_SECONDS = 1.0
"""How long the last words to clients that do not read are waited for at shutdown, after open answers were cancelled."""

_TICK = 0.1

Settings = tuple[str, str, str]
"""The settings that name a listener's address and port, and what else does."""

_SETTINGS: Settings = ("HOST", "PORT", " or --host and --port")
TOOL_SOCKET_SETTINGS: Settings = ("ToolSocketHost", "ToolSocketPort", "")


@contextlib.asynccontextmanager
async def serve(
    app: ASGIApp, host: str = "127.0.0.1", port: int = 0, *, grace: int = GRACE, settings: Settings = _SETTINGS
) -> AsyncIterator[str]:
    """Serve ``app`` while the block runs; yields the base address without a path, such as ``http://127.0.0.1:4711``.

    Port 0 takes a free port. Lifespan events are sent; the access log is off; signals are left alone.
    Open answers have ``grace`` seconds to end. Raises ConfigError when the address is taken or none of this machine,
    which names the ``settings`` that say it, or when the application's start fails.
    """
    async with _serving(app, host, port, grace, settings) as (address, _):
        yield address


@contextlib.asynccontextmanager
async def _serving(
    app: ASGIApp, host: str, port: int, grace: int, settings: Settings = _SETTINGS
) -> AsyncIterator[tuple[str, _Server]]:
    listener = _listener(host, port, settings)
    bound = listener.getsockname()[1]
    sockets = OpenSockets()
    server = _Server(
        uvicorn.Config(
            app,
            http=Connection,
            ws=partial(SocketConnection, sockets),  # type: ignore[arg-type]  # called like the class that it makes
            ws_per_message_deflate=False,  # a broadcast is one text for all, and nothing unpacks to more than was sent
            lifespan="on",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=grace,
        )
    )
    running = asyncio.ensure_future(server.serve(sockets=[listener]))
    ready = asyncio.ensure_future(server.ready.wait())
    try:
        await asyncio.wait((running, ready), return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            yield own_address(host, bound), server
    finally:
        ready.cancel()
        server.leave()
        try:
            await running
        finally:
            listener.close()
            await sockets.close_all(ABANDON_SECONDS)
            if open_answers := list(server.server_state.tasks):
                await asyncio.wait(open_answers, timeout=min(grace, GRACE))  # cancelled by now: let them clean up


async def serve_until_signal(
    app: ASGIApp,
    host: str,
    port: int,
    grace: float,
    on_started: Callable[[str], None],
    on_stopping: Callable[[float], object] = lambda _seconds: None,
    leave_on: Callable[[Callable[[], None]], object] = lambda _leave: None,
) -> bool:
    """Serve until SIGINT or SIGTERM, then end normally; a second signal does not wait for open answers (P83).

    ``leave_on`` gets a function that begins the same end without a signal. True when there was a signal.

    ``on_started`` is called with the address once requests are taken, ``on_stopping`` at each signal with the seconds
    that what runs still has. Raises what ``serve`` raises.
    """
    loop = asyncio.get_running_loop()
    leaving = asyncio.Event()
    signals = 0
    async with _serving(app, host, port, max(1, round(grace))) as (address, server):

        def leave() -> None:
            on_stopping(grace)
            leaving.set()

        def stop() -> None:
            nonlocal signals
            signals += 1
            if signals > 1:
                server.cut()
                on_stopping(0.0)
            leave()

        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                loop.add_signal_handler(number, stop)
            except NotImplementedError:  # Windows: its event loops have no signal handlers
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop))
        on_started(address)
        leave_on(leave)
        await leaving.wait()
    return signals > 0


def is_free(host: str, port: int) -> bool:
    """Whether this address could be listened on now."""
    try:
        _listener(host, port, _SETTINGS).close()
    except ConfigError:
        return False
    return True


def _listener(host: str, port: int, settings: Settings) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        both_kinds = (
            address[0] == "::" and socket.has_dualstack_ipv6()
        )  # as other servers do, and as Docker's check wants
        listener = socket.create_server(address[:2], family=family, backlog=BACKLOG, dualstack_ipv6=both_kinds)
    except OSError as error:
        raise ConfigError(
            both(
                f"无法监听 {host} 端口 {port}：请更换 {settings[0]} / {settings[1]}，或停止占用该端口的程序",
                f"cannot listen on {host} port {port}: {error.strerror or error}; choose another address or port with "
                f"{settings[0]} and {settings[1]} in config.env{settings[2]}, or stop the program that uses this one",
            )
        ) from error
    listener.setblocking(False)
    return listener


class _Server(uvicorn.Server):
    """uvicorn as a guest: it takes no signals, tells when it is ready, and leaves without waiting for a tick."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()
        self._leaving = asyncio.Event()

    def leave(self) -> None:
        """Stop accepting and end."""
        self.should_exit = True
        self._leaving.set()

    def cut(self) -> None:
        """Cancel the answers that are still open; each ends in its own way."""
        for answer in self.server_state.tasks:
            answer.cancel()
        asyncio.get_running_loop().call_later(ABANDON_SECONDS, self._abandon)

    def _abandon(self) -> None:
        """Nobody who reads waits for those who do not."""
        for connection in list(self.server_state.connections):
            if isinstance(connection, Connection):
                connection.abandon()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit as fault:
            # uvicorn would end the whole process here, and a SystemExit inside a task ends the event loop.
            raise ConfigError(
                both("程序没有启动，原因见日志", "the application did not start; its error is in the log")
            ) from fault
        self.ready.set()

    async def main_loop(self) -> None:
        counter = 0
        while not await self.on_tick(counter):
            counter = (counter + 1) % 864_000
            with contextlib.suppress(TimeoutError):  # the usual case: time for the next tick
                await asyncio.wait_for(self._leaving.wait(), _TICK)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # idle connections are gone after one round of the loop
        if self.server_state.connections or self.server_state.tasks:
            grace = self.config.timeout_graceful_shutdown or 0  # then uvicorn cancels what is still open
            abandoning = asyncio.get_running_loop().call_later(grace + ABANDON_SECONDS, self._abandon)
            await super().shutdown(sockets)
            abandoning.cancel()
        else:
            for listener in sockets or []:
                listener.close()
            await self.lifespan.shutdown()
