"""The connection behind a request."""

from __future__ import annotations

from mcp.server.connection import Connection

from app.mcp.server.progress import Context


def connection_of(context: Context) -> Connection:
    """The connection that a request came over.

    The SDK gives it to handlers by no public name yet, though what it holds (its state, its end) is meant for them.
    """
    return context.session._connection
