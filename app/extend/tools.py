"""Tools: what describes one, what a call is, what comes of it, who brings tools and who may refuse them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from app.extend.callers import Caller
from app.extend.values import Json

LOCAL = "local"
"""Origin of tools that run on this machine; their descriptions are the operator's own text (D31)."""

SERVER_ORIGIN = "mcp:"
"""What stands before the name of an MCP server in the origin of its tools."""

GROUPS = "groups"
"""Origin of the tools that show others and pass calls on to them; what they lead to is judged by its own name."""


class Door(StrEnum):
    """Where a tool call came in; the values are those of the log message's ``source`` (decision D66)."""

    STREAM = "stream_loop"
    NON_STREAM = "non_stream_loop"
    HUMAN_TOOL = "human_tool"
    DIARY_BLOCK = "diary_block"
    COMMAND_LINE = "command_line"
    SCHEDULE = "schedule"
    AGENT = "agent"  # an in-process plugin, or an agent of one
    TOOL_SOCKET = "tool_socket"
    NODE = "node"  # another server, whose node we are
    MCP = "mcp_server"  # a client of the Model Context Protocol
    OPENAPI = "openapi"
    PANEL = "panel"  # somebody who tries a tool in the admin panel


class ErrorKind(StrEnum):
    """Why a tool call gave no result."""

    PLUGIN = "plugin_error"  # the tool ran and said no
    EXECUTION = "plugin_execution_error"  # crash, bad output, cannot start
    TIMEOUT = "timeout"
    QUEUE = "queue"  # waited too long for a place to run
    UNKNOWN_TOOL = "unknown_tool"
    REFUSED = "refused"  # a guard said no
    LIMIT = "limit"  # more calls than one round may have
    CANCELLED = "cancelled"
    REJECTED = "approval_rejected"  # a person said no
    UNANSWERED = "approval_timeout"  # a person should have decided, and nobody did


