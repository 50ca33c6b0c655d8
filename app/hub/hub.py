"""The hub: all connected clients by type, what they say, and how they are told something (spec 6.1 - 6.3)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from app.errors import ShutdownError
from app.extend import Clock, DeclaredSocket, Socket, SocketHandler, SocketRequest
from app.hub.clients import Client, ClientType, Message, decoded, encoded, has_too_many_values
from app.protocol.hub_messages import USER_NOTIFICATION, connection_ack

log = logging.getLogger(__name__)

PATHS = {
    ClientType.VCP_LOG: "/VCPlog",
    ClientType.VCP_INFO: "/vcpinfo",
    ClientType.NODE: "/vcp-distributed-server",
    ClientType.CHROME_OBSERVER: "/vcp-chrome-observer",
    ClientType.CHROME_CONTROL: "/vcp-chrome-control",
    ClientType.ADMIN_PANEL: "/vcp-admin-panel",
}
"""Where clients of each type connect (spec 6.1)."""

ACKNOWLEDGED = (ClientType.VCP_LOG, ClientType.VCP_INFO)
PUSHED_TO = (ClientType.VCP_LOG, ClientType.VCP_INFO, ClientType.NODE)
"""The types that a push without a target goes to (spec 6.3)."""

TYPE_CHARS = 64
"""How much of a message's type a line of the log shows."""

IGNORED_LINES = 10
"""Messages of one connection that nobody understands and that get a line in the log; no more of them do."""

SERVER_LEAVES = 1001

Joined = Callable[[Client, SocketRequest], None]
Left = Callable[[Client, int], None]
Heard = Callable[[Client, Message], None]


