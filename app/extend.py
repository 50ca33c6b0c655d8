"""Every extension point of the server, and the values that cross it.

A part of the server depends on the contracts here and never on its sibling; ``services.py`` hands the parts to each
other. All value types are immutable. JSON values are plain Python values as a JSON parser makes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from starlette.routing import BaseRoute

Json = Any
"""A JSON value. ``Any``, because recursive JSON types force casts at every use."""

Body = dict[str, Any]
"""A chat request body as the client sent it; unknown fields stay in it."""

Message = dict[str, Any]
"""One chat message; ``content`` is a string, a list of parts, or missing."""


LOCAL = "local"
"""Origin of tools that run on this machine; their descriptions are the operator's own text (D31)."""


# --- tools -----------------------------------------------------------------------------------------------------------


class Door(StrEnum):
    """Where a tool call came in; the values are those of the log message's ``source`` (decision D66)."""

    STREAM = "stream_loop"
    NON_STREAM = "non_stream_loop"
    HUMAN_TOOL = "human_tool"
    DIARY_BLOCK = "diary_block"
    COMMAND_LINE = "command_line"


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
    door (D69); so far only the manifest's word is kept, nothing is found by it yet.
    """

    id: str
    command: str
    description: str
    example: str = ""
    parameters: Mapping[str, Json] | None = None
    typed: bool = False
    tool_name: str | None = None


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
    listed but never called (static ones). ``origin`` is ``LOCAL`` or names where the tool comes from. Nothing reads
    ``idempotent``, ``cancellable``, ``push``, ``labels`` and ``groups`` yet: they are for nodes, WebSockets and MCP.
    """

    name: str
    origin: str
    display: str
    commands: tuple[ToolCommand, ...] = ()
    timeout: float = 60.0
    idempotent: bool = False
    cancellable: bool = True
    eager: bool = True
    callable: bool = True
    max_running: int | None = None
    push: ToolPush | None = None
    labels: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One wish to run a tool.

    ``arguments`` are JSON values; a text door fills them with strings and the router folds their names (D4) and
    converts them by schema. ``texts`` keeps the original text of arguments that came as text (D39). ``command`` is the
    part behind the dot of ``Plugin.command``. ``password`` is the ``tool_password`` of the call, if any; ``maid`` the
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


class Mute:
    """A switch shared by all calls of one turn: once thrown, their logs and pushes are not sent (P70)."""

    __slots__ = ("muted",)

    def __init__(self) -> None:
        self.muted = False


@dataclass(frozen=True, slots=True)
class CallContext:
    """Where a call stands: which turn, which door, on whose behalf.

    ``deadline`` is a time of the event loop's clock or None; ``depth`` counts tool calls that led to chats that led to
    tool calls, ``parent_call_id`` is the call that led to this one. Nothing sets these three yet.
    """

    turn_id: str
    door: Door
    client_ip: str | None = None
    parent_call_id: str | None = None
    depth: int = 0
    deadline: float | None = None
    eager: bool = False
    mute: Mute = field(default_factory=Mute)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The canonical answer of a tool; what models, people and MCP clients read are renderings of it.

    ``structured`` is the result as JSON; ``parts`` are content parts (text, image_url) when the tool gave some;
    ``error_kind`` is None on success. ``message`` is the text for people: the error, or what the tool said beside its
    result.
    """

    structured: Json = None
    parts: tuple[Mapping[str, Json], ...] | None = None
    error_kind: ErrorKind | None = None
    message: str = ""
    exit_code: int | None = None
    stderr_tail: str = ""

    @property
    def ok(self) -> bool:
        """True when the tool succeeded."""
        return self.error_kind is None


class ToolSource(Protocol):
    """Something that brings tools: stdio plugins, in-process plugins, nodes, MCP servers."""

    def tools(self) -> Mapping[str, ToolSpec]:
        """The tools of now, by name. The map is immutable and replaced whole when it changes."""
        ...

    def changed(self, told: Callable[[], None]) -> None:
        """Call ``told`` each time the tools have changed; it must be quick and must not raise."""
        ...

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        """Run the call and return its result; never raises into the turn.

        ``started(pid=…)`` is called when the work begins, after any waiting for a place; only the first time counts.
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


