"""Events of a made-up request, and traces made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.extend import (
    LOCAL,
    CallContext,
    CallFinished,
    CallFound,
    CallStarted,
    Door,
    ErrorKind,
    Event,
    ExpandedText,
    FirstToken,
    Outcome,
    PhaseDone,
    Piece,
    PromptExpanded,
    Recalled,
    RoundFinished,
    RoundStarted,
    ToolCall,
    ToolResult,
    ToolSpec,
    Trust,
    TurnFinished,
    TurnStarted,
    UpstreamAnswered,
)
from app.hub.masks import Masks
from app.observe.traces.collector import Collector
from app.observe.traces.document import trace_document
from app.observe.traces.record import Record

SECRET = "our-own-secret-key"
START = 1_750_000_000.0


@dataclass(slots=True)
class Hearing:
    """A collector under a clock that moves by hand."""

    full: bool = True
    now: float = 0.0
    ended: list[Record] = field(default_factory=list)
    collector: Collector = field(init=False)

    def __post_init__(self) -> None:
        self.collector = Collector(self.ended.append, lambda: self.full, lambda: START + self.now, lambda: self.now)

    def hear(self, *events: Event, step: float = 0.1) -> None:
        for event in events:
            self.collector.hear(event)
            self.now += step


def mask() -> Any:
    return Masks(lambda: [SECRET]).of_this_moment()


def document_of(*events: Event, full: bool = True, step: float = 0.1) -> dict[str, Any]:
    """The trace of these events, which end a request."""
    hearing = Hearing(full)
    hearing.hear(*events, step=step)
    (record,) = hearing.ended
    return trace_document(record, mask())


def prompt(
    texts: Sequence[Sequence[tuple[str, str, Trust]]],
    *,
    before: Sequence[Mapping[str, Any]] | None = None,
    sent: Sequence[Mapping[str, Any]] | None = None,
    turn: str = "t",
    **request: Any,
) -> PromptExpanded:
    """A prompt of one string content for each of ``texts``; its pieces are (text, source, trust)."""
    pieces = [tuple(Piece(*piece) for piece in text) for text in texts]
    expanded = [{"role": "user", "content": "".join(piece.text for piece in text)} for text in pieces]
    return PromptExpanded(
        turn,
        {"messages": [dict(one) for one in (before or expanded)], **request},
        tuple(ExpandedText(number, None, text) for number, text in enumerate(pieces)),
        tuple(dict(one) for one in (sent or expanded)),
    )


def message(text: str) -> list[tuple[str, str, Trust]]:
    return [(text, "message", Trust.MESSAGE)]


def call(tool: str = "Echo", id: str = "c", turn: str = "t", **arguments: Any) -> ToolCall:
    return ToolCall(id, tool, arguments)


def finished(
    one: ToolCall,
    result: ToolResult | None = None,
    *,
    turn: str = "t",
    door: Door = Door.STREAM,
    origin: str = LOCAL,
    outcome: Outcome = Outcome.SUCCESS,
    ran: float = 0.05,
) -> CallFinished:
    spec = ToolSpec(one.tool, origin, one.tool)
    context = CallContext(turn, door, client_ip="10.0.0.9")
    return CallFinished(turn, one, context, spec, outcome, result or ToolResult("ok"), 0.01, ran)


def chat(
    turn: str = "t", *, model: str = "m", question: str = "how?", answer: str = "so", tool: str = "Echo"
) -> list[Event]:
    """All events of a chat with one call."""
    one = call(tool, f"call-{turn}", text=question)
    return [
        TurnStarted(turn, model, True, "10.0.0.9"),
        PhaseDone(turn, "operator_text", 1, 3),
        Recalled(turn, {"type": "RAG_RETRIEVAL_DETAILS", "dbName": "Nova", "query": question,
                        "results": [{"text": "a note", "score": 0.75, "source": "rag", "originalScore": 0.5}]}),
        prompt([[("You are ", "agent:Nova", Trust.OPERATOR), ("a note", "recall:Nova", Trust.DATA)], message(question)],
               turn=turn, model=model, temperature=0.5),
        RoundStarted(turn, 1),
        UpstreamAnswered(turn, 1, "FIRST"),
        FirstToken(turn, 1),
        CallFound(turn, one.id, tool),
        CallStarted(turn, one.id, tool, Door.STREAM, LOCAL, True, pid=77),
        RoundFinished(turn, 1, "stop", {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}, answer),
        finished(one, turn=turn),
        TurnFinished(turn, Outcome.SUCCESS, 1, 1, "", model, "10.0.0.9"),
    ]  # fmt: skip


def failed_call(message: str) -> ToolResult:
    return ToolResult(error_kind=ErrorKind.PLUGIN, message=message)


def documents(count: int, **fields: Any) -> Iterable[dict[str, Any]]:
    """Many different traces of chats, a second apart."""
    base = document_of(*chat())
    for number in range(count):
        yield {**base, "id": f"turn-{number}", "started": START + number, **fields}
