"""The web server process: a socket with a clear error, signals that end it with exit code 0, uvicorn in between."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp

from app.errors import ConfigError

BACKLOG = 2048
KEEP_ALIVE_SECONDS = 75


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket bound to the address; ``ConfigError`` that names the setting when it cannot be."""
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = infos[0]
        server = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"HOST={host} is not an address of this machine: {error}") from error
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(address)
        server.listen(BACKLOG)
    except OSError as error:
        server.close()
        raise ConfigError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; "
            "choose another port with PORT in config.env or --port, or stop the program that uses it"
        ) from error
    server.setblocking(False)
    return server


class _Server(uvicorn.Server):
    """uvicorn without its own signal handling, which would end the process by the signal again (P83)."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(app: ASGIApp, shutdown_seconds: float) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, round(shutdown_seconds)),
        lifespan="on",
        ws="none",
    )


@asynccontextmanager
async def served(app: ASGIApp, bound: socket.socket, shutdown_seconds: float = 5) -> AsyncIterator[str]:
    """Serve ``app`` while the block runs; gives its base address. For programs that run a server within themselves."""
    server = _Server(_config(app, shutdown_seconds))
    task = asyncio.create_task(server.serve(sockets=[bound]))
    try:
        while not server.started:
            if task.done():
                task.result()
                raise ConfigError("the web server ended while it was starting; its log says why")
            await asyncio.sleep(0.005)
        yield address_of(bound)
    finally:
        server.should_exit = True
        await task


async def serve_forever(
    app: ASGIApp, bound: socket.socket, shutdown_seconds: float, on_started: Callable[[], None]
) -> None:
    """Serve until SIGINT or SIGTERM; a second signal does not wait for running requests."""
    server = _Server(_config(app, shutdown_seconds))
    loop = asyncio.get_running_loop()

    def stop() -> None:
        server.force_exit = server.should_exit
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stop)
        except NotImplementedError:  # Windows: its event loop has no signal handlers
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop))
    task = asyncio.create_task(server.serve(sockets=[bound]))
    while not server.started and not task.done():
        await asyncio.sleep(0.01)
    if server.started:
        on_started()
    await task
    if not server.started:
        raise ConfigError("the web server ended while it was starting; its log says why")


def address_of(bound: socket.socket) -> str:
    """``http://host:port`` under which a client on this machine reaches the socket."""
    host, port = bound.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
