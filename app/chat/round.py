"""Reading one upstream answer, streamed or plain, whichever was asked for and whichever came."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from app.chat.calls import RoundCalls
from app.chat.payload import dumps, loads
from app.chat.reading import MAX_REPLY_CHARS, RoundReader
from app.errors import UpstreamBrokenError, UpstreamError, UpstreamStatusError, both
from app.extend import NativeIntake
from app.protocol.chat import DONE_DATA, CompletionJoiner, completion_to_chunks, sse, text_of
from app.protocol.half_characters import whole
from app.protocol.sse import SseEvent, SseReader
from app.upstream.reply import Reply

log = logging.getLogger(__name__)

READ_OUT_SECONDS = 0.05
"""How long the end of an answer is waited for after its end mark; a new connection costs more."""

SCAN_SLICE_CHARS = 64 * 1024

MAX_PLAIN_BYTES = 256 * 1024 * 1024
"""Largest plain answer that is read."""


@dataclass(frozen=True, slots=True)
class RoundAnswer:
    """What the upstream said in one round. ``native_calls``: it asked for function calls that are the client's (D3)."""

    text: str
    finish_reasons: dict[int, str]
    usage: Mapping[str, Any] | None
    native_calls: bool


_PASSED_HEADERS = ("x-request-id", "x-ratelimit-", "openai-processing-ms", "retry-after")


def passed_headers(reply: Reply) -> dict[str, str]:
    """The upstream's headers that mean something to a client: request ids and rate limits."""
    return {name: value for name, value in reply.end_to_end_headers() if name.lower().startswith(_PASSED_HEADERS)}


async def read_stream(
    reply: Reply, calls: RoundCalls, reader: RoundReader, forward: Callable[[bytes], Awaitable[None]]
) -> RoundAnswer:
    """Pass a streamed answer on as it comes; a plain answer to a stream request is made into chunks (B23)."""
    if reply.is_event_stream:
        source = SseReader()
        while not reader.done:
            block = await reply.read_some()
            await _pass_on(source.feed(block) if block else source.finish(), reader, calls, forward)
            if not block:
                break
        if reader.done:
            await _read_out(reply)
    else:
        data = await reply.read_all(MAX_PLAIN_BYTES)
        completion = _parsed(data)
        _raise_error_in(completion, reply, data)
        if completion is None or not isinstance(completion.get("choices"), list):
            raise UpstreamBrokenError(
                both(
                    "上游的回答既不是事件流，也不是对话结果",
                    "the upstream answered neither with an event stream nor with a completion",
                )
            )
        chunks = (dumps(chunk) for chunk in completion_to_chunks(completion))
        await _pass_on([SseEvent(data, sse(data), "") for data in chunks], reader, calls, forward)
    held_back = reader.finish()
    calls.feed({"content": reader.take_text()})
    calls.finish()
    if held_back is not None:
        await forward(held_back)
    return RoundAnswer(reader.text, reader.finish_reasons, reader.usage, reader.native_calls)


async def _read_out(reply: Reply) -> None:
    """Read what follows the end mark, mostly nothing: only an answer read to its end leaves its connection in use."""
    try:
        async with asyncio.timeout(READ_OUT_SECONDS):
            while await reply.read_some():
                continue
    except (TimeoutError, UpstreamError) as error:
        log.debug("an upstream did not end its answer after its end mark: %s", error)


async def _pass_on(
    events: list[SseEvent], reader: RoundReader, calls: RoundCalls, forward: Callable[[bytes], Awaitable[None]]
) -> None:
    out = []
    try:
        for event in events:
            passed = reader.take(event)
            if passed is not None:
                out.append(passed)
            if reader.done:
                break
    finally:  # what came before a fault belongs to the client
        if reader.has_news:
            calls.feed({"content": reader.take_text()})
        if out:
            await forward(b"".join(out))