# --- events ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A chat request was accepted."""

    turn_id: str
    model: str
    stream: bool
    client_ip: str | None


@dataclass(frozen=True, slots=True)
class PhaseDone:
    """One step of preparing the prompt ended."""

    turn_id: str
    name: str
    pieces_before: int
    pieces_after: int


@dataclass(frozen=True, slots=True)
class RoundStarted:
    """The upstream is about to be asked for the ``number``-th time (from 1)."""

    turn_id: str
    number: int


@dataclass(frozen=True, slots=True)
class FirstToken:
    """The first piece of the round's answer arrived."""

    turn_id: str
    round: int


@dataclass(frozen=True, slots=True)
class CallFound:
    """A tool block was found; ``skipped_why`` says why it is not run (empty: it is)."""

    turn_id: str
    call_id: str
    tool: str
    skipped_why: str = ""


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A tool's work begins."""

    turn_id: str
    call_id: str
    tool: str
    door: Door
    origin: str
    eager: bool
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class CallProgress:
    """A tool reported how far it is (fraction 0..1, or None when unknown). Nothing publishes it yet."""

    turn_id: str
    call_id: str
    fraction: float | None
    message: str


@dataclass(frozen=True, slots=True)
class CallFinished:
    """A call ended. ``waited`` and ``ran`` are seconds; ``muted`` calls are neither logged to clients nor pushed."""

    turn_id: str
    call: ToolCall
    context: CallContext
    spec: ToolSpec | None
    outcome: Outcome
    result: ToolResult
    waited: float
    ran: float

    @property
    def muted(self) -> bool:
        """True when logs and pushes of this call must not be sent any more (P70)."""
        return self.context.mute.muted


@dataclass(frozen=True, slots=True)
class RoundFinished:
    """The upstream ended its answer."""

    turn_id: str
    number: int
    finish_reason: str | None
    usage: Mapping[str, Json] | None


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """The client has got everything it will get; ``calls`` are those of all rounds that had an outcome for the model,
    and the archery calls.
    """

    turn_id: str
    outcome: Outcome
    rounds: int
    calls: int
    error: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class DiaryWritten:
    """A diary block of a reply was stored (spec 4.11)."""

    turn_id: str
    maid: str
    date: str
    file_path: str
    message: str


Event = (
    TurnStarted
    | PhaseDone
    | RoundStarted
    | FirstToken
    | CallFound
    | CallStarted
    | CallProgress
    | CallFinished
    | RoundFinished
    | TurnFinished
    | DiaryWritten
)


class EventSink(Protocol):
    """Takes events at once and never blocks: a full queue drops and counts."""

    def publish(self, event: Event) -> None:
        """Hand the event to every subscriber."""
        ...


# --- prompts ---------------------------------------------------------------------------------------------------------


