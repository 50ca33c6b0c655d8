"""Two renderings of one turn: an event stream, or one completion."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from app.chat.payload import dumps, joined_text, loads
from app.chat.reading import AnswerState
from app.errors import UpstreamConnectError, UpstreamError, UpstreamStatusError, VcpError
from app.protocol import markers
from app.protocol.chat import DONE, chunk, error_object, sse

DEFAULT_FINISH = "stop"

_ID_FINAL = markers.ID_FINAL_STOP.removesuffix("stop-")


@dataclass(frozen=True, slots=True)
class Ending:
    """How the answer ends: finish reasons by choice, and the usage of all rounds when the client asked for it."""

    finish_reasons: Mapping[int, str]
    usage: Mapping[str, Any] | None
    calls_left: bool = False


class Renderer(Protocol):
    """What a turn tells its client. Methods are called in the order of the answer."""

    @property
    def begun(self) -> bool:
        """True once something was sent that cannot be taken back."""
        ...

    async def forward(self, events: bytes) -> None:
        """Upstream events that go out as they are."""
        ...

    async def completion(self, reply: Mapping[str, Any] | None, text: str) -> None:
        """A plain JSON answer of one round and its text."""
        ...

    async def separator(self) -> None:
        """The newline between two rounds (D2)."""
        ...

    async def block(self, text: str) -> None:
        """A ShowVCP block."""
        ...

    async def failed(self, error: VcpError, *, first_round: bool) -> None:
        """The upstream or the server failed; ends the answer readably."""
        ...

    async def interrupted(self) -> None:
        """The user stopped the turn; ends the answer."""
        ...

    async def finish(self, ending: Ending) -> None:
        """The regular end."""
        ...


def failure_text(error: VcpError) -> str:
    """What a person reads in the answer when the turn fails (spec 4.10)."""
    if isinstance(error, UpstreamStatusError) and not error.exhausted:
        return markers.upstream_status_error(error.upstream_status, error.body.decode("utf-8", "replace"))
    if isinstance(error, UpstreamError):
        return markers.upstream_unreachable(error.message)
    return f"[ERROR] {error.message}"


class StreamRenderer:
    """Writes server-sent events. ``write`` takes whole events, so that heartbeats can come between any two of them."""

    def __init__(
        self,
        write: Callable[[bytes], Awaitable[None]],
        answer: AnswerState,
        *,
        model: str,
        errors_as_status: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._write = write
        self._errors_as_status = errors_as_status
        self._answer = answer
        self._model = model
        self._clock = clock
        self._begun = False
        self.status_answer: tuple[int, dict[str, Any]] | None = None

    @property
    def begun(self) -> bool:
        """True once an event was written."""
        return self._begun

    async def forward(self, events: bytes) -> None:
        """Write upstream events unchanged."""
        self._begun = True
        await self._write(events)

    async def completion(self, reply: Mapping[str, Any] | None, text: str) -> None:
        """The upstream gave plain JSON although a stream was asked for: the turn reads it as chunks, so not used."""
        raise AssertionError("a streamed turn reads plain answers as chunks")

    async def separator(self) -> None:
        """A newline in the content of a chunk."""
        await self._say(markers.ID_SHOW_VCP, "\n")

    async def block(self, text: str) -> None:
        """A ShowVCP block in a chunk of its own."""
        await self._say(markers.ID_SHOW_VCP, text)

    async def failed(self, error: VcpError, *, first_round: bool) -> None:
        """A readable chunk, a finish and the end mark, whatever the fault (B20)."""
        if first_round and self._errors_as_status and not self._begun:
            self.status_answer = error_answer(error)
            return
        status = isinstance(error, UpstreamStatusError) and not error.exhausted
        kind = markers.ID_UPSTREAM_ERROR if status else markers.ID_ERROR
        text = failure_text(error)
        await self._end_with(kind, "\n" + text if self._begun else text)

    async def interrupted(self) -> None:
        """A notice when nothing was sent yet (spec 1.7), else just a well-formed end (B21)."""
        if self._begun:
            await self._send(self._chunk(markers.ID_FINAL_STOP, {}, DEFAULT_FINISH), end=True)
        else:
            await self._end_with(markers.ID_INTERRUPT, markers.INTERRUPTED)

    async def finish(self, ending: Ending) -> None:
        """One finish reason for each choice, the usage chunk if there is one, the end mark (D1, D25, D32)."""
        out = []
        reasons = dict(ending.finish_reasons)
        reasons.setdefault(0, DEFAULT_FINISH)
        if ending.calls_left:
            reasons[0] = "length"
        for index in sorted(reasons):
            reason = reasons[index]
            out.append(self._chunk(f"{_ID_FINAL}{reason}-", {}, reason, index))
        if ending.usage is not None:
            tail = self._chunk(markers.ID_SHOW_VCP, {}, None)
            tail["choices"] = []
            tail["usage"] = dict(ending.usage)
            out.append(tail)
        await self._send(*out, end=True)

    async def _say(self, kind: str, text: str) -> None:
        await self._send(self._chunk(kind, self._delta(text), None))

    async def _end_with(self, kind: str, text: str) -> None:
        delta = self._delta(text)
        await self._send(self._chunk(kind, delta, None), self._chunk(kind, {}, DEFAULT_FINISH), end=True)

    def _delta(self, text: str) -> dict[str, Any]:
        if 0 in self._answer.roles_sent:
            return {"content": text}
        self._answer.roles_sent.add(0)
        return {"role": "assistant", "content": text}

    def _chunk(self, kind: str, delta: dict[str, Any], finish: str | None, index: int = 0) -> dict[str, Any]:
        now = self._clock()
        return chunk(
            f"{kind}{int(now * 1000)}",
            self._answer.model or self._model,
            self._answer.created or int(now),
            delta,
            finish,
            index,
        )

    async def _send(self, *chunks: dict[str, Any], end: bool = False) -> None:
        self._begun = True
        data = b"".join(sse(dumps(one)) for one in chunks)
        await self._write(data + DONE if end else data)


class CompletionRenderer:
    """Collects the texts of all rounds and makes one completion of them (spec 4.8)."""

    def __init__(self, *, model: str, clock: Callable[[], float] = time.time) -> None:
        self._model = model
        self._clock = clock
        self._texts: list[str] = []
        self._first: dict[str, Any] | None = None
        self._last_message: dict[str, Any] = {}
        self._rounds = 0
        self.status = 200
        self.body: dict[str, Any] | None = None

    @property
    def begun(self) -> bool:
        """False: nothing is sent before the end."""
        return False

    async def forward(self, events: bytes) -> None:
        """Not used: a plain turn reads event streams as one completion."""
        raise AssertionError("a plain turn joins events to a completion")

    async def completion(self, reply: Mapping[str, Any] | None, text: str) -> None:
        """Keep the first reply as the frame of the answer, and every reply's text."""
        self._rounds += 1
        if self._rounds == 1 and reply is not None:
            self._first = dict(reply)
        self._last_message = _first_message(reply)
        self._texts.append(text)

    async def separator(self) -> None:
        """The newline before a later round's text."""
        self._texts.append("\n")

    async def block(self, text: str) -> None:
        """A ShowVCP block between the texts."""
        self._texts.append(text)

    async def failed(self, error: VcpError, *, first_round: bool) -> None:
        """On the first call the upstream's own status (D26); later what was collected, with a note (B25)."""
        if first_round:
            self.status, self.body = error_answer(error)
            return
        self._texts.append("\n" + failure_text(error))
        await self.finish(Ending({0: DEFAULT_FINISH}, None))

    async def interrupted(self) -> None:
        """The answer of an interrupted plain request (spec 1.7)."""
        message = {"role": "assistant", "content": markers.INTERRUPTED}
        self.body = {"choices": [{"index": 0, "message": message, "finish_reason": DEFAULT_FINISH}]}

    async def finish(self, ending: Ending) -> None:
        """The first reply with all texts in it and the true last finish reason."""
        frame = {"object": "chat.completion", "model": self._model}
        body: dict[str, Any] = dict(self._first) if self._first is not None else dict(frame)
        choices = body.get("choices")
        others = [choice for choice in choices[1:] if isinstance(choice, dict)] if isinstance(choices, list) else []
        head: dict[str, Any] = (
            dict(choices[0]) if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {"index": 0}
        )
        message = dict(head["message"]) if isinstance(head.get("message"), dict) else {"role": "assistant"}
        text = joined_text(self._texts)
        if self._rounds > 1 and "tool_calls" in self._last_message:
            message["tool_calls"] = self._last_message["tool_calls"]
        if text or message.get("content") is not None or "tool_calls" not in message:
            message["content"] = text
        head["message"] = message
        head["finish_reason"] = "length" if ending.calls_left else ending.finish_reasons.get(0, DEFAULT_FINISH)
        body["choices"] = [head, *others]
        if ending.usage is not None:
            body["usage"] = dict(ending.usage)
        self.body = body


