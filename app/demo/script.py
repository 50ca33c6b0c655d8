"""Prepared replies for the scripted upstream: what to send, byte for byte, and what the usual answers look like.

A ``Reply`` is exact: status, headers, framing and a list of steps. An ``Answer`` is what a model wants to say; it
becomes a stream or a whole completion, as the request asks. Tests write ``Answer`` where only the content matters and
``Reply`` where the bytes do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import cycle

from app.extend import Json

CREATED = 1_700_000_000
"""``created`` of every scripted answer."""

EVENT_STREAM = (("content-type", "text/event-stream"),)
JSON_BODY = (("content-type", "application/json"),)


class Escape(StrEnum):
    """How text is written in JSON; all of them mean the same."""

    NONE = "none"  # raw UTF-8
    ASCII = "ascii"  # everything beyond ASCII as \u300c
    ANGLE = "angle"  # the same, and < > as \u003c \u003e, as Go does
    UPPER = "upper"  # the same with capitals: \u300C
    ALL = "all"  # every character of every string


class Framing(StrEnum):
    """How the end of the body is marked."""

    CHUNKED = "chunked"
    LENGTH = "length"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Send:
    """Write bytes, in blocks of ``block`` bytes (None: in one). The head goes out before the first of them.

    Each block is handed to the network by itself and the event loop gets a turn in between, so that a reader in the
    same process meets the tears; only a test that feeds a parser by hand can be certain of them.
    """

    data: bytes
    block: int | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """Wait until the test releases ``gate``; before the first ``Send`` it holds back the head too."""

    gate: str = "go"


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection in good order, without the end that the framing promised."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Reset the connection."""


Step = Send | Hold | Close | Reset


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came in; header names are lower-case, ``number`` counts from 1."""

    number: int
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Reply:
    """One exact HTTP answer.

    With ``Framing.LENGTH`` the head promises ``length`` bytes, or what the steps send when it is None.
    """

    steps: tuple[Step, ...]
    status: int = 200
    headers: tuple[tuple[str, str], ...] = EVENT_STREAM
    framing: Framing = Framing.CHUNKED
    length: int | None = None

    @property
    def promised(self) -> int:
        """The value of ``content-length``."""
        sent = sum(len(step.data) for step in self.steps if isinstance(step, Send))
        return sent if self.length is None else self.length


@dataclass(frozen=True, slots=True)
class EventStyle:
    """How server-sent events are written."""

    newline: str = "\n"
    space: bool = True
    escape: Escape = Escape.NONE
    comment: str | None = None  # sent before every event
    done: bool = True


PLAIN = EventStyle()


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice of an answer; ``tool_calls`` are native calls in the form of a whole message."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[Json, ...] = ()
    finish: str | None = "stop"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model says. ``sizes`` are the characters per piece in turn, ``block`` tears the bytes (see ``Send``).

    ``extra`` are further fields of every chunk or of the completion.
    """

    choices: tuple[Choice, ...]
    usage: Mapping[str, Json] | None = None
    sizes: tuple[int, ...] = (3,)
    style: EventStyle = PLAIN
    block: int | None = None
    extra: Mapping[str, Json] = field(default_factory=dict)

    def reply(self, received: Received) -> Reply:
        """As the request asks: a stream for ``stream: true``, else a whole completion."""
        body = received.json if received.body else {}
        model = str(body.get("model", ""))
        return self.streamed(model) if body.get("stream") is True else self.whole(model)

    def streamed(self, model: str = "scripted") -> Reply:
        """As an event stream, whatever the request asks for."""
        return events(self.chunks(model), style=self.style, block=self.block)

    def whole(self, model: str = "scripted") -> Reply:
        """As one JSON completion, whatever the request asks for."""
        choices = []
        for index, choice in enumerate(self.choices):
            message: dict[str, Json] = {"role": "assistant", "content": choice.text or None}
            if choice.reasoning:
                message["reasoning_content"] = choice.reasoning
            if choice.tool_calls:
                message["tool_calls"] = list(choice.tool_calls)
            else:
                message["content"] = choice.text
            choices.append({"index": index, "message": message, "finish_reason": choice.finish})
        completion = {**_envelope("chat.completion", model), "choices": choices, **self.extra}
        if self.usage is not None:
            completion["usage"] = dict(self.usage)
        data = dump(completion, self.style.escape)
        return Reply((Send(data, self.block),), headers=JSON_BODY, framing=Framing.LENGTH)

    def chunks(self, model: str = "scripted") -> list[Json]:
        """The chunks of the stream: roles, reasoning, text and calls of each choice, finishes, usage."""
        chunks = [self._chunk(model, index, {"role": "assistant", "content": ""}) for index in range(len(self.choices))]
        for index, choice in enumerate(self.choices):
            chunks += [
                self._chunk(model, index, {"reasoning_content": p}) for p in pieces(choice.reasoning, self.sizes)
            ]
            chunks += [self._chunk(model, index, {"content": p}) for p in pieces(choice.text, self.sizes)]
            chunks += [self._chunk(model, index, delta) for delta in _call_deltas(choice.tool_calls, self.sizes)]
        for index, choice in enumerate(self.choices):
            if choice.finish is not None:
                chunks.append(self._chunk(model, index, {}, choice.finish))
        if self.usage is not None:
            envelope = _envelope("chat.completion.chunk", model)
            chunks.append({**envelope, "choices": [], **self.extra, "usage": dict(self.usage)})
        return chunks

    def _chunk(self, model: str, index: int, delta: Json, finish: str | None = None) -> Json:
        choice = {"index": index, "delta": delta, "finish_reason": finish}
        return {**_envelope("chat.completion.chunk", model), "choices": [choice], **self.extra}


