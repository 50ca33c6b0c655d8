"""Reading of request bodies, within a limit and after authentication (B12)."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from app.errors import BodyTimeoutError, BodyTooLargeError, UnsupportedMediaError, both

SILENCE_SECONDS = 120.0
"""How long a client may be silent in the middle of its request body."""


class ClientGoneError(Exception):
    """The client hung up before its request was complete; nobody is there to answer."""


async def read_body(scope: Scope, receive: Receive, limit: int, *, silence: float = SILENCE_SECONDS) -> bytes:
    """The whole body of at most ``limit`` bytes.

    Raises ``BodyTooLargeError`` beyond, without reading on; ``BodyTimeoutError`` when nothing comes for ``silence``
    seconds; ``UnsupportedMediaError`` for a compressed body; ``ClientGoneError``.
    """
    headers = Headers(scope=scope)
    if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise UnsupportedMediaError(
            both(
                "不支持压缩的请求体，请去掉 Content-Encoding",
                "compressed request bodies are not read; send it without Content-Encoding",
            )
        )
    declared = headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise _too_large(limit)
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
        raise BodyTimeoutError(
            both(f"{silence:g} 秒内没有收到请求体", f"nothing of the request body came for {silence:g} s")
        ) from None


def _too_large(limit: int) -> BodyTooLargeError:
    size = f"{limit // (1024 * 1024)} MB" if limit >= 1024 * 1024 else f"{limit // 1024} KB"
    return BodyTooLargeError(
        both(f"请求体超过此接口的上限 {size}", f"the request body is larger than the {size} this route takes")
    )
