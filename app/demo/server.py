"""Runs an ASGI application on a real uvicorn inside the running event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Generator

import uvicorn
from starlette.types import ASGIApp

from app.errors import ConfigError

BACKLOG = 2048
GRACE = 3
"""Seconds that open answers have at shutdown before they are cancelled."""

_TICK = 0.1


@contextlib.asynccontextmanager
async def serve(app: ASGIApp, host: str = "127.0.0.1", port: int = 0, *, grace: int = GRACE) -> AsyncIterator[str]:
    """Serve ``app`` while the block runs; yields the base address without a path, such as ``http://127.0.0.1:4711``.

    Port 0 takes a free port. Lifespan events are sent; WebSockets and the access log are off; signals are left alone.
    Open answers have ``grace`` seconds to end. Raises OSError when the address is taken, ConfigError when the
    application's start fails.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    listener.setblocking(False)
    bound = listener.getsockname()[1]
    server = _Server(
        uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="on",
            access_log=False,
            log_config=None,
            server_header=False,
            backlog=BACKLOG,
            timeout_graceful_shutdown=grace,
        )
    )
    running = asyncio.ensure_future(server.serve(sockets=[listener]))
    ready = asyncio.ensure_future(server.ready.wait())
    try:
        await asyncio.wait((running, ready), return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            yield f"http://{f'[{host}]' if ':' in host else host}:{bound}"
    finally:
        ready.cancel()
        server.leave()
        try:
            await running
        finally:
            listener.close()
            if open_answers := list(server.server_state.tasks):
                await asyncio.wait(open_answers, timeout=grace)  # cancelled by now: let them clean up


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

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit as fault:
            # uvicorn would end the whole process here, and a SystemExit inside a task ends the event loop.
            raise ConfigError("The application did not start; its error is in the log.") from fault
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
            await super().shutdown(sockets)
        else:
            for listener in sockets or []:
                listener.close()
            await self.lifespan.shutdown()
