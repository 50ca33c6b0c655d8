"""A proxy that adds the server's key to every request, for peers that cannot be given one.

All else passes as it is, ``Host`` and ``Origin`` too. Each connection carries one request.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


class _Proxy:
    def __init__(self, port: int, key: str) -> None:
        self._port = port
        self._key = key.encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            lines = [line for line in head[:-4].split(b"\r\n") if not line.lower().startswith(b"connection:")]
            lines += [b"Authorization: Bearer " + self._key, b"Connection: close"]
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._port)
            inner_writer.write(b"\r\n".join(lines) + b"\r\n\r\n")
            # Whoever hangs up first, both connections end: a client that goes away is what some tests are about.
            ways = {
                asyncio.create_task(_pass_on(reader, inner_writer)),
                asyncio.create_task(_pass_on(inner_reader, writer)),
            }
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            inner_writer.close()
        writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


@contextmanager
def keyed(url: str, key: str) -> Iterator[str]:
    """The same address behind the proxy, while the block lasts; ``url`` is one of this machine."""
    parts = urlsplit(url)
    assert parts.port is not None
    loop = asyncio.new_event_loop()
    proxy = _Proxy(parts.port, key)
    listening = loop.run_until_complete(asyncio.start_server(proxy.serve, "127.0.0.1", 0))
    port = listening.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield parts._replace(netloc=f"127.0.0.1:{port}").geturl()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        listening.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0.01))
        loop.close()
