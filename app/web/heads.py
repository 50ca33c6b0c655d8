"""What a client may send before anybody has asked for its key: a request head of bounded size, in bounded time.

uvicorn's fast parser has neither limit; one connection without a key could fill the memory with a header that never
ends.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 * 1024
"""Longest request line and headers together, not counting the pieces (256 KiB at most) they begin and end in."""

HEAD_SECONDS = 90.0
"""From the connection, or from a later request's first byte, to the end of the request's head.

Longer than an idle connection is kept, for some clients connect before they have a request."""

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with both limits."""

    head_seconds = HEAD_SECONDS

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_bytes = 0
        self._in_head = True
        self._begins = False  # the head begins in the piece at hand, perhaps behind the end of a body
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Start the clock of the first head."""
        super().connection_made(transport)
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse; hang up on a head that grows too long."""
        self._begins = False
        super().data_received(data)
        if self._in_head and not self._begins and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self.transport.write(_TOO_LARGE)
                self.transport.close()

    def on_message_begin(self) -> None:
        """A request begins, perhaps not the first of its connection."""
        super().on_message_begin()
        self._in_head = self._begins = True
        if self._head_timer is None:
            self._start_clock()

    def on_headers_complete(self) -> None:
        """The head has come to its end."""
        self._in_head = False
        self._head_bytes = 0
        self._stop_clock()
        super().on_headers_complete()

    def _start_clock(self) -> None:
        self._head_timer = asyncio.get_running_loop().call_later(self.head_seconds, self._too_slow)

    def _stop_clock(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        # An answer may still be on its way to a client that has begun its next request already.
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:
            self._start_clock()
