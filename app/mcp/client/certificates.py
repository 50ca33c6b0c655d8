"""The certificates that addresses with ``https`` are checked with, read once for all connections."""

from __future__ import annotations

import asyncio
import ssl


class Certificates:
    """Reading the certificates of the world takes 40 ms: too long for the event loop, and for each connection anew.

    ``context`` is what every HTTP client may use, None before ``read``.
    """

    def __init__(self) -> None:
        self.context: ssl.SSLContext | None = None
        self._reading = asyncio.Lock()

    async def read(self) -> None:
        """Read them, unless that is done. Raises OSError when they cannot be read; then the next one tries again."""
        async with self._reading:
            if self.context is None:
                self.context = await asyncio.to_thread(_context)


def _context() -> ssl.SSLContext:
    import httpx2  # comes with the SDK, and is loaded with the first server (see ``McpServers``)

    return httpx2.create_ssl_context()
