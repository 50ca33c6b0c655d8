"""Finds the way in which an MCP server can be spoken to (MCP-50)."""

from __future__ import annotations

import asyncio
import contextlib

from app.errors import both
from app.mcp.client.around import Around
from app.mcp.client.connection import Connection, Way
from app.mcp.client.http_link import HttpLink
from app.mcp.client.server_entry import ServerEntry, ServerKind
from app.mcp.client.status import McpServerError, SignInNeededError
from app.mcp.client.stdio_link import StdioLink

_OLD_SERVER = (400, 404, 405)
"""What a server that only speaks HTTP+SSE answers to a POST (MCP-50)."""


async def connected(entry: ServerEntry, around: Around, known: Way | None) -> Connection:
    """A connection that is ready, by the way that is known to work, else by the first one that does.

    Raises McpServerError, whose message is one line.
    """
    try:
        async with asyncio.timeout(entry.connect_seconds or around.limits().connect_seconds) as limit:
            return await _connected(entry, around, known)
    except TimeoutError:
        if not limit.expired():
            raise
        seconds = entry.connect_seconds or around.limits().connect_seconds
        raise McpServerError(
            both(f"{seconds:g} 秒内未就绪", f"was not ready within {seconds:g} s"), around.last_details
        ) from None


async def _connected(entry: ServerEntry, around: Around, known: Way | None) -> Connection:
    if entry.kind is not ServerKind.STDIO:
        try:
            await around.certificates.read()
        except OSError as error:
            reason = error.strerror or str(error)
            raise McpServerError(
                both(f"无法读取 TLS 证书：{reason}", f"the certificates for TLS cannot be read: {reason}")
            ) from error
    if known is not None:
        with contextlib.suppress(McpServerError):
            return await Connection(entry, around, known).opened()
    if entry.kind is ServerKind.SSE:
        return await Connection(entry, around, Way(old=True, mode="legacy")).opened()
    first = Connection(entry, around, Way())
    try:
        return await first.opened()
    except SignInNeededError:
        raise
    except McpServerError as error:
        link = first.link
        if isinstance(link, StdioLink) and link.ended_itself:
            # Some servers end when the first word is not ``initialize``.
            return await Connection(entry, around, Way(mode="legacy")).opened()
        if not isinstance(link, HttpLink) or link.status not in _OLD_SERVER or link.error is not None:
            raise
        try:
            return await Connection(entry, around, Way(old=True, mode="legacy")).opened()
        except McpServerError:
            raise error from None