def _first_message(reply: Mapping[str, Any] | None) -> dict[str, Any]:
    choices = reply.get("choices") if reply is not None else None
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        message = choices[0].get("message")
        if isinstance(message, dict):
            return message
    return {}


def error_answer(error: VcpError) -> tuple[int, dict[str, Any]]:
    """Status and OpenAI-shaped body for a fault on the first call (spec 4.8, 4.10; D26)."""
    if isinstance(error, UpstreamStatusError):
        status = error.upstream_status if error.upstream_status >= 400 else 502
        return status, _status_body(error)
    if isinstance(error, UpstreamConnectError):
        text = f"{markers.INTERNAL_SERVER_ERROR}: {markers.FETCH_FAILED} {error.message}"
        return 500, _with_error({}, text, error.code, None)
    if not isinstance(error, UpstreamError):
        kind = "invalid_request_error" if error.status < 500 else "server_error"
        return error.status, error_object(error.message, kind, error.code)
    return error.status, _with_error({}, f"{markers.INTERNAL_SERVER_ERROR}: {error.message}", error.code, None)


def _status_body(error: UpstreamStatusError) -> dict[str, Any]:
    raw = error.body.decode("utf-8", "replace")
    try:
        parsed = loads(error.body)
    except (ValueError, RecursionError):
        parsed = None
    body = dict(parsed) if isinstance(parsed, dict) else {}
    known = body.get("error")
    said = raw
    if isinstance(known, dict) and isinstance(known.get("message"), str):
        said = known["message"]
    elif isinstance(known, str):
        said = known
    text = markers.upstream_status_error(error.upstream_status, said)
    if error.exhausted:
        text = f"{text} {markers.FETCH_FAILED}"
    body.setdefault(
        "choices",
        [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text if isinstance(parsed, dict) else raw},
                "finish_reason": DEFAULT_FINISH,
            }
        ],
    )
    if isinstance(known, dict) and isinstance(known.get("message"), str):
        message = f"{said} ({markers.FETCH_FAILED})" if error.exhausted else said
        body["error"] = {**known, "message": message}
        return body
    return _with_error(body, text, error.code, known)


def _with_error(body: dict[str, Any], message: str, code: str, known: Any) -> dict[str, Any]:
    fields = dict(known) if isinstance(known, dict) else {}
    return {**body, "error": {"type": "upstream_error", "param": None, "code": code, **fields, "message": message}}
