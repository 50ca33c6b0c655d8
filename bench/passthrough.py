"""What the server is compared with: raw ASGI and aiohttp, bytes in, bytes out, and nothing in between.

``python -m bench.passthrough ADDRESS`` prints its address and serves until it is terminated. It has the same web
server, loop and HTTP client as the real one, so the difference is what our own code costs.
"""

from __future__ import annotations

import socket
import sys
from typing import Any

import aiohttp
import uvicorn

_HEADERS = ("content-type", "content-length")


class PassThrough:
    """The ASGI application."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request with the upstream's bytes."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        assert self._session is not None
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        async with self._session.post(self._upstream + scope["path"], data=body, headers=headers) as response:
            kept = [
                (name.encode(), response.headers[name].encode("latin-1"))
                for name in _HEADERS
                if name in response.headers
            ]
            await send({"type": "http.response.start", "status": response.status, "headers": kept})
            async for block in response.content.iter_any():
                await send({"type": "http.response.body", "body": block, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _lifespan(self, receive: Any, send: Any) -> None:
        await receive()
        connector = aiohttp.TCPConnector(limit=0)
        self._session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._session.close()
        await send({"type": "lifespan.shutdown.complete"})


def main() -> None:
    """Serve before the upstream that the command line names."""
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        config = uvicorn.Config(
            PassThrough(sys.argv[1]), loop="uvloop", http="httptools", ws="none", access_log=False, log_level="warning"
        )
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
