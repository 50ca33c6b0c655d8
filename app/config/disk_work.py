"""Work on the disk that is never left half done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)


async def on_disk(work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Run ``work`` in a thread. Whoever is cancelled meanwhile is told so after it has ended, for a thread cannot be
    stopped, and nobody may look at files that it still moves.
    """
    running = asyncio.ensure_future(asyncio.to_thread(work, *arguments, **named))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await ended(running)
        if (error := running.exception()) is not None:
            log.error("%s failed while its caller was cancelled", work.__name__, exc_info=error)
        raise


async def ended(running: asyncio.Future[T]) -> None:
    """Wait for the end, however often one is cancelled meanwhile; what came of it is for the caller to ask."""
    while not running.done():
        try:
            await asyncio.wait((running,))
        except asyncio.CancelledError:
            continue
