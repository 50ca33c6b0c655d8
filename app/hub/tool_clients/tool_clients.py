"""Tool clients: programs that bring tools over a WebSocket, and call those of others and ours (mcp.md 1.3; D62 - D65).

Every call of the tool socket goes through the router, as from all other doors, so that guards, events and the log hold
for it. The router finds the tools of clients here, because ``ToolClients`` is also a source of tools (WS-17).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import orjson

from app.errors import ShutdownError
from app.extend import (
    CallContext,
    CallTool,
    Clock,
    DeclaredSocket,
    Json,
    Socket,
    SocketHandler,
    SocketRequest,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from app.hub.clients import Client, ClientType, has_too_many_values
from app.hub.tool_clients.calls import ToolCalls, ToolSocketRules
from app.hub.tool_clients.connections import Asked, ToolConnections
from app.hub.tool_clients.registry import ORIGIN, RegistryLimits, ToolRegistry
from app.hub.tool_clients.runs import RunLimits
from app.protocol import tool_socket as wire
from app.protocol.half_characters import whole
from app.protocol.json_text import compact_json, strict_json
from app.protocol.tool_socket import Frame, ToolSocketError

log = logging.getLogger(__name__)

PATH = "/ws/tools"
SERVER_LEAVES = 1001


class ToolClients:
    """Serves ``/ws/tools`` and brings the tools of its clients; also a ``SocketSource`` and a ``Lifecycle``.

    ``elsewhere`` gives the tool that all other sources find under a name: those are never shadowed (D68).
    ``reserved`` says that the placeholder of a name is already something else's.
    ``render`` makes what a client reads of the result of one of our own tools.
    """

    def __init__(
        self,
        *,
        call_tool: CallTool,
        elsewhere: Callable[[str], ToolSpec | None],
        reserved: Callable[[str], bool],
        render: Callable[[ToolCall, ToolResult], Json],
        rules: Callable[[], ToolSocketRules],
        keys: Callable[[], Sequence[str]],
        new_id: Callable[[str], str],
        clock: Clock,
        registry_limits: RegistryLimits | None = None,
        run_limits: RunLimits | None = None,
    ) -> None:
        self._elsewhere = elsewhere
        self._reserved = reserved
        self._rules = rules
        self._keys = keys
        self._new_id = new_id
        self._clock = clock
        self._registry = ToolRegistry(registry_limits or RegistryLimits())
        self._connections = ToolConnections(self._departed)
        self._calls = ToolCalls(
            self._connections,
            self._registry,
            call_tool=call_tool,
            elsewhere=elsewhere,
            render=render,
            rules=rules,
            new_id=new_id,
            limits=run_limits or RunLimits(),
        )
        self._specs: Mapping[str, ToolSpec] = MappingProxyType({})
        self._changed: list[Callable[[], None]] = []
        self._stopping = False
        self._types: Mapping[str, Callable[[Client, Frame, Asked], None]] = {
            wire.REGISTER_TOOL: self._register,
            wire.UNREGISTER_TOOL: self._unregister,
            wire.LIST_TOOLS: lambda client, _frame, asked: self._list(client, asked),
            wire.EXECUTE_TOOL: self._calls.execute,
            wire.COMPLETED: self._calls.completed,
            wire.FAILED: self._calls.failed,
            wire.CANCEL_EXECUTION: self._calls.cancel,
        }

    # ------------------------------------------------------------------ connections

    def sockets(self) -> Sequence[DeclaredSocket]:
        """The path on the server's own port."""
        return (
            DeclaredSocket(PATH, self.accept, max_message_bytes=lambda: self._rules().frame_bytes, keys=self._keys),
        )

    def accept(self, request: SocketRequest) -> SocketHandler:
        """What serves a new connection; raises ShutdownError when the server stops."""
        if self._stopping:
            raise ShutdownError()
        return _Channel(self, request)

    def clients(self) -> tuple[Client, ...]:
        """The connected clients, the oldest first."""
        return self._connections.all()

    def tools_of(self, client: Client) -> tuple[str, ...]:
        """The names of the tools that a client has registered."""
        return tuple(tool.name for tool in self._registry.owned_by(client))

    def count(self, kind: ClientType) -> int:
        """How many of a type are connected here; the hub, whose clients these are not, has the same question."""
        return len(self._connections) if kind is ClientType.TOOL_CLIENT else 0

    def running(self) -> int:
        """How many runs are going on."""
        return len(self._calls)

    def _enter(self, request: SocketRequest, socket: Socket) -> Client:
        client = Client(ClientType.TOOL_CLIENT, request, self._new_id("client"), self._clock(), socket)
        with self._connections.step():
            self._connections.add(client)
            if request.query.get("snapshot") == "1":  # WS-7: nothing is pushed unasked
                self._list(client, Asked(client, None))
        return client

    def _said(self, client: Client, text: str | None) -> None:
        """A client sent a frame; None is a binary one."""
        parsed = None if text is None else _parsed(text)
        frame: Frame = parsed if isinstance(parsed, dict) else {}
        asked = Asked(client, wire.request_id(frame))
        with self._connections.step():
            try:
                kind = frame.get("type")
                if not isinstance(kind, str):
                    raise wire.no_object()
                serve = self._types.get(kind)
                if serve is None:
                    raise wire.unknown_type(kind)
                serve(client, frame, asked)
            except ToolSocketError as error:
                log.info("tool client %s: a frame is refused with %s", client.id, error.code)
                self._connections.tell(wire.error_frame(error, frame), (client,), asked)

    def _departed(self, client: Client) -> None:
        """WS-12: its runs fail, then its tools are gone. What it asked for goes on (WS-13)."""
        self._calls.owner_gone(client)
        gone = self._registry.remove_all(client)
        for tool in gone:
            self._connections.tell(wire.unregistered_frame(tool.name, "disconnected"))
        if gone:
            self._show({name: spec for name, spec in self._specs.items() if spec.origin != ORIGIN + client.id})

    # ------------------------------------------------------------------ the registry

    def _register(self, client: Client, frame: Frame, asked: Asked) -> None:
        data = wire.frame_data(frame)
        name = wire.tool_name(data)
        taken = self._elsewhere(name) is not None or self._reserved(name)
        tool = self._registry.register(client, data, taken, self._clock())
        log.info("tool client %s registers %r, schema of %d bytes", client.id, tool.name, tool.size)
        data_told = {"name": tool.name, "schema": tool.written}
        self._connections.tell({"type": wire.REGISTERED, "data": data_told}, asked=asked)
        self._show({**self._specs, tool.name: tool.spec(self._rules().seconds)})

    def _unregister(self, client: Client, frame: Frame, asked: Asked) -> None:
        tool = self._registry.unregister(client, wire.frame_data(frame))
        log.info("tool client %s takes %r back", client.id, tool.name)
        self._connections.tell(wire.unregistered_frame(tool.name, "unregistered"), asked=asked)
        self._show({name: spec for name, spec in self._specs.items() if name != tool.name})

    def _list(self, client: Client, asked: Asked) -> None:
        listed = [
            {"name": tool.name, "schema": tool.written} for tool in self._registry.all() if tool.name in self._specs
        ]
        self._connections.tell({"type": wire.TOOLS_LIST, "data": {"tools": listed}}, (client,), asked)

    # ------------------------------------------------------------------ a source of tools

    def tools(self) -> Mapping[str, ToolSpec]:
        """The tools of clients, without those whose name another source has (D68)."""
        return self._specs

    def addressed(self, name: str) -> ToolSpec | None:
        """None: all names that mean a tool of a client are listed."""
        del name
        return None

    def changed(self, told: Callable[[], None]) -> None:
        """Call ``told`` each time the tools have changed."""
        self._changed.append(told)

    def look_again(self) -> None:
        """The tools of other sources, or the settings, are different ones: what they have is hidden here."""
        seconds = self._rules().seconds
        shown: dict[str, ToolSpec] = {}
        for tool in self._registry.all():
            if self._elsewhere(tool.name) is None:
                shown[tool.name] = tool.spec(seconds)
            elif tool.name in self._specs:
                log.warning("tool %r of client %s is hidden: the server has one itself", tool.name, tool.owner.id)
        if shown != self._specs:
            self._show(shown)

    def _show(self, specs: Mapping[str, ToolSpec]) -> None:
        self._specs = MappingProxyType(dict(specs))
        for told in self._changed:
            told()

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        """Ask the owner and wait for its answer."""
        return await self._calls.call(spec, call, context, started)

    # ------------------------------------------------------------------ life

    async def start(self) -> None:
        """Clients may come."""
        self._stopping = False

    def health(self) -> str:
        """Nothing can be wrong with it."""
        return ""

    async def stop(self) -> None:
        """Say goodbye to everybody; runs that are still going on end."""
        self._stopping = True
        for client in self.clients():
            client.close(SERVER_LEAVES, "the server stops")
        await self._calls.stop()


class _Channel:
    """Serves one connection."""

    def __init__(self, clients: ToolClients, request: SocketRequest) -> None:
        self._clients = clients
        self._request = request
        self._client: Client | None = None

    def opened(self, socket: Socket) -> None:
        self._client = self._clients._enter(self._request, socket)

    def text(self, text: str) -> None:
        assert self._client is not None
        self._clients._said(self._client, text)

    def binary(self, data: bytes) -> None:
        del data
        assert self._client is not None
        self._clients._said(self._client, None)

    def closed(self, code: int) -> None:
        if self._client is not None:
            self._clients._connections.remove(self._client, code)


def _parsed(text: str) -> Json:
    """The JSON value of a frame, or None. Halves of characters, which JavaScript can send, become U+FFFD."""
    if has_too_many_values(text):
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        if "\\u" not in text:
            return None
    try:
        return orjson.loads(whole(compact_json(strict_json(text), strict=True)))
    except (ValueError, RecursionError):
        return None
