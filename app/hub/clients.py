"""One connected client, and what kinds there are (spec 6.1)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import orjson

from app.extend import Json, Socket, SocketRequest


class ClientType(StrEnum):
    """What a client is; the values are those of pushes and acknowledgements."""

    VCP_LOG = "VCPLog"
    VCP_INFO = "VCPInfo"
    NODE = "DistributedServer"
    CHROME_OBSERVER = "ChromeObserver"
    CHROME_CONTROL = "ChromeControl"
    ADMIN_PANEL = "AdminPanel"
    TOOL_CLIENT = "ToolClient"


Message = Mapping[str, Json]
"""One JSON object of the wire; ``type`` says what it is."""

MAX_VALUES = 1_000_000
"""Values in one message, about. A few bytes make each, and it costs a hundred times the memory and time: a message as
long as a node's may be would else hold up the server for many seconds.
"""

FEW = 200


def encoded(message: Message) -> bytes:
    """The text of a message, in UTF-8."""
    try:
        return orjson.dumps(message)
    except TypeError:  # halves of characters, numbers of any size
        return json.dumps(message, separators=(",", ":")).encode()


def most_values(text: str | bytes) -> int:
    """How many values JSON may hold: each stands behind a comma, or a list or an object begins before it.

    Those inside texts count too, for telling them apart is what costs. Files are base64, which has none.
    """
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    return sum(_count(text, mark) for mark in ",[{")


def _count(text: str, mark: str) -> int:
    """How often a character stands in a text: looking for the next one is ten times quicker where there are few."""
    place = -1
    for found in range(FEW):
        place = text.find(mark, place + 1)
        if place < 0:
            return found
    return FEW + text.count(mark, place + 1)


def has_too_many_values(text: str | bytes) -> bool:
    """Whether JSON may hold more than ``MAX_VALUES``."""
    return len(text) > MAX_VALUES and most_values(text) > MAX_VALUES


def decoded(text: str) -> Message | None:
    """The message of a text, or None when it is no JSON object."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


class Client:
    """An open connection of one type.

    ``id`` is unique over restarts, ``name`` what the client calls itself (a device, a node), ``identity`` whose key it
    brought (empty: the server's own), ``since`` when it came, in seconds since the epoch. ``notes`` is for who serves
    the type.
    """

    __slots__ = ("_socket", "address", "id", "identity", "kind", "name", "notes", "since")

    def __init__(self, kind: ClientType, request: SocketRequest, id: str, since: float, socket: Socket) -> None:
        self.kind = kind
        self.id = id
        self.name = ""
        self.address = request.address
        self.identity = request.identity
        self.since = since
        self.notes: dict[str, Any] = {}
        self._socket = socket

    @property
    def socket(self) -> Socket:
        """The connection itself."""
        return self._socket

    def send(self, message: Message | bytes) -> bool:
        """Put a message on its way (bytes: as ``encoded`` made them); False when the client is gone."""
        return self._socket.send(message if isinstance(message, bytes) else encoded(message))

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Hang up."""
        self._socket.close(code, reason)
