"""WebSockets: what one is to those who serve it, and the paths at which they are served."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


class Socket(Protocol):
    """An open WebSocket. All methods belong to the event loop; those that are not awaited return at once."""

    @property
    def address(self) -> str:
        """The client's address."""
        ...

    @property
    def waiting(self) -> int:
        """Bytes that the client has not taken yet."""
        ...

    def send(self, text: str | bytes) -> bool:
        """Put a text frame on its way (bytes are UTF-8); False when the socket is closed.

        Nobody waits for a slow client: one that has more waiting than its queue may hold is closed (1013) instead.
        """
        ...

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Say goodbye and hang up; a second call does nothing."""
        ...

    async def ping(self, seconds: float) -> float | None:
        """Seconds that the client took to answer a ping, or None when it did not in time or is gone."""
        ...


class SocketHandler(Protocol):
    """Serves one WebSocket. Its methods are called in order, must be quick and must not wait.

    ``opened`` is called once before all others, ``closed`` once after them; an exception closes the socket with 1011.
    A client that is gone again before its socket was open is never heard of. ``closed`` may be called within ``close``,
    but not within ``send``.
    """

    def opened(self, socket: Socket) -> None:
        """The socket is open."""
        ...

    def text(self, text: str) -> None:
        """A text message came."""
        ...

    def binary(self, data: bytes) -> None:
        """A binary message came."""
        ...

    def closed(self, code: int) -> None:
        """The socket is closed; nothing more can be sent. ``code`` is the close code, 1006 without one."""
        ...


@dataclass(frozen=True, slots=True)
class SocketRequest:
    """Who wants to open a WebSocket; keys are no part of it.

    ``identity`` is what the path's ``identify`` made of the key, empty for the server's own. ``query`` holds the first
    value of each parameter.
    """

    path: str
    address: str
    query: Mapping[str, str] = field(default_factory=dict)
    identity: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True)
class DeclaredSocket:
    """A path at which WebSockets are served: ``<path>/VCP_Key=<key>``, or ``<path>`` with the key in a header (6.1).

    Capitals count. ``accept`` gives the handler of a new socket; it raises ``VcpError`` to refuse it with that status.
    ``max_message_bytes`` is the longest message; a longer one closes the socket with 1009. ``keys`` are those that
    open the path, without empty ones; ``identify`` names who brings another one (None: nobody has this key).
    ``open_to`` says whether somebody of this machine comes in without a key, by ``Origin`` (empty: none) and ``Host``
    (D64).
    ``key_prefix`` is what stands before a key in the path.
    """

    path: str
    accept: Callable[[SocketRequest], SocketHandler]
    max_message_bytes: Callable[[], int]
    keys: Callable[[], Sequence[str]]
    identify: Callable[[str], str | None] | None = None
    open_to: Callable[[str, str], bool] | None = None
    key_prefix: str = "VCP_Key="


class SocketSource(Protocol):
    """Something that serves WebSockets."""

    def sockets(self) -> Sequence[DeclaredSocket]:
        """Its paths; asked once, when the application is made."""
        ...
