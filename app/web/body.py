"""Reading of request bodies, within a limit and after authentication (B12)."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from app.errors import BodyTooLargeError


class ClientGoneError(Exception):
    """The client hung up before its request was complete; nobody is there to answer."""


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The whole body of at most ``limit`` bytes; ``BodyTooLargeError`` beyond, without reading on."""
    declared = Headers(scope=scope).get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
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


def _too_large(limit: int) -> BodyTooLargeError:
    size = f"{limit // (1024 * 1024)} MB" if limit >= 1024 * 1024 else f"{limit // 1024} KB"
    return BodyTooLargeError(f"the request body is larger than the {size} this route takes")
