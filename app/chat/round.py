"""Reading one upstream answer, streamed or plain, whichever was asked for and whichever came."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from app.chat.calls import RoundCalls
from app.chat.payload import dumps, loads
from app.chat.reading import MAX_REPLY_CHARS, AnswerState, RoundReader
from app.chat.render import Renderer
from app.errors import UpstreamBrokenError, UpstreamStatusError
from app.protocol.chat import CompletionJoiner, completion_to_chunks, sse, text_of
from app.protocol.sse import SseEvent, SseReader
from app.upstream.reply import Reply

MAX_PLAIN_BYTES = 256 * 1024 * 1024
"""Largest plain answer that is read."""


@dataclass(frozen=True, slots=True)
class RoundAnswer:
    """What the upstream said in one round. ``native_calls``: it asked for function calls that are the client's (D3)."""

    text: str
    finish_reasons: dict[int, str]
    usage: Mapping[str, Any] | None
    native_calls: bool


async def read_stream(
    reply: Reply,
    calls: RoundCalls,
    renderer: Renderer,
    answer: AnswerState,
    first_token: Callable[[], None],
    *,
    forward_usage: bool,
) -> RoundAnswer:
    """Pass a streamed answer on as it comes; a plain answer to a stream request is made into chunks (B23)."""
    reader = RoundReader(answer, first_token, forward_usage=forward_usage)
    if reply.is_event_stream:
        source = SseReader()
        while not reader.done:
            block = await reply.read_some()
            await _pass_on(source.feed(block) if block else source.finish(), reader, calls, renderer)
            if not block:
                break
    else:
        completion = _parsed(await reply.read_all(MAX_PLAIN_BYTES))
        if completion is None or not isinstance(completion.get("choices"), list):
            raise UpstreamBrokenError("the upstream answered neither with an event stream nor with a completion")
        chunks = (dumps(chunk) for chunk in completion_to_chunks(completion))
        events = [SseEvent(data, sse(data), "") for data in chunks]
        await _pass_on(events, reader, calls, renderer)
    calls.finish()
    return RoundAnswer(reader.text, reader.finish_reasons, reader.usage, reader.native_calls)


async def _pass_on(events: list[SseEvent], reader: RoundReader, calls: RoundCalls, renderer: Renderer) -> None:
    out = []
    try:
        for event in events:
            forward = reader.take(event)
            if forward is not None:
                out.append(forward)
            if reader.done:
                break
    finally:
        if reader.new_text:
            calls.feed("".join(reader.new_text))
            reader.new_text.clear()
        if out:
            await renderer.forward(b"".join(out))


async def read_plain(
    reply: Reply, calls: RoundCalls, renderer: Renderer, first_token: Callable[[], None]
) -> RoundAnswer:
    """Read a plain answer; an event stream that came in its place is joined to one (P25)."""
    if reply.is_event_stream:
        completion: dict[str, Any] | None = await _joined(reply)
        text = _content(completion)
    else:
        data = await reply.read_all(MAX_PLAIN_BYTES)
        completion = _parsed(data)
        if completion is not None and "error" in completion and not completion.get("choices"):
            raise UpstreamStatusError(reply.status, data, content_type=reply.content_type)
        text = _content(completion) if completion is not None else data.decode("utf-8", "replace")
    first_token()
    calls.feed(text)
    calls.finish()
    await renderer.completion(completion, text)
    return RoundAnswer(text, *_facts(completion))


async def _joined(reply: Reply) -> dict[str, Any]:
    source, joiner, size = SseReader(), CompletionJoiner(), 0
    while True:
        block = await reply.read_some()
        size += len(block)
        if size > MAX_PLAIN_BYTES:
            raise UpstreamBrokenError(f"the upstream's reply is longer than {MAX_PLAIN_BYTES} bytes")
        for event in source.feed(block) if block else source.finish():
            chunk = _parsed(event.data)
            if chunk is None:
                continue
            if chunk.get("error") and not chunk.get("choices"):
                raise UpstreamStatusError(reply.status, event.data, content_type="application/json")
            joiner.feed(chunk)
        if not block:
            return joiner.completion()


def _parsed(data: bytes) -> dict[str, Any] | None:
    try:
        value = loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _choices(completion: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    choices = completion.get("choices") if completion is not None else None
    return [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []


def _message(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    message = choice.get("message")
    return message if isinstance(message, Mapping) else {}


def _content(completion: Mapping[str, Any] | None) -> str:
    choices = _choices(completion)
    text = text_of(_message(choices[0]).get("content")) if choices else ""
    if len(text) > MAX_REPLY_CHARS:
        raise UpstreamBrokenError(f"the upstream's reply is longer than {MAX_REPLY_CHARS} characters")
    return text


def _facts(completion: Mapping[str, Any] | None) -> tuple[dict[int, str], Mapping[str, Any] | None, bool]:
    reasons: dict[int, str] = {}
    native = False
    for position, choice in enumerate(_choices(completion)):
        index = choice.get("index", position)
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and isinstance(index, int):
            reasons[index] = finish
        native = native or (position == 0 and bool(_message(choice).get("tool_calls")))
    usage = completion.get("usage") if completion is not None else None
    return reasons, usage if isinstance(usage, Mapping) else None, native
