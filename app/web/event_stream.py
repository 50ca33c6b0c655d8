"""A streamed response: starts with the first event, beats while nothing else is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from starlette.types import Send

from app.protocol.markers import KEEPALIVE_COMMENT
from app.web.headers import raw_header

HEARTBEAT = KEEPALIVE_COMMENT.encode() + b"\n\n"


class EventStream:
    """Writes server-sent events to one client.

    The response starts at the first write, so that an error before it can still have a status of its own. A comment
    goes out whenever nothing was sent for ``heartbeat`` seconds (P18), before the first event too unless ``hold`` is
    set: then the status is still open and only the first event may start the response.
    """

    def __init__(
        self, send: Send, heartbeat: float, *, hold: bool, headers: Callable[[], Mapping[str, str]] = dict
    ) -> None:
        self._send = send
        self._heartbeat = heartbeat
        self._hold = hold
        self._headers = headers
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._beating: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        self.started = False
        self._closed = False
        self._ended = False
        self._arm(heartbeat)

    def _arm(self, delay: float) -> None:
        if self._heartbeat > 0 and not self._closed:
            self._timer = self._loop.call_later(delay, self._due)

    def _due(self) -> None:
        rest = self._last + self._heartbeat - self._loop.time()
        if rest > 0.001:
            self._arm(rest)
        elif self._hold and not self.started:
            self._arm(self._heartbeat)
        elif self._beating is None or self._beating.done():
            self._beating = asyncio.create_task(self.write(HEARTBEAT))
            self._arm(self._heartbeat)
        else:
            self._arm(self._heartbeat)  # the client does not read: one waiting beat is enough

    async def write(self, data: bytes, last: bool = False) -> None:
        """Send whole events; waits while the client reads slowly. Cancelled, it has sent none of them.

        With ``last`` the response ends with them, whatever else is still being done on its behalf.
        """
        self._last = self._loop.time()
        async with self._writing:  # a beat never comes between the two halves of the response's start
            if self._ended:
                return
            if not self.started:
                fixed = [
                    (b"content-type", b"text/event-stream"),
                    (b"cache-control", b"no-cache"),
                    (b"connection", b"keep-alive"),
                    (b"x-accel-buffering", b"no"),
                ]
                passed = [raw_header(name, value) for name, value in self._headers().items()]
                await self._send({"type": "http.response.start", "status": 200, "headers": fixed + passed})
                self.started = True  # not before: a write that is cancelled while it waits has sent nothing
            await self._send({"type": "http.response.body", "body": data, "more_body": not last})
            self._ended = last

    def stop_beating(self) -> None:
        """No beat from now on; must be called in the end."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._beating is not None:
            self._beating.cancel()

    async def end(self) -> None:
        """Close the response."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._beating is not None:
            await asyncio.wait({self._beating})  # not cancelled: it may have sent one half of the response's start
        if self.started:
            await self.write(b"", last=True)