class Hub:
    """Knows who is connected. Listeners are called at once, in the order in which they were added.

    ``max_message_bytes`` gives the longest message of a type, ``keys`` what opens its path, ``identify`` who else may
    come in to it.
    """

    def __init__(
        self,
        *,
        new_id: Callable[[str], str],
        clock: Clock,
        max_message_bytes: Callable[[ClientType], int],
        keys: Callable[[ClientType], Sequence[str]],
        identify: Callable[[ClientType, str], str | None] = lambda _kind, _key: None,
    ) -> None:
        self._new_id = new_id
        self._clock = clock
        self._max_message_bytes = max_message_bytes
        self._keys = keys
        self._identify = identify
        self._clients: dict[ClientType, dict[str, Client]] = {kind: {} for kind in ClientType}
        self._joined: dict[ClientType, list[Joined]] = {kind: [] for kind in ClientType}
        self._left: dict[ClientType, list[Left]] = {kind: [] for kind in ClientType}
        self._heard: dict[tuple[ClientType, str], list[Heard]] = {}
        self._stopping = False

    # ------------------------------------------------------------------ who is there

    def clients(self, kind: ClientType) -> tuple[Client, ...]:
        """The connected clients of a type, the oldest first."""
        return tuple(self._clients[kind].values())

    def count(self, kind: ClientType) -> int:
        """How many of a type are connected."""
        return len(self._clients[kind])

    def joined(self, kind: ClientType, told: Joined) -> None:
        """Call ``told`` with each new client of a type, after it was acknowledged."""
        self._joined[kind].append(told)

    def left(self, kind: ClientType, told: Left) -> None:
        """Call ``told`` with each client of a type that is gone, and the close code."""
        self._left[kind].append(told)

    def heard(self, kind: ClientType, message_type: str, told: Heard) -> None:
        """Call ``told`` with each message of this ``type`` from clients of a type; others are logged and ignored."""
        self._heard.setdefault((kind, message_type), []).append(told)

    # ------------------------------------------------------------------ telling them

    def broadcast(self, message: Message | bytes, kinds: Iterable[ClientType]) -> int:
        """Send a message to all clients of these types (bytes: as ``encoded`` made them); to how many it is on its way.

        It is written as JSON once, and only if there is a client.
        """
        clients = [client for kind in kinds for client in self._clients[kind].values()]
        if not clients:
            return 0
        data = message if isinstance(message, bytes) else encoded(message)
        return sum(client.send(data) for client in clients)

    def push(self, message: Message, target: str | None) -> int:
        """Send a message to a target type as plugins name it."""
        return self.broadcast(message, pushed_to(target))

    # ------------------------------------------------------------------ connections

    def sockets(self) -> Sequence[DeclaredSocket]:
        """The paths of spec 6.1."""
        return [self._declared(kind, path) for kind, path in PATHS.items()]

    def _declared(self, kind: ClientType, path: str) -> DeclaredSocket:
        return DeclaredSocket(
            path,
            lambda request: self.handler(kind, request),
            max_message_bytes=lambda: self._max_message_bytes(kind),
            keys=lambda: self._keys(kind),
            identify=lambda key: self._identify(kind, key),
        )

    def handler(self, kind: ClientType, request: SocketRequest) -> SocketHandler:
        """What serves a new connection; raises ShutdownError when the server stops."""
        if self._stopping:
            raise ShutdownError()
        return _Channel(self, kind, request)

    def _enter(self, kind: ClientType, request: SocketRequest, socket: Socket) -> Client:
        client = Client(kind, request, self._new_id("client"), self._clock(), socket)
        self._clients[kind][client.id] = client
        if kind in ACKNOWLEDGED:
            client.send(connection_ack(kind))
        log.info("%s client %s from %s is connected", kind, client.id, client.address)
        for told in self._joined[kind]:
            told(client, request)
        return client

    def _said(self, client: Client, text: str) -> str:
        """Hand a message to who listens; otherwise the answer says why nobody does."""
        if has_too_many_values(text):
            return f"{len(text)} characters with too many values"
        message = decoded(text)
        kind = message.get("type") if message is not None else None
        if message is None or not isinstance(kind, str):
            return "no JSON object with a type"
        listeners = self._heard.get((client.kind, kind))
        if listeners is None:
            return f"{kind[:TYPE_CHARS]!r}, which nobody understands"
        for told in listeners:
            told(client, message)
        return ""

    def _exit(self, client: Client, code: int) -> None:
        if self._clients[client.kind].pop(client.id, None) is None:
            return
        log.info("%s client %s is gone (%d)", client.kind, client.id, code)
        for told in self._left[client.kind]:
            told(client, code)

    # ------------------------------------------------------------------ life

    async def start(self) -> None:
        """Clients may come."""
        self._stopping = False

    def health(self) -> str:
        """Nothing can be wrong with it."""
        return ""

    async def stop(self) -> None:
        """Say goodbye to everybody."""
        self._stopping = True
        for kind in ClientType:
            for client in self.clients(kind):
                client.close(SERVER_LEAVES, "the server stops")


def pushed_to(target: str | None) -> tuple[ClientType, ...]:
    """The types that a push goes to (spec 5.8, 6.3): the one that is named, or all of ``PUSHED_TO`` without a name.

    ``UserNotification``, which no client is of, is for people: those who read the log.
    """
    if target == USER_NOTIFICATION:
        return (ClientType.VCP_LOG,)
    return tuple(kind for kind in PUSHED_TO if not target or kind == target)


class _Channel:
    """Serves one connection."""

    def __init__(self, hub: Hub, kind: ClientType, request: SocketRequest) -> None:
        self._hub = hub
        self._kind = kind
        self._request = request
        self._client: Client | None = None
        self._ignored = 0

    def opened(self, socket: Socket) -> None:
        self._client = self._hub._enter(self._kind, self._request, socket)

    def text(self, text: str) -> None:
        assert self._client is not None
        if why := self._hub._said(self._client, text):
            self._ignore(why)

    def binary(self, data: bytes) -> None:
        self._ignore(f"{len(data)} bytes that are no text")

    def _ignore(self, what: str) -> None:
        """What nobody can use is dropped; the connection lives, and the log is not filled with it."""
        self._ignored += 1
        if self._ignored <= IGNORED_LINES and self._client is not None:
            more = "; further ones get no line" if self._ignored == IGNORED_LINES else ""
            log.warning("%s client %s sent %s; ignored%s", self._kind, self._client.id, what, more)

    def closed(self, code: int) -> None:
        if self._client is not None:
            self._hub._exit(self._client, code)