Scripted = Reply | Answer | Callable[[Received], Reply | Answer]
"""An entry of a script; a function makes its reply from the request."""


def say(
    text: str,
    *,
    finish: str | None = "stop",
    usage: Mapping[str, Json] | None = None,
    reasoning: str = "",
    tool_calls: Sequence[Json] = (),
    sizes: Sequence[int] = (3,),
    style: EventStyle = PLAIN,
    block: int | None = None,
) -> Answer:
    """An answer with one choice."""
    choice = Choice(text, reasoning, tuple(tool_calls), finish)
    return Answer((choice,), usage, tuple(sizes), style, block)


def native_call(call_id: str, name: str, arguments: Mapping[str, Json]) -> Json:
    """A native tool call as it stands in a whole message."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def events(chunks: Iterable[Json], *, style: EventStyle = PLAIN, block: int | None = None) -> Reply:
    """An event stream of these JSON values."""
    return stream_of(event_bytes(chunks, style), block=block)


def stream_of(*data: bytes, block: int | None = None, framing: Framing = Framing.CHUNKED) -> Reply:
    """An event stream of raw bytes, each argument written by itself."""
    return Reply(tuple(Send(item, block) for item in data), framing=framing)


def json_reply(value: Json, status: int = 200, headers: Iterable[tuple[str, str]] = ()) -> Reply:
    """A JSON answer with a status; ``headers`` are added."""
    data = dump(value, Escape.NONE)
    return Reply((Send(data),), status, (*JSON_BODY, *headers), Framing.LENGTH)


def raw_reply(data: bytes, status: int = 200, content_type: str = "text/plain", block: int | None = None) -> Reply:
    """Any body with any status and content type."""
    return Reply((Send(data, block),), status, (("content-type", content_type),), Framing.LENGTH)


def broken(reply: Reply, fault: Step, after: int | None = None) -> Reply:
    """The reply, but after ``after`` bytes of its body comes ``fault``: Close, Reset, or a Hold that is never released.

    None breaks off after the last byte, before the mark of the end; with ``after=0`` not even the head is sent.
    """
    if after is None:
        return replace(reply, steps=(*reply.steps, fault))
    kept: list[Step] = []
    left = after
    for step in reply.steps:
        if isinstance(step, Send):
            if left <= 0:
                break
            step = Send(step.data[:left], step.block)
            left -= len(step.data)
        kept.append(step)
    return replace(reply, steps=(*kept, fault), length=reply.promised)


def no_answer(fault: Close | Reset | Hold) -> Reply:
    """Not a single byte: the connection closes, breaks, or hangs until the gate is released."""
    return Reply((fault,))


def event_bytes(chunks: Iterable[Json], style: EventStyle = PLAIN) -> bytes:
    """Server-sent events of these values, with ``[DONE]`` if the style has it."""
    end = style.newline.encode()
    lead = b"data: " if style.space else b"data:"
    comment = b"" if style.comment is None else b": " + style.comment.encode() + end + end
    texts = [dump(chunk, style.escape) for chunk in chunks] + ([b"[DONE]"] if style.done else [])
    return b"".join(comment + lead + text + end + end for text in texts)


def pieces(text: str, sizes: Sequence[int]) -> list[str]:
    """The text cut into pieces of these sizes (characters), in turn."""
    cut: list[str] = []
    at = 0
    for size in cycle(sizes):
        if at >= len(text):
            break
        cut.append(text[at : at + size])
        at += size
    return cut


def dump(value: Json, escape: Escape) -> bytes:
    """The value as JSON in UTF-8, its strings written by ``escape``."""
    text = json.dumps(value, ensure_ascii=escape is not Escape.NONE, separators=(",", ":"))
    if escape in (Escape.ANGLE, Escape.UPPER):
        # Angle brackets occur inside strings only, so replacing them anywhere is safe.
        text = text.replace("<", "\\u003c").replace(">", "\\u003e")
    if escape is Escape.UPPER:
        text = re.sub(r"\\u[0-9a-f]{4}", lambda found: "\\u" + found[0][2:].upper(), text)
    if escape is Escape.ALL:
        text = _escape_all(value)
    return text.encode()


def _escape_all(value: Json) -> str:
    if isinstance(value, str):
        units = value.encode("utf-16-be")
        return '"' + "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)) + '"'
    if isinstance(value, dict):
        # Names of fields stay plain: no upstream is known that escapes those.
        return "{" + ",".join(f"{json.dumps(key)}:{_escape_all(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_escape_all(item) for item in value) + "]"
    return json.dumps(value)


def _envelope(kind: str, model: str) -> dict[str, Json]:
    return {"id": "chatcmpl-scripted", "object": kind, "created": CREATED, "model": model}


def _call_deltas(calls: Sequence[Json], sizes: Sequence[int]) -> list[Json]:
    deltas: list[Json] = []
    for index, call in enumerate(calls):
        function = {"name": call["function"]["name"], "arguments": ""}
        deltas.append({"tool_calls": [{"index": index, "id": call["id"], "type": call["type"], "function": function}]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            for piece in pieces(call["function"]["arguments"], sizes)
        ]
    return deltas
