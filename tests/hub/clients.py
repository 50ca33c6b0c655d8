"""Clients of the hub as they are outside: the ``websockets`` library over a real connection."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.server import KEY

SOCKET_KEY = "socket-key"


def address(url: str, path: str = "/VCPlog", key: str = SOCKET_KEY, query: str = "") -> str:
    """The address of a path of the hub, with the key in it as clients write it."""
    return f"ws{url.removeprefix('http')}{path}/VCP_Key={key}{query}"


@asynccontextmanager
async def connected(where: str, **options: Any) -> AsyncIterator[Wire]:
    """A client that is connected."""
    async with connect(where, proxy=None, open_timeout=10, max_size=None, **options) as connection:
        yield Wire(connection)


class Wire:
    """One connection that speaks JSON objects."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def send(self, message: Any) -> None:
        await self.connection.send(message if isinstance(message, str | bytes) else json.dumps(message))

    async def receive(self) -> Any:
        """The next message; fails when the connection ends first."""
        return json.loads(await self.connection.recv())

    async def receive_type(self, kind: str) -> Any:
        """The next message of this type; others before it are passed over."""
        while True:
            message = await self.receive()
            if message.get("type") == kind:
                return message

    async def goodbye(self, *, after_more: bool = False) -> tuple[int, str]:
        """Code and reason with which the server hangs up: next of all, or after whatever else it says."""
        with pytest.raises(ConnectionClosed) as closed:
            message = await self.connection.recv()
            while after_more:
                message = await self.connection.recv()
            raise AssertionError(message)
        received = closed.value.rcvd
        assert received is not None, "it hung up without a word"
        return received.code, received.reason

    async def nothing_waits(self) -> None:
        """Everything that the server had sent before has been received: a ping comes back behind it."""
        await (await self.connection.ping())
        assert not self.connection.recv_messages.frames


def bare(url: str, path: str = "/VCPlog") -> str:
    """The address of a path without a key."""
    return f"ws{url.removeprefix('http')}{path}"


def bearer(key: str = KEY) -> str:
    """A key as a header; the library writes headers in latin-1."""
    return f"Bearer {key}".encode().decode("latin-1")
