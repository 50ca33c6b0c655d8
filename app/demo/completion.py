"""OpenAI chat completions of the demo model: whole, or as paced events that notice when the client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.demo.replies import DemoReply
from app.extend import Json

PIECE_SIZES = (1, 2, 3, 5, 7)
"""Characters per streamed piece, in turn: small and odd, so that every marker tears."""

BYTES_PER_TOKEN = 4
"""The demo counts a token for every four bytes of UTF-8 that were begun; it has no real tokens."""

Pace = Callable[[float], Awaitable[object]]
"""Waits for so many seconds."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer, ready to be sent.

    ``pieces`` are (seconds to wait first, text), ``calls`` function calls as they stand in a whole message.
    """

    id: str
    created: int
    model: str
    pieces: tuple[tuple[float, str], ...]
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    choices: int = 1
    calls: tuple[Json, ...] = ()

    @property
    def text(self) -> str:
        """The whole reply."""
        return "".join(text for _, text in self.pieces)

    def usage(self) -> Json:
        """The ``usage`` object; every choice counts."""
        written = self.completion_tokens * self.choices
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": written,
            "total_tokens": self.prompt_tokens + written,
        }

    def whole(self) -> Json:
        """The ``chat.completion`` object."""
        message: dict[str, Json] = {"role": "assistant", "content": self.text, "refusal": None}
        if self.calls:
            message["tool_calls"] = list(self.calls)
        return {
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [
                {"index": index, "message": message, "logprobs": None, "finish_reason": self.finish_reason}
                for index in range(self.choices)
            ],
            "usage": self.usage(),
        }

    def chunks(self, include_usage: bool) -> Iterator[tuple[float, Json]]:
        """The ``chat.completion.chunk`` objects, each with the seconds to wait before it."""
        indexes = range(self.choices)
        for index in indexes:
            yield 0, self._chunk(index, {"role": "assistant", "content": ""}, None, include_usage)
        for wait, text in self.pieces:
            for index in indexes:
                yield wait if index == 0 else 0, self._chunk(index, {"content": text}, None, include_usage)
        for delta in self._call_deltas():
            for index in indexes:
                yield 0, self._chunk(index, {"tool_calls": [delta]}, None, include_usage)
        for index in indexes:
            yield 0, self._chunk(index, {}, self.finish_reason, include_usage)
        if include_usage:
            yield 0, {**self._envelope(), "choices": [], "usage": self.usage()}

    def _call_deltas(self) -> Iterator[Json]:
        """The calls in pieces, as most providers send them."""
        for number, call in enumerate(self.calls):
            function = call["function"]
            yield {"index": number, **call, "function": {"name": function["name"], "arguments": ""}}
            for piece in tear(function["arguments"], number):
                yield {"index": number, "function": {"arguments": piece}}

    def _envelope(self) -> dict[str, Json]:
        return {"id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model}

    def _chunk(self, index: int, delta: Json, finish: str | None, with_usage: bool) -> Json:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
        chunk = {**self._envelope(), "choices": [choice]}
        return {**chunk, "usage": None} if with_usage else chunk


def cut_pieces(
    reply: DemoReply, *, start: int, delay: float, slow_delay: float, stop: Sequence[str], max_tokens: int | None
) -> tuple[tuple[tuple[float, str], ...], str]:
    """Cut a reply into timed pieces; returns them and the finish reason.

    ``start`` chooses where the cycle of sizes begins. The reply ends before the first of ``stop``, and with ``length``
    after ``max_tokens``.
    """
    whole = reply.text + "".join(reply.slow_lines)
    end = min((at for at in (whole.find(word) for word in stop) if at >= 0), default=len(whole))
    finish = "stop"
    if max_tokens is not None and count_tokens(whole[:end]) > max_tokens:
        end = len(whole.encode()[: max_tokens * BYTES_PER_TOKEN].decode("utf-8", "ignore"))
        finish = "length"
    timed = [*((delay, text) for text in tear(reply.text, start)), *((slow_delay, line) for line in reply.slow_lines)]
    pieces: list[tuple[float, str]] = []
    for wait, text in timed:
        if end <= 0:
            break
        pieces.append((wait, text[:end]))
        end -= len(text)
    return tuple(pieces), finish


def tear(text: str, start: int) -> Iterator[str]:
    """The text in pieces of ``PIECE_SIZES``, beginning with the ``start``-th size."""
    at = 0
    sizes = islice(cycle(PIECE_SIZES), start % len(PIECE_SIZES), None)
    while at < len(text):
        size = next(sizes)
        yield text[at : at + size]
        at += size


def count_tokens(text: str) -> int:
    """The demo's token count of a text."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


class CompletionResponse(Response):
    """Sends a completion, streamed or whole, and stops at once when the client goes away."""

    def __init__(self, completion: Completion, pace: Pace, *, stream: bool, include_usage: bool = False) -> None:
        super().__init__(media_type="text/event-stream" if stream else "application/json")
        del self.headers["content-length"]  # that of the empty body
        if stream:
            self.headers["cache-control"] = "no-cache"
        self._completion = completion
        self._pace = pace
        self._stream = stream
        self._include_usage = include_usage

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        work = asyncio.ensure_future(self._answer(send))
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (work, gone):
                task.cancel()
            await asyncio.wait((work, gone))
        if not work.cancelled():
            work.result()

    async def _answer(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        if not self._stream:
            for wait, _ in self._completion.pieces:
                await self._pace(wait)
            await send(start)
            await send({"type": "http.response.body", "body": orjson.dumps(self._completion.whole())})
            return
        await send(start)
        for wait, chunk in self._completion.chunks(self._include_usage):
            await self._pace(wait)
            event = b"data: " + orjson.dumps(chunk) + b"\n\n"
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
