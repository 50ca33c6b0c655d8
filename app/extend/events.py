"""Events: the only source of logs, pushes, metrics and traces (there is no second path)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.extend.prompts import Piece
from app.extend.tools import CallContext, Door, Outcome, ToolCall, ToolPush, ToolResult, ToolSpec
from app.extend.values import Body, Json, Message


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A chat request was accepted. ``parent_turn_id`` is the turn that an inner chat belongs to, empty for clients'.

    ``depth`` counts chats within tools.
    """

    turn_id: str
    model: str
    stream: bool
    client_ip: str | None
    depth: int = 0
    parent_turn_id: str = ""


@dataclass(frozen=True, slots=True)
class PhaseDone:
    """One step of preparing the prompt ended."""

    turn_id: str
    name: str
    pieces_before: int
    pieces_after: int


@dataclass(frozen=True, slots=True)
class ExpandedText:
    """A text of a message after expansion, and what it was made of; ``part`` None: the content is this text."""

    message: int
    part: int | None
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class PromptExpanded:
    """A prompt is finished: ``before`` is the client's body, ``sent`` are the messages after all phases.

    ``texts`` are those that the expansion went through, with their origins; later phases may have changed some since.
    Nobody changes what these refer to. Published only while somebody listens.
    """

    turn_id: str
    before: Body
    texts: tuple[ExpandedText, ...]
    sent: Sequence[Message]


@dataclass(frozen=True, slots=True)
class Recalled:
    """What memory gave for one declaration of a prompt, with scores; ``details`` have a ``type`` (6.5)."""

    turn_id: str
    details: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class RoundStarted:
    """The upstream is about to be asked for the ``number``-th time (from 1)."""

    turn_id: str
    number: int


@dataclass(frozen=True, slots=True)
class UpstreamAnswered:
    """A model API has begun to answer; ``upstream`` is its name in the settings, ``API_URL`` where it has none."""

    turn_id: str
    round: int
    upstream: str


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
    """A tool's work begins: in process ``pid``, or on the far ``node``."""

    turn_id: str
    call_id: str
    tool: str
    door: Door
    origin: str
    eager: bool
    pid: int | None = None
    node: str = ""


@dataclass(frozen=True, slots=True)
class CallProgress:
    """A tool reported how far it is: ``progress`` of ``total``, in whatever it counts (None: of nobody knows what)."""

    turn_id: str
    call_id: str
    progress: float
    total: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class CallFinished:
    """A call ended. ``waited`` and ``ran`` are seconds; ``muted`` calls are neither logged to clients nor pushed.

    ``ran`` is 0 when the tool's work never began, for instance because a guard answered.
    """

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

    @property
    def begun(self) -> bool:
        """True when the tool's work began."""
        return self.ran > 0


@dataclass(frozen=True, slots=True)
class RoundFinished:
    """The upstream ended its answer; ``text`` is what it wrote."""

    turn_id: str
    number: int
    finish_reason: str | None
    usage: Mapping[str, Json] | None
    text: str = ""


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
    client_ip: str | None = None


@dataclass(frozen=True, slots=True)
class DiaryWritten:
    """A diary block of a reply was stored (spec 4.11); ``muted``: its turn was interrupted, clients are not told."""

    turn_id: str
    maid: str
    date: str
    file_path: str
    message: str
    muted: bool = False


@dataclass(frozen=True, slots=True)
class NotesChanged:
    """Notes were written, moved or deleted by the server itself: what is kept of them counts no longer (11.6).

    ``paths`` are those that came and those that went, below the folder of notebooks, with ``/``.
    """

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NotesIndexed:
    """The index has read notes that are others than they were, whoever wrote them: the paths as in ``NotesChanged``.

    ``listed``: there are other notes than before, and not only other texts.
    """

    paths: tuple[str, ...]
    listed: bool


@dataclass(frozen=True, slots=True)
class BackgroundResult:
    """A background plugin has told how far it is, or its final result (spec 1.10); ``body`` is what it sent.

    ``push`` is its manifest's, or None when nothing is to be pushed, for instance because its turn was interrupted.
    """

    plugin: str
    task_id: str
    body: Json
    push: ToolPush | None


@dataclass(frozen=True, slots=True)
class TaskScheduled:
    """A tool call was put off until ``due`` (seconds since the epoch; spec 7.1)."""

    task_id: str
    tool: str
    due: float


@dataclass(frozen=True, slots=True)
class TaskFinished:
    """A scheduled call was carried out, or could not be; ``error`` is for people and empty on success.

    ``result`` is None when no call was made; ``maid`` is the caller's name as the result shows it (spec 4.6).
    """

    task_id: str
    tool: str
    due: float
    result: ToolResult | None
    error: str = ""
    maid: str | None = None


@dataclass(frozen=True, slots=True)
class Pushed:
    """A plugin has a message for connected clients; ``target_client_type`` None means all of them (spec 5.8)."""

    plugin: str
    message_type: str
    data: Json
    target_client_type: str | None


@dataclass(frozen=True, slots=True)
class Informed:
    """Something for those who watch the inner workings (clients of type VCPInfo); ``message`` has a ``type`` (6.5)."""

    source: str
    message: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """A call waits for a person's word (spec 7.6). ``asked_at`` in seconds since the epoch, ``seconds`` it waits."""

    request_id: str
    call: ToolCall
    context: CallContext
    asked_at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class ApprovalSettled:
    """A call waits no longer. ``approved`` is None when nobody answered; ``by`` names who did, ``reason`` why not."""

    request_id: str
    tool: str
    approved: bool | None
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NodeJoined:
    """A far node is connected and has told its ``tools``; once more when they are different ones."""

    node: str
    address: str
    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeLeft:
    """A far node is gone with all its tools."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class StaticRefreshed:
    """A static plugin ran; ``problem`` says why its value stayed as it was (empty: it is new)."""

    plugin: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ShelfChanged:
    """A plugin's resources or prompts are others; with a ``uri`` the content behind it is (MCP-16)."""

    plugin: str
    uri: str = ""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """Files changed and are in force now: ``parts`` names what is new, ``problems`` what stayed as it was and why."""

    parts: tuple[str, ...]
    problems: tuple[str, ...] = ()


Event = (
    TurnStarted
    | PhaseDone
    | PromptExpanded
    | Recalled
    | RoundStarted
    | UpstreamAnswered
    | FirstToken
    | CallFound
    | CallStarted
    | CallProgress
    | CallFinished
    | RoundFinished
    | TurnFinished
    | DiaryWritten
    | NotesChanged
    | NotesIndexed
    | BackgroundResult
    | TaskScheduled
    | TaskFinished
    | Pushed
    | Informed
    | ApprovalAsked
    | ApprovalSettled
    | NodeJoined
    | NodeLeft
    | StaticRefreshed
    | ShelfChanged
    | Reloaded
)


class EventSink(Protocol):
    """Takes events at once and never blocks: a full queue drops and counts."""

    def publish(self, event: Event) -> None:
        """Hand the event to every subscriber."""
        ...
