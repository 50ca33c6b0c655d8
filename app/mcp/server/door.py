"""Our tools as an MCP server, for clients of all revisions (mcp.md 3.3, 3.4): the SDK's server over the router.

One ``McpDoor`` serves all connections of its process; how they come is the business of the fronts (stdio, HTTP).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from mcp.server.caching import CacheHint
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity, authenticated_principal
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    NotificationParams,
    PaginatedRequestParams,
    SetLevelRequestParams,
    SubscriptionsListenRequestParams,
)

from app import __version__
from app.errors import BadRequestError, both
from app.extend import CallContext, CallProgress, CallTool, Clock, Door, ErrorKind, Event, Json, ToolCall, ToolResult
from app.mcp.server.callers import DEFAULT_LEVEL, ReturningCaller, SessionCaller
from app.mcp.server.calls import Calls, OpenCall
from app.mcp.server.connections import connection_of
from app.mcp.server.content import COMPLETE, call_result, error_result, plain_value
from app.mcp.server.listeners import PROMPTS, RESOURCES, TOOLS, Listeners
from app.mcp.server.listing import COMMAND, MODERN_SINCE, ShownTool, ToolList
from app.mcp.server.parameters import explained
from app.mcp.server.places import Places, PlacesError
from app.mcp.server.progress import Context, Teller
from app.mcp.server.prompts import PromptShelf
from app.mcp.server.questions import Validate
from app.mcp.server.resources import ResourceShelf
from app.mcp.server.shelves import add_completion, add_prompts, add_resources, told
from app.protocol.half_characters import whole
from app.protocol.markers import KEY_MAID, KEY_TOOL_PASSWORD
from app.protocol.nulls import without_nulls
from app.tools.offers import Offers

NAME = "vcp-server"
"""What we call ourselves in ``serverInfo``."""

_LEVEL = "vcp_log_level"
"""Where a connection keeps the least level of log lines that its client wants."""

STATE_SECONDS = 24 * 3600.0
"""How long a client may come back with a state; the call that it stands for waits shorter, see ``question_seconds``."""

_PRIVATE = CacheHint(ttl_ms=0, scope="private")


@dataclass(frozen=True, slots=True)
class McpDoorRules:
    """What holds for calls of this door; asked at each use.

    ``max_running`` in all and ``max_running_per_client`` calls run at a time, the others wait. With ``command_enum`` a
    tool's commands are one MCP tool. A question waits ``question_seconds`` for its client. With ``password_wanted`` the
    argument ``tool_password`` is the code of the hour and no argument of the tool.
    """

    max_running: int = 64
    max_running_per_client: int = 16
    command_enum: bool = False
    question_seconds: float = 300.0
    password_wanted: bool = False


@dataclass(frozen=True, slots=True)
class Asker:
    """Who sent a request. ``client`` tells clients without a session apart, ``address`` is for the log.

    ``depth`` counts the chats and tools that led here (loops end at a limit of depth). ``refusal`` says why nothing of
    this client is served, for instance because that limit is reached.
    """

    client: str = ""
    address: str | None = None
    depth: int = 0
    refusal: str = ""


class Listening(Protocol):
    """The event bus, as the door needs it."""

    def listen(self, listener: Callable[[Event], None], *kinds: type) -> None: ...


class _Server(Server[Any]):
    """The SDK's server, which tells in every handshake that its lists may change."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        told = notification_options or NotificationOptions(
            prompts_changed=True, resources_changed=True, tools_changed=True
        )
        return super().create_initialization_options(told, experimental_capabilities, extensions)


