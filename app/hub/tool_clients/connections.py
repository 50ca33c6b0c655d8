"""Who is connected to the tool socket, and how frames reach them in one order (WS-19)."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass

from app.hub.clients import Client, encoded
from app.protocol.tool_socket import Frame

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """Which client asked for what is told now; its own copy of the answer repeats ``request_id`` (WS-1)."""

    client: Client
    request_id: str | int | float | None


class ToolConnections:
    """The connected tool clients. ``departed`` is called once for each that is gone.

    Sending can end a connection, when its client is too slow, in the middle of telling the others. What that leads to
    waits until the step that is going on is done, so that everybody is told everything in the same order.
    """

    def __init__(self, departed: Callable[[Client], None]) -> None:
        self._departed = departed
        self._clients: dict[str, Client] = {}
        self._busy = False
        self._gone: deque[Client] = deque()

    def __len__(self) -> int:
        return len(self._clients)

    def all(self) -> tuple[Client, ...]:
        """The connected clients, the oldest first."""
        return tuple(self._clients.values())

    def add(self, client: Client) -> None:
        """A client is there."""
        self._clients[client.id] = client
        log.info("tool client %s from %s is connected", client.id, client.address)

    def remove(self, client: Client, code: int) -> None:
        """A client is gone."""
        if self._clients.pop(client.id, None) is None:
            return
        log.info("tool client %s is gone (%d)", client.id, code)
        self._gone.append(client)
        with self.step():
            pass

    @contextmanager
    def step(self) -> Generator[None]:
        """One thing after the other: steps inside of a step are part of it."""
        if self._busy:
            yield
            return
        self._busy = True
        try:
            try:
                yield
            finally:
                while self._gone:
                    self._departed(self._gone.popleft())
        finally:
            self._busy = False

    def tell(self, frame: Frame, to: Iterable[Client] | None = None, asked: Asked | None = None) -> None:
        """Send a frame to these clients, or to all; the copy for who asked has its request's id."""
        clients = self.all() if to is None else tuple(to)
        if not clients:
            return
        data = encoded(frame)
        for client in clients:
            if asked is not None and client is asked.client and asked.request_id is not None:
                client.send(encoded({**frame, "requestId": asked.request_id}))
            else:
                client.send(data)
