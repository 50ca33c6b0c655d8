"""One at a time, over all processes of a home: a browser flow, a refresh (mcp.md 2.6, MCP-78)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from app.config.file_lock import try_lock

TRY_SECONDS = 0.05


@asynccontextmanager
async def turn(path: Path, seconds: float) -> AsyncIterator[None]:
    """Hold the lock file ``path``, whose folder exists, while the block runs; never blocks the event loop.

    Raises TimeoutError when another holds it for ``seconds``, and OSError.
    """
    loop = asyncio.get_running_loop()
    last = loop.time() + seconds
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        while try_lock(descriptor) is False:
            if loop.time() >= last:
                raise TimeoutError(f"{path.name} is held by another process")
            await asyncio.sleep(TRY_SECONDS)
        yield
    finally:
        os.close(descriptor)  # which gives the lock back
