"""The answer of a model API, read piece by piece (spec 4.7, D27)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Protocol

from app.errors import UpstreamBrokenError, UpstreamError, UpstreamTimeoutError, both

EVENT_STREAM = "text/event-stream"

# What the lines of an event stream begin with; neither JSON nor HTML does.
_EVENT_LINES = (b"data:", b"event:", b"id:", b"retry:", b":")

HOP_BY_HOP = frozenset(
    {
        # Spec 1.5 names these five, the HTTP standard the others.
        "content-encoding",
        "transfer-encoding",
        "connection",
        "content-length",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "upgrade",
    }
)


class Source(Protocol):
    """Where a reply comes from: a response of the HTTP client, decompressed and without framing."""

    status: int
    headers: Mapping[str, str]
    host: str

    @property
    def header_items(self) -> Sequence[tuple[str, str]]:
        """The headers in order, repeated ones too."""
        ...

    def take(self) -> bytes | None:
        """What is buffered (``b""``: nothing yet), None at the end; raises ``UpstreamBrokenError``."""
        ...

    async def wait(self) -> bytes:
        """The next piece, ``b""`` at the end; raises ``UpstreamBrokenError``, also after ``abort``."""
        ...

    def abort(self) -> None:
        """Close the connection now, unless the answer was read to its end. May be called again."""
        ...


class Place(Protocol):
    """A place among the requests that may run at an upstream."""

    def release(self) -> None:
        """Give it back; called once."""
        ...


class Reply:
    """The answer of a model API; to be closed by whoever got it, or used with ``async with``.

    ``upstream`` names whose it is, empty where nobody has said so. ``headers`` finds names in any case. Reading holds
    back the upstream: while nobody reads, at most half a MiB is buffered. One reader at a time.
    """

    def __init__(self, source: Source, first: bytes | None, idle: float) -> None:
        self.status = source.status
        self.headers = source.headers
        self._source = source
        self._first = first
        self._beginning = _beginning(first or b"")
        self._idle = idle
        self._closed = False
        self._ended = False
        self._silent_too_long = False
        self._loop = asyncio.get_running_loop()
        self._waiting_since: float | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._place: Place | None = None
        self.upstream = ""

    def hold(self, place: Place) -> None:
        """Keep this place until the reply is closed."""
        self._place = place

    def put_back(self, body: bytes) -> None:
        """Give this body to whoever reads, in place of the one that was read."""
        self._first, self._ended = body, True
        self._beginning = _beginning(body)

    @property
    def content_type(self) -> str:
        """The ``Content-Type`` header as it was sent, empty when there was none."""
        return self.headers.get("Content-Type", "")

    @property
    def is_event_stream(self) -> bool:
        """True when the upstream streams, whatever was asked for (P25).

        Gateways name one kind and send the other, above all for errors: where the body's beginning tells, it counts.
        """
        if self._beginning.startswith(b"{"):
            return False
        named = self.content_type.partition(";")[0].strip().lower() == EVENT_STREAM
        return named or self._beginning.startswith(_EVENT_LINES)

    def end_to_end_headers(self) -> list[tuple[str, str]]:
        """The headers that may be passed on to a client, in order, repeated ones too (spec 1.5, 4.7)."""
        items = self._source.header_items
        named = {
            part.strip().lower() for name, value in items if name.lower() == "connection" for part in value.split(",")
        }
        return [(name, value) for name, value in items if name.lower() not in HOP_BY_HOP and name.lower() not in named]

    async def read_some(self) -> bytes:
        """Everything that has arrived, as soon as there is something; ``b""`` at the end.

        Raises ``UpstreamBrokenError`` when the answer breaks off or was closed, and ``UpstreamTimeoutError`` (phase
        ``idle``) when nothing comes for too long. What arrived before a fault is returned before the fault is raised.
        """
        if self._closed and not self._ended:
            raise self._closed_error()
        if self._first is not None:
            first, self._first = self._first, None
            if first:
                return first
        if self._ended:
            return b""
        block = self._source.take()
        if block == b"":
            block = await self._wait()
        if not block:
            self._ended = True
            self._stop_watch()
            return b""
        return block

    async def read_all(self, limit: int) -> bytes:
        """The whole rest of the body; ``UpstreamBrokenError`` when it has more than ``limit`` bytes."""
        blocks: list[bytes] = []
        size = 0
        while block := await self.read_some():
            size += len(block)
            if size > limit:
                self._drop()
                raise UpstreamBrokenError(
                    both(
                        f"{self._source.host} 的回答超过 {limit} 字节",
                        f"the answer of {self._source.host} is larger than {limit} bytes",
                    )
                )
            blocks.append(block)
        return b"".join(blocks)

    async def close(self) -> None:
        """Let the connection go: kept for further requests when the answer was read to its end, else dropped at once.

        Never waits; may be called again.
        """
        self._drop()

    async def __aenter__(self) -> Reply:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._drop()

    async def _wait(self) -> bytes:
        self._waiting_since = self._loop.time()
        if self._watch is None:
            # It outlives this wait: pieces may come a thousand times a second, and a timer for each costs too much.
            self._watch = self._loop.call_at(self._waiting_since + self._idle, self._check_silence)
        try:
            return await self._source.wait()
        except asyncio.CancelledError:
            self._drop()
            raise
        except UpstreamBrokenError as error:
            if self._closed:
                raise self._closed_error() from error
            raise
        finally:
            self._waiting_since = None

    def _closed_error(self) -> UpstreamError:
        host = self._source.host
        if self._silent_too_long:
            text = both(
                f"{host} 在回答中途 {self._idle:g} 秒没有发送任何内容，可调大 UpstreamIdleTimeout",
                f"{host} sent nothing for {self._idle:g} s in the middle of its answer; raise UpstreamIdleTimeout",
            )
            return UpstreamTimeoutError(text, phase="idle")
        return UpstreamBrokenError(
            both(f"{host} 的回答已由本服务器关闭", f"the answer of {host} was closed on our side")
        )

    def _check_silence(self) -> None:
        self._watch = None
        since = self._waiting_since
        if since is None:
            return  # nobody waits; the next wait sets the timer anew
        due = since + self._idle
        if self._loop.time() < due:
            self._watch = self._loop.call_at(due, self._check_silence)
        else:
            self._silent_too_long = True
            self._drop()  # wakes the reader

    def _stop_watch(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _drop(self) -> None:
        self._closed = True
        self._stop_watch()
        self._source.abort()
        place, self._place = self._place, None
        if place is not None:
            place.release()


def _beginning(body: bytes) -> bytes:
    """What tells of which kind a body is."""
    return body[:16].removeprefix(b"\xef\xbb\xbf").lstrip()