async def read_plain(
    reply: Reply, calls: RoundCalls, first_token: Callable[[], None]
) -> tuple[RoundAnswer, dict[str, Any] | None]:
    """Read a plain answer; an event stream that came in its place is joined to one (P25).

    The completion is None when the answer is no JSON object; then all of it is text.
    """
    completion: dict[str, Any] | None
    if reply.is_event_stream:
        completion = await _joined(reply)
        text = _content(completion)
    else:
        data = await reply.read_all(MAX_PLAIN_BYTES)
        completion = _parsed(data)
        _raise_error_in(completion, reply, data)
        text = _content(completion) if completion is not None else data.decode("utf-8", "replace")
    if len(text) > MAX_REPLY_CHARS:
        raise UpstreamBrokenError(
            both(
                f"上游的回答超过 {MAX_REPLY_CHARS} 个字符",
                f"the upstream's reply is longer than {MAX_REPLY_CHARS} characters",
            )
        )
    first_token()
    for start in range(0, len(text), SCAN_SLICE_CHARS):
        calls.feed({"content": text[start : start + SCAN_SLICE_CHARS]})
        await asyncio.sleep(0)  # other turns go on while a huge reply is scanned
    if calls.native is not None:
        _take_ours(completion, calls.native)
    calls.finish()
    return RoundAnswer(text, *_facts(completion)), completion


def _take_ours(completion: Mapping[str, Any] | None, native: NativeIntake) -> None:
    """Take function calls of ours out of a completion, with what it says of them."""
    for position, choice in enumerate(choices_of(completion)):
        index = choice.get("index", position)
        if not isinstance(index, int):
            continue
        message = choice.get("message")
        if isinstance(message, dict) and native.take_whole(index, message) and not message.get("tool_calls"):
            message["content"] = message.get("content") or ""  # clients want a string where there are no calls
        if isinstance(reason := choice.get("finish_reason"), str):
            choice["finish_reason"] = native.finish_reason(index, reason)


async def _joined(reply: Reply) -> dict[str, Any]:
    source, joiner, size, ended = SseReader(), CompletionJoiner(), 0, False
    while not ended:
        block = await reply.read_some()
        size += len(block)
        if size > MAX_PLAIN_BYTES:
            raise UpstreamBrokenError(
                both(
                    f"上游的回答超过 {MAX_PLAIN_BYTES} 字节",
                    f"the upstream's reply is longer than {MAX_PLAIN_BYTES} bytes",
                )
            )
        for event in source.feed(block) if block else source.finish():
            if event.data.strip() == DONE_DATA:
                ended = True
                break
            chunk = _parsed(event.data)
            if chunk is not None:
                _raise_error_in(chunk, reply, event.data)
                joiner.feed(chunk)
        ended = ended or not block
    # Written and read once more, the halves of a character that came in two chunks are one.
    completion: dict[str, Any] = loads(dumps(joiner.completion()))
    return completion


def _raise_error_in(value: Mapping[str, Any] | None, reply: Reply, data: bytes) -> None:
    """An error under status 200 is an error."""
    if value is not None and value.get("error"):
        raise UpstreamStatusError(reply.status, data, content_type="application/json")


def _parsed(data: bytes) -> dict[str, Any] | None:
    try:
        value = loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def choices_of(completion: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The choices of a completion, as far as they are objects."""
    choices = completion.get("choices") if completion is not None else None
    return [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []


def _message(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    message = choice.get("message")
    return message if isinstance(message, Mapping) else {}


def first_message(completion: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The message of the first choice; empty when there is none."""
    choices = choices_of(completion)
    return _message(choices[0]) if choices else {}


def _content(completion: Mapping[str, Any]) -> str:
    return whole(text_of(first_message(completion).get("content")))


def _facts(completion: Mapping[str, Any] | None) -> tuple[dict[int, str], Mapping[str, Any] | None, bool]:
    reasons: dict[int, str] = {}
    for position, choice in enumerate(choices_of(completion)):
        index = choice.get("index", position)
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish and isinstance(index, int):
            reasons[index] = finish
    message = first_message(completion)
    native = bool(message.get("tool_calls") or message.get("function_call"))
    usage = completion.get("usage") if completion is not None else None
    return reasons, usage if isinstance(usage, Mapping) else None, native
