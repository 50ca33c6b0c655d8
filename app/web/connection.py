"""A client's connection: uvicorn's, with limits on what may come and on how long it may take.

They hold before anybody has asked for a key, so they are part of the transport and not of the application.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 * 1024
"""How much is read of a request line and headers, beyond one block of the network, before the client is refused."""

HEAD_SECONDS = 60.0
"""How long a client may take to send a request line and headers, from the connection or the end of the last answer."""

SEND_SECONDS = 300.0
"""How long a client may take nothing of what waits for it, before it is hung up on."""

MAX_UNTAKEN_BYTES = 128 * 1024 * 1024
"""Of answers that wait to be taken, on all connections; beyond, whoever has taken nothing for longest has to go."""

LARGE_BYTES = 1024 * 1024
"""An answer of fewer bytes is not worth looking at all others."""

_HEAD_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json; charset=utf-8\r\n"
    b'connection: close\r\ncontent-length: 52\r\n\r\n{"error":"the headers of the request are too large"}'
)

_OLD_HTTP = (
    b"HTTP/1.1 505 HTTP Version Not Supported\r\ncontent-type: application/json; charset=utf-8\r\n"
    b'connection: close\r\ncontent-length: 38\r\n\r\n{"error":"a WebSocket needs HTTP/1.1"}'
)


class Connection(HttpToolsProtocol):
    """uvicorn's connection, which by itself lets everybody send headers without end and without hurry.

    What is in order costs nothing: only a head that did not come in one piece is counted and timed.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows it too
        super().connection_made(transport)
        self._in_head = False
        self._upgraded = False
        self._head_bytes = 0
        self._watch: asyncio.TimerHandle | None = self.loop.call_later(HEAD_SECONDS, self._too_slow)
        self._untaken = 0
        self._paused_at = 0.0
        self._send_watch: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watch()
        self._stop_send_watch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        begun = self._in_head
        super().data_received(data)
        if self._upgraded:
            return
        if self._in_head:
            self._head_bytes = self._head_bytes + len(data) if begun else 0
            if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
                self.transport.write(_HEAD_TOO_LARGE)
                self.transport.close()
        if not self._waits_for_head():
            self._stop_watch()
        elif self._watch is None and not self.transport.is_closing():
            self._watch = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._paused_at = self.loop.time()
        self._watch_sending()
        if self._untaken >= LARGE_BYTES:
            self.loop.call_soon(self._make_room)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_send_watch()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._watch_sending()  # closing waits until the client has taken everything

    def abandon(self) -> None:
        """Hang up on a client that does not read; whoever waits for it goes on."""
        if self.flow.write_paused:
            self.transport.abort()

    def _make_room(self) -> None:
        """Hang up on those who have read nothing for longest while all of them together leave too much unread."""
        waiting = [one for one in self.connections if isinstance(one, Connection) and one.flow.write_paused]
        sizes = {one: one.transport.get_write_buffer_size() for one in waiting}
        untaken = sum(sizes.values())
        # Whoever takes anything is only slow, and goes last.
        for one in sorted(waiting, key=lambda one: (sizes[one] < one._untaken, one._paused_at)):
            if untaken <= MAX_UNTAKEN_BYTES:
                return
            untaken -= sizes[one]
            one.transport.abort()

    def _watch_sending(self) -> None:
        self._stop_send_watch()
        self._untaken = self.transport.get_write_buffer_size()
        if self._untaken:
            self._send_watch = self.loop.call_later(SEND_SECONDS, self._check_sending)

    def _check_sending(self) -> None:
        if self.transport.get_write_buffer_size() < self._untaken:
            self._watch_sending()  # slow, but reading
        else:
            self.transport.abort()

    def _stop_send_watch(self) -> None:
        if self._send_watch is not None:
            self._send_watch.cancel()
            self._send_watch = None

    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def _waits_for_head(self) -> bool:
        """True when nothing else ends the connection: neither an answer on its way nor uvicorn's own timer."""
        return self._in_head or self.cycle is None or (self._answered() and self.timeout_keep_alive_task is None)

    def _answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _stop_watch(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _too_slow(self) -> None:
        self._watch = None
        if self._answered():
            self.transport.close()
        else:  # the next request began to come while the last one is still being answered
            self._watch = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def handle_websocket_upgrade(self) -> None:
        if not self._answered():  # two protocols would write on one line, and the request never hear of a hang-up
            self.transport.close()
            return
        self._upgraded = True  # the transport has another protocol from now on
        self._stop_watch()
        self._stop_send_watch()
        if self.scope["http_version"] != "1.1":  # uvicorn would pass it on as 1.1
            self.transport.write(_OLD_HTTP)
            self.transport.close()
            return
        super().handle_websocket_upgrade()

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing: the request is answered like any other, and uvicorn's advice to install libraries misleads."""
