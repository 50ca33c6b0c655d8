"""Answers of the upstream that go to a client as they are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from starlette.types import Receive, Scope, Send

from app.errors import UpstreamError
from app.upstream.reply import Reply
from app.upstream.urls import redirected
from app.web.body import ClientGoneError
from app.web.headers import raw_header
from app.web.paths import shown_path

log = logging.getLogger(__name__)

_NOT_COPIED = frozenset({"set-cookie", "date", "server"})


class RedirectedError(UpstreamError):
    """The upstream sends us elsewhere. Its ``Location`` is not passed on: it may name a host that only we can reach."""

    code = "upstream_redirect"


def refuse_redirect(reply: Reply) -> None:
    """Raise RedirectedError for an answer that sends us elsewhere."""
    place = reply.headers.get("Location")
    if place is not None and 300 <= reply.status < 400:
        raise RedirectedError(redirected(place))


def copied_headers(reply: Reply) -> list[tuple[bytes, bytes]]:
    """The upstream's headers for the client: all but those of the connection and those that are ours to say."""
    return [raw_header(name, value) for name, value in reply.end_to_end_headers() if name.lower() not in _NOT_COPIED]


async def relay(reply: Reply, scope: Scope, send: Send) -> None:
    """Pass status, headers and body on as they come, no faster than the client takes them; closes the reply.

    A fault of the upstream in mid-answer cannot be told any more: the answer breaks off. Raises RedirectedError.
    """
    try:
        refuse_redirect(reply)
        await send({"type": "http.response.start", "status": reply.status, "headers": copied_headers(reply)})
        try:
            while block := await reply.read_some():
                await send({"type": "http.response.body", "body": block, "more_body": True})
        except UpstreamError as error:
            log.warning("the answer to %s %s broke off: %s", scope["method"], shown_path(scope["path"]), error.code)
            return  # the web server closes the connection of an answer without an end
        await send({"type": "http.response.body", "body": b""})
    finally:
        await reply.close()


async def ended_by_hang_up(work: Coroutine[Any, Any, None], receive: Receive, complete: asyncio.Event) -> None:
    """Do ``work`` until the client hangs up, then cancel it. Raises what it raises.

    Nothing is received before the request is ``complete``: until then whoever reads its body notices.
    """

    async def hung_up() -> None:
        await complete.wait()
        while (await receive())["type"] != "http.disconnect":
            continue

    task = asyncio.ensure_future(work)
    watcher = asyncio.ensure_future(hung_up())
    try:
        await asyncio.wait({task, watcher}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        watcher.cancel()
        task.cancel()  # nothing happens when it is done
        await asyncio.wait({task, watcher})
    if not task.cancelled():
        try:
            task.result()
        except ClientGoneError:
            return