class Outcome(StrEnum):
    """How a call or a turn ended."""

    SUCCESS = "success"
    ERROR = "error"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class ToolCommand:
    """One way to invoke a tool, as its manifest describes it.

    ``command`` is what the description shows (spec 3.5), ``parameters`` a JSON Schema of the arguments (D5) or None.
    With ``typed`` a stdio plugin gets JSON values in place of strings. ``tool_name`` is the command's own name at every
    door, without the tool's name in front (D69); where another tool or command has that name the router leaves it out.
    ``title`` is a name for people, ``output_schema`` a JSON Schema of the structured result (MCP-23), ``annotations``
    are hints such as ``readOnlyHint`` (MCP-25), None where nothing is said.
    """

    id: str
    command: str
    description: str
    example: str = ""
    parameters: Mapping[str, Json] | None = None
    typed: bool = False
    tool_name: str | None = None
    title: str = ""
    output_schema: Mapping[str, Json] | None = None
    annotations: Mapping[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class ToolPush:
    """The manifest's ``webSocketPush`` (spec 5.8)."""

    message_type: str | None = None
    target_client_type: str | None = None


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What the router and every door need to know of a tool.

    ``timeout`` in seconds counts from the start of the work (D40). ``eager`` allows a start while the model is still
    writing (D24). ``max_running`` limits this tool's calls at a time. ``callable`` is false for plugins that are
    listed but never called (static ones). ``origin`` is ``LOCAL`` or names where the tool comes from. A scheduled call
    that was interrupted is repeated if the tool is ``idempotent`` (D29), and so is a call whose node was lost in the
    middle of it. ``label#tool`` finds nodes that offer a tool with that one of its ``labels``. ``groups`` names
    what its owner counts it among; those of MCP servers are in the group of their server. ``about`` is what the owner
    says of the tool as a whole.
    """

    name: str
    origin: str
    display: str
    commands: tuple[ToolCommand, ...] = ()
    timeout: float = 60.0
    idempotent: bool = False
    eager: bool = True
    callable: bool = True
    max_running: int | None = None
    push: ToolPush | None = None
    labels: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    about: str = ""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One wish to run a tool.

    ``arguments`` are JSON values; a text door fills them with strings and the router folds their names (D4) and
    converts them by schema. ``texts`` keeps the original text of arguments that came as text (D39). ``tool`` is the
    name as written, which a plugin's own name may be or not; ``command`` is the command that this name says, as in
    ``Plugin.command`` or by a name of its own (D69), None when it says none. The router sets it before guards are
    asked. ``password`` is the ``tool_password`` of the call, if any; ``maid`` the
    caller's name as the result shows it (spec 4.6), which also stays among the arguments.
    """

    id: str
    tool: str
    arguments: Mapping[str, Json]
    texts: Mapping[str, str] = field(default_factory=dict)
    archery: bool = False
    command: str | None = None
    password: str | None = None
    maid: str | None = None

    def given(self, arguments: Mapping[str, Json], texts: Mapping[str, str]) -> ToolCall:
        """The same with other ``arguments`` and ``texts``."""
        return ToolCall(self.id, self.tool, arguments, texts, self.archery, self.command, self.password, self.maid)


class Mute:
    """A switch shared by all calls of one turn: once thrown, their logs and pushes are not sent (P70)."""

    __slots__ = ("muted",)

    def __init__(self) -> None:
        self.muted = False


@dataclass(frozen=True, slots=True)
class CallContext:
    """Where a call stands: which turn, which door, on whose behalf.

    ``deadline`` is a time of the event loop's clock or None; ``depth`` counts tool calls that led to chats that led to
    tool calls, ``parent_call_id`` is the call that led to this one. ``caller`` is the client where it can be asked
    while the call runs, None at all other doors.
    """

    turn_id: str
    door: Door
    client_ip: str | None = None
    parent_call_id: str | None = None
    depth: int = 0
    deadline: float | None = None
    eager: bool = False
    mute: Mute = field(default_factory=Mute)
    caller: Caller | None = None

    def until(self, deadline: float | None) -> CallContext:
        """The same with another ``deadline``."""
        return CallContext(
            self.turn_id,
            self.door,
            self.client_ip,
            self.parent_call_id,
            self.depth,
            deadline,
            self.eager,
            self.mute,
            self.caller,
        )


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The canonical answer of a tool; what models, people and MCP clients read are renderings of it.

    ``structured`` is the result as JSON; ``parts`` are content parts (text, image_url) when the tool gave some;
    ``error_kind`` is None on success. ``message`` is the text for people: the error, or what the tool said beside its
    result. ``original_error`` is what the tool itself said, when an attempt to help it failed (spec 5.9). A model that
    wanted the call is told nothing at all of a ``silent`` result (spec 7.6); programs and people are. ``mcp`` is
    what an MCP server answered, the result of ``tools/call`` as JSON (``content``, ``structuredContent``, ``isError``,
    ``_meta``): it passes to MCP clients as it is (MCP-61), all others read ``structured`` and ``parts``.
    """

    structured: Json = None
    parts: tuple[Mapping[str, Json], ...] | None = None
    error_kind: ErrorKind | None = None
    message: str = ""
    exit_code: int | None = None
    stderr_tail: str = ""
    original_error: str = ""
    silent: bool = False
    mcp: Mapping[str, Json] | None = None

    @property
    def ok(self) -> bool:
        """True when the tool succeeded."""
        return self.error_kind is None


class ToolSource(Protocol):
    """Something that brings tools: stdio plugins, in-process plugins, far nodes, tool clients."""

    def tools(self) -> Mapping[str, ToolSpec]:
        """The tools of now, by name. The map is immutable and replaced whole when it changes."""
        ...

    def changed(self, told: Callable[[], None]) -> None:
        """Call ``told`` each time the tools have changed; it must be quick and must not raise."""
        ...

    def addressed(self, name: str) -> ToolSpec | None:
        """The tool behind a name that no source lists, such as ``node#tool`` (D60); None when it is no tool of this.

        Asked at each call whose name nobody lists, so it must be quick; for ``node#tool.command`` also with what stands
        before the dot. ``ToolCall.tool`` keeps the written name.
        """
        ...

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        """Run the call and return its result; never raises into the turn.

        ``started(pid=…)`` or ``started(node=…)`` is called when the work begins, after any waiting for a place; only
        the first time counts.
        """
        ...


class Guard(Protocol):
    """Asked in order before a call runs: code, approval, limits. Its waiting is not tool time."""

    async def check(self, spec: ToolSpec | None, call: ToolCall, context: CallContext) -> ToolResult | None:
        """None lets the call pass; a result refuses it with that result.

        ``spec`` is None when no tool has this name: the code is asked for before that is told (spec 4.5).
        """
        ...


class CallTool(Protocol):
    """The router, as other parts see it: the only way to run a tool."""

    async def __call__(self, call: ToolCall, context: CallContext) -> ToolResult: ...
