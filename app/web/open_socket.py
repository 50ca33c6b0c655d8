"""A WebSocket as who serves it sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.web.socket_connection import SocketConnection


class OpenSocket:
    """The connection as its handler sees it; uvicorn's has a ``send`` of its own."""

    __slots__ = ("_connection",)

    def __init__(self, connection: SocketConnection) -> None:
        self._connection = connection

    @property
    def address(self) -> str:
        return self._connection.address

    @property
    def waiting(self) -> int:
        return self._connection.waiting

    def send(self, text: str | bytes) -> bool:
        return self._connection.transmit(text)

    def close(self, code: int = 1000, reason: str = "") -> None:
        self._connection.close(code, reason)

    async def ping(self, seconds: float) -> float | None:
        return await self._connection.ping(seconds)