class McpDoor:
    """What MCP clients may do here.

    ``offers`` are the tools, under the names that the door writes; ``call_tool`` is the router. ``changed`` registers
    what is called when tools have changed. ``asker`` says who sent a request; it is given what the front attached to
    it, for HTTP the request. ``expander`` gives the function that puts operator values into descriptions, ``clean``
    takes what no client may read out of log lines; while ``private`` says so, what looks like a secret is masked in
    results too (spec 7.6, ``privacyProtection``).
    """

    def __init__(
        self,
        *,
        offers: Offers,
        call_tool: CallTool,
        events: Listening,
        changed: Callable[[Callable[[], None]], None],
        rules: Callable[[], McpDoorRules],
        new_id: Callable[[str], str],
        clock: Clock,
        validate: Validate,
        resources: ResourceShelf | None = None,
        prompts: PromptShelf | None = None,
        instructions: str = "",
        asker: Callable[[Any], Asker] = lambda _request: Asker(),
        expander: Callable[[], Callable[[str], str]] = lambda: str,
        clean: Callable[[Json], Json] = lambda value: value,
        private: Callable[[], bool] = lambda: False,
        debounce_seconds: float = 0.25,
    ) -> None:
        self._call_tool = call_tool
        self._rules = rules
        self._new_id = new_id
        self._clock = clock
        self._validate = validate
        self._asker = _attached_or(asker)
        self._clean = clean
        self._private = private
        self._tools = ToolList(offers.all, lambda: rules().command_enum, expander)
        self._told_of = self._tools.all()
        self._places = Places(lambda: rules().max_running, lambda: rules().max_running_per_client)
        self._calls = Calls(lambda: rules().question_seconds, validate)
        self._listeners = Listeners(self._tools_differ, debounce_seconds)
        self.server: Server[Any] = self._make_server(instructions, resources, prompts)
        events.listen(self._progressed, CallProgress)
        changed(self.tools_changed)
        if resources is not None:
            resources.changed(self._resource_changed)
        if prompts is not None:
            prompts.changed(partial(self._listeners.changed, PROMPTS))

    def _make_server(
        self, instructions: str, resources: ResourceShelf | None, prompts: PromptShelf | None
    ) -> Server[Any]:
        server = _Server(
            NAME,
            version=__version__,
            title="VCP",
            instructions=instructions or None,
            cache_hints={"tools/list": _PRIVATE, "server/discover": _PRIVATE},
            get_tool_input_schema=self._input_schema,
        )
        security = RequestStateSecurity.ephemeral(ttl=STATE_SECONDS)
        security.bind_principal = self._principal
        server.middleware[:] = [explained, RequestStateBoundary(security, default_audience=NAME)]
        server.add_request_handler("tools/list", PaginatedRequestParams, self._list_tools)
        server.add_request_handler("tools/call", CallToolRequestParams, self._called)
        server.add_request_handler("logging/setLevel", SetLevelRequestParams, self._set_level)
        server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, self._listeners.listen)
        server.add_notification_handler("notifications/initialized", NotificationParams, self._initialized)
        if resources is not None:
            add_resources(server, resources, self._listeners)
        if prompts is not None:
            add_prompts(server, prompts, partial(self._make_prompt, prompts))
        if resources is not None or prompts is not None:
            add_completion(server, resources, prompts)
        return server

    def initialization_options(self) -> InitializationOptions:
        """What a handshake answers."""
        return self.server.create_initialization_options()

    async def start(self) -> None:
        """From now on changes are told."""
        self._listeners.start()

    async def stop(self) -> None:
        """End running calls and subscriptions."""
        self._listeners.stop()
        await self._calls.stop()

    @property
    def running(self) -> int:
        """Calls whose work has not ended."""
        return self._calls.running

    # ------------------------------------------------------------------ lists

    def tools_changed(self) -> None:
        """The tools, or the rules by which they are shown, may be others; clients are told soon. From any thread."""
        self._listeners.changed(TOOLS)

    def _tools_differ(self) -> bool:
        before, self._told_of = self._told_of, self._tools.all()
        return before is not self._told_of and before != self._told_of

    def _resource_changed(self, uri: str) -> None:
        if uri:
            self._listeners.updated(uri)
        else:
            self._listeners.changed(RESOURCES)

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        tool = self._tools.get(name)
        return tool.input_schema if tool is not None else None

    async def _list_tools(self, context: Context, params: PaginatedRequestParams) -> dict[str, Json]:
        try:
            entries, following = self._tools.page(params.cursor, context.protocol_version)
        except BadRequestError as error:
            raise MCPError(INVALID_PARAMS, error.message) from None
        answer: dict[str, Json] = {"tools": list[Json](entries), "resultType": COMPLETE}
        return answer if following is None else {**answer, "nextCursor": following}

    # ------------------------------------------------------------------ sessions

    async def _initialized(self, context: Context, _params: NotificationParams) -> None:
        if context.protocol_version < MODERN_SINCE:
            self._listeners.joined(connection_of(context))

    async def _set_level(self, context: Context, params: SetLevelRequestParams) -> EmptyResult:
        connection_of(context).state[_LEVEL] = params.level
        return EmptyResult()

    def _principal(self, context: Context) -> str | None:
        return self._asker(context.request).client or authenticated_principal(context)

    # ------------------------------------------------------------------ calls

    def _progressed(self, event: Event) -> None:
        if isinstance(event, CallProgress):
            self._calls.told(event)

    async def _called(self, context: Context, params: CallToolRequestParams) -> dict[str, Json]:
        if params.request_state is not None:
            return await self._calls.resume(context, params.request_state)
        tool = self._tools.get(params.name)
        if tool is None:
            raise self._unknown(params.name)
        asker = self._asker(context.request)
        if asker.refusal:
            return error_result(asker.refusal)
        arguments = dict(params.arguments or {})
        password = arguments.pop(KEY_TOOL_PASSWORD, None) if self._rules().password_wanted else None
        if tool.choices is not None:
            word = arguments.pop(COMMAND, None)
            if not isinstance(word, str) or word not in tool.choices:
                return _faulty(f"$.{COMMAND}", _one_of(tool.choices))
            tool = tool.choices[word]
        arguments = without_nulls(arguments, tool.input_schema)
        fault = self._validate(tool.input_schema, arguments)
        if fault is not None:
            return _faulty(fault.path, fault.reason)
        maid = arguments.get(KEY_MAID)
        call = ToolCall(
            id=self._new_id("call"),
            tool=tool.full_name,
            arguments=arguments,
            password=password if isinstance(password, str) else None,
            maid=maid if isinstance(maid, str) and maid else None,
        )
        opened, standing = self._opened(context, call.id, partial(self._answer, tool))
        running = self._in_its_place(_client(context, asker), call, standing)
        return await self._calls.run(context, opened, running)

    def _opened(
        self, context: Context, call_id: str, written: Callable[[Context, Any], dict[str, Json]]
    ) -> tuple[OpenCall, CallContext]:
        """A call that is about to run, and where it stands."""
        asker = self._asker(context.request)
        opened = OpenCall(call_id, written, Teller(self._clean))
        opened.caller = self._caller(context, opened)
        standing = CallContext(
            turn_id=call_id, door=Door.MCP, client_ip=asker.address, depth=asker.depth, caller=opened.caller
        )
        return opened, standing

    async def _make_prompt(
        self, shelf: PromptShelf, context: Context, params: GetPromptRequestParams
    ) -> dict[str, Json]:
        if params.request_state is not None:
            return await self._calls.resume(context, params.request_state)
        asker = self._asker(context.request)
        if asker.refusal:
            raise MCPError(INTERNAL_ERROR, asker.refusal)
        opened, standing = self._opened(context, self._new_id("prompt"), lambda _context, made: made)
        made = self._made(_client(context, asker), shelf, params, standing)
        return await self._calls.run(context, opened, made)

    async def _made(
        self, client: Hashable, shelf: PromptShelf, params: GetPromptRequestParams, standing: CallContext
    ) -> dict[str, Json]:
        async def made() -> GetPromptResult:
            async with self._places.place(client):
                return await shelf.get(params.name, params.arguments or {}, standing)

        found = await told(made())
        written: dict[str, Json] = found.model_dump(by_alias=True, mode="json", exclude_none=True)
        return written

    async def _in_its_place(self, client: Hashable, call: ToolCall, context: CallContext) -> ToolResult:
        try:
            async with self._places.place(client):
                return await self._call_tool(call, context)
        except PlacesError as error:
            return ToolResult(error_kind=ErrorKind.QUEUE, message=error.message)

    def _caller(self, context: Context, opened: OpenCall) -> SessionCaller | ReturningCaller:
        def seconds() -> float:
            return self._rules().question_seconds

        if context.protocol_version >= MODERN_SINCE:
            return ReturningCaller(context, opened.teller, seconds, opened.news.set, self._validate)
        state = connection_of(context).state
        return SessionCaller(
            context, opened.teller, seconds, lambda: str(state.get(_LEVEL, DEFAULT_LEVEL)), self._validate
        )

    def _answer(self, tool: ShownTool, context: Context, result: ToolResult) -> dict[str, Json]:
        if tool.output_schema is not None and result.ok:
            value = result.mcp.get("structuredContent") if result.mcp is not None else plain_value(result.structured)
            fault = self._validate(tool.output_schema, value)
            if fault is not None:
                said = both("工具的结果不符合其 outputSchema", "the tool's result does not fit its outputSchema")
                return error_result(f"{said}: {fault.path}: {fault.reason}")
        return call_result(result, context.protocol_version, tool.output_schema, private=self._private())

    def _unknown(self, name: str) -> MCPError:
        shown = whole(name[:200])
        hint = both("用 tools/list 查看可用的工具", "tools/list shows the tools that there are")
        data = {"hint": hint, "availableToolCount": len(self._tools.all())}
        return MCPError(INVALID_PARAMS, both(f"没有名为 {shown} 的工具", f"no tool is called {shown}"), data)


def _attached_or(asker: Callable[[Any], Asker]) -> Callable[[Any], Asker]:
    """A front that knows who asks attaches the ``Asker`` itself."""
    return lambda request: request if isinstance(request, Asker) else asker(request)


def _client(context: Context, asker: Asker) -> Hashable:
    """Whose limit of running calls counts: the session's, or that of who sent the request."""
    return connection_of(context) if context.protocol_version < MODERN_SINCE else asker.client


def _faulty(path: str, reason: str) -> dict[str, Json]:
    """Arguments that the tool cannot have: a result that a model can act on, not an error of the protocol (D71)."""
    return error_result(both(f"参数 {path} 有误", f"argument {path} is wrong") + f": {reason}")


def _one_of(choices: Mapping[str, Any]) -> str:
    words = ", ".join(choices)[:1000]
    return both(f"必须是其中之一：{words}", f"must be one of {words}")