class Trust(StrEnum):
    """What may be done with a piece of prompt text (D9, D31)."""

    OPERATOR = "operator"  # written by the operator: expanded
    MESSAGE = "message"  # a message's own text: only the steps its role allows
    DATA = "data"  # diaries, tools, nodes: inserted literally, never expanded


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of prompt text that has one source (for instance ``agent:Nova``, ``TarSysPrompt``, ``diary:公共``)."""

    text: str
    source: str
    trust: Trust


@dataclass(frozen=True, slots=True)
class Found:
    """A placeholder that a source recognised; ``groups`` are those of its pattern."""

    text: str
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PromptContext:
    """The conversation that placeholders are resolved for. ``round`` counts from 1."""

    model: str
    messages: Sequence[Message]
    round: int = 1


class PlaceholderSource(Protocol):
    """Resolves one family of placeholders with data: static values, diaries, emoji lists, recall, background results.

    ``pattern`` is searched in pieces that are not data, of messages whose role is in ``roles``, after all operator text
    has been expanded; ``developer`` counts as ``system``. ``trust`` is that of the inserted text. Sources with
    ``after_detectors`` come last (D31). The fields may differ from turn to turn, but not within one.
    """

    name: str
    pattern: re.Pattern[str]
    roles: frozenset[str]
    trust: Trust
    after_detectors: bool

    async def resolve(self, found: Sequence[Found], context: PromptContext) -> Mapping[str, str]:
        """The text for each ``Found.text``; what is missing from the answer stays as it was written.

        Called at most once a turn with all distinct placeholders, under a deadline.
        """
        ...


class Stage(StrEnum):
    """When a preprocessor runs."""

    BEFORE_VARIABLES = "before_variables"
    MEDIA = "media"
    AFTER = "after"
    BEFORE_EACH_ROUND = "before_each_round"


class Preprocessor(Protocol):
    """Changes the whole request body at its stage."""

    name: str
    stage: Stage

    async def process(self, body: Body, context: PromptContext) -> Body:
        """The body to go on with; an error skips this preprocessor."""
        ...


# --- the turn --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """A call that ran, what came of it, and when it ended (seconds since the epoch)."""

    call: ToolCall
    result: ToolResult
    finished_at: float


@dataclass(frozen=True, slots=True)
class FoundCall:
    """A call that a reply asks for; with a ``skipped_why`` it is reported and must not be run."""

    call: ToolCall
    skipped_why: str = ""


class CallFormat(Protocol):
    """How a model is offered tools and asks for them: marked text first, native function calls later.

    One object serves one round.
    """

    def offer(self, body: Body) -> Body:
        """The body that goes upstream, with the tools in it where the format puts them there."""
        ...

    def feed(self, delta: Mapping[str, Json]) -> Sequence[FoundCall]:
        """Take the next piece of choice 0 (a delta, or a whole message); the calls that are complete with it."""
        ...

    def finish(self) -> Sequence[FoundCall]:
        """The reply ended; calls that are complete only now."""
        ...

    def hidden(self) -> Sequence[tuple[int, int]]:
        """Ranges (start, end) of the reply's text that are no word of the reply itself: thoughts, calls."""
        ...

    def append(self, body: Body, reply: str, outcomes: Sequence[CallOutcome]) -> Body:
        """The body of the next round: with the reply and what came of its calls, in call order."""
        ...


# --- the rest of the server ------------------------------------------------------------------------------------------


class Access(StrEnum):
    """Who may use a route. One that declares none is refused, and so are ADMIN and PATH_KEY until they are served."""

    KEY = "key"  # whoever has the server's key
    ADMIN = "admin"  # whoever is logged in as an administrator
    PATH_KEY = "path_key"  # whoever has the key that stands in the path
    OPEN = "open"  # everybody who is not blocked


@dataclass(frozen=True, slots=True)
class DeclaredRoute:
    """A route and its access. Only HTTP routes are served so far, no WebSockets and no mounted applications."""

    route: BaseRoute
    access: Access


class RouteSource(Protocol):
    """Something that brings routes; asked once, when the application is made."""

    def routes(self) -> Sequence[DeclaredRoute]:
        """The routes, each with its declared access. An open one has no parameters in its path."""
        ...


class FileFetcher(Protocol):
    """Finds a file that a plugin did not have (spec 5.9)."""

    async def fetch(self, url: str, context: CallContext) -> tuple[bytes, str] | None:
        """Content and media type, or None when nobody has it."""
        ...


@dataclass(frozen=True, slots=True)
class UpstreamTarget:
    """One model API: base address without ``/v1``, its key, and its proxy (None: what the environment says)."""

    base_url: str
    api_key: str
    proxy: str | None = None


class UpstreamResolver(Protocol):
    """Chooses the model API for a model."""

    def resolve(self, model: str) -> UpstreamTarget:
        """The target for this model."""
        ...


class Lifecycle(Protocol):
    """A part with something to start and to stop."""

    async def start(self) -> None:
        """Begin work; called once."""
        ...

    def health(self) -> str:
        """Empty while all is well, else what is wrong in one line; asked by ``/readyz``."""
        ...

    async def stop(self) -> None:
        """End all work within bounded time; called once, also after a failed start."""
        ...


Clock = Callable[[], float]
"""Seconds since the epoch."""
