"""Reading of request bodies, within a limit and after authentication (B12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from app.errors import BodyTimeoutError, BodyTooLargeError, UnsupportedMediaError, both

SILENCE_SECONDS = 120.0
"""How long a client may be silent in the middle of its request body."""


class ClientGoneError(Exception):
    """The client hung up before its request was complete; nobody is there to answer."""


class BodyStream:
    """A request body that is taken piece by piece, at most ``limit`` bytes; ``ended`` is set when all of it has come.

    Raises what ``read_body`` raises. One reader at a time.
    """

    def __init__(self, scope: Scope, receive: Receive, limit: int, *, silence: float = SILENCE_SECONDS) -> None:
        self.length = _check_headers(Headers(scope=scope), limit)
        self.ended = asyncio.Event()
        self._receive = receive
        self._limit = limit
        self._silence = silence
        self._size = 0

    async def next(self) -> bytes:
        """The next piece, which may be empty; only after ``ended`` there is none."""
        try:
            async with asyncio.timeout(self._silence):
                message = await self._receive()
        except TimeoutError:
            raise _too_slow(self._silence) from None
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        part: bytes = message.get("body", b"")
        self._size += len(part)
        if self._size > self._limit:
            raise _too_large(self._limit)
        if not message.get("more_body", False):
            self.ended.set()
        return part

    async def beginning(self, size: int) -> bytes:
        """The first ``size`` bytes or a little more, or all there is."""
        parts: list[bytes] = []
        while not self.ended.is_set() and self._size < size:
            parts.append(await self.next())
        return b"".join(parts)

    async def rest(self, beginning: bytes) -> AsyncIterator[bytes]:
        """``beginning``, and then all that has not come yet."""
        yield beginning
        while not self.ended.is_set():
            part = await self.next()
            if part:
                yield part


async def read_body(scope: Scope, receive: Receive, limit: int, *, silence: float = SILENCE_SECONDS) -> bytes:
    """The whole body of at most ``limit`` bytes.

    Raises ``BodyTooLargeError`` beyond, without reading on; ``BodyTimeoutError`` when nothing comes for ``silence``
    seconds; ``UnsupportedMediaError`` for a compressed body; ``ClientGoneError``.
    """
    _check_headers(Headers(scope=scope), limit)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(silence) as patience:
            parts: list[bytes] = []
            size = 0
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGoneError
                part = message.get("body", b"")
                size += len(part)
                if size > limit:
                    raise _too_large(limit)
                parts.append(part)
                if not message.get("more_body", False):
                    return parts[0] if len(parts) == 1 else b"".join(parts)
                patience.reschedule(loop.time() + silence)
    except TimeoutError:
        raise _too_slow(silence) from None


def _check_headers(headers: Headers, limit: int) -> int | None:
    """The length that a body says it has, None when it says none; raises for one that is not taken."""
    if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise UnsupportedMediaError(
            both(
                "不支持压缩的请求体，请去掉 Content-Encoding",
                "compressed request bodies are not read; send it without Content-Encoding",
            )
        )
    declared = headers.get("content-length", "")
    if not declared.isdecimal():
        return None
    if int(declared) > limit:
        raise _too_large(limit)
    return int(declared)


def _too_slow(silence: float) -> BodyTimeoutError:
    return BodyTimeoutError(
        both(f"{silence:g} 秒内没有收到请求体", f"nothing of the request body came for {silence:g} s")
    )


def _too_large(limit: int) -> BodyTooLargeError:
    size = f"{limit // (1024 * 1024)} MB" if limit >= 1024 * 1024 else f"{limit // 1024} KB"
    return BodyTooLargeError(
        both(f"请求体超过此接口的上限 {size}", f"the request body is larger than the {size} this route takes")
    )
