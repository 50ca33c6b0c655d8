"""What the canned model says: the model's name tells it how, so that no side needs further agreement."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

PREFIX = "canned"
PIECE = "measured words "
"""Content of every chunk; about what a provider sends for a few tokens."""

TOOL_BLOCK = (
    "<<<[TOOL_REQUEST]>>>\ntool_name:「始」SciCalculator「末」,\nexpression:「始」12*7「末」\n<<<[END_TOOL_REQUEST]>>>"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """How a reply comes: so many chunks of content, so many microseconds apart (0: each as soon as possible).

    ``whole`` writes all of them at once. ``tool`` calls the calculator first and answers when its result is there.
    """

    chunks: int
    gap: int = 0
    whole: bool = False
    tool: bool = False

    @property
    def model(self) -> str:
        """The model name that asks for this shape."""
        return f"{PREFIX}-{self.chunks}-{self.gap}-{int(self.whole)}-{int(self.tool)}"

    @classmethod
    def of(cls, model: str) -> Shape:
        """The shape that a model name asks for; ``ValueError`` for any other name."""
        prefix, chunks, gap, whole, tool = model.split("-")
        if prefix != PREFIX:
            raise ValueError(f"not a name of the canned model: {model}")
        return cls(int(chunks), int(gap), whole == "1", tool == "1")


def request_body(shape: Shape, *, stream: bool, prompt: str = "Say something of middling length, please.") -> bytes:
    """A chat request of usual size."""
    messages = [
        {"role": "system", "content": "You are a helpful assistant. " * 8},
        {"role": "user", "content": prompt},
    ]
    return orjson.dumps({"model": shape.model, "messages": messages, "stream": stream, "temperature": 0.7})


def stream_events(shape: Shape, text: str | None = None) -> list[bytes]:
    """The events of a streamed reply, the end mark last; ``text`` in place of the usual content comes in one piece."""
    pieces = [PIECE] * shape.chunks if text is None else [text]
    deltas: list[dict[str, str]] = [{"content": piece} for piece in pieces]
    deltas[0] = {"role": "assistant", **deltas[0]}
    events = [_event(shape, delta, None) for delta in deltas]
    return [*events, _event(shape, {}, "stop"), b"data: [DONE]\n\n"]


def _event(shape: Shape, delta: dict[str, str], finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "chatcmpl-canned", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": shape.model}
    return b"data: " + orjson.dumps({**head, "choices": [choice]}) + b"\n\n"


def completion(shape: Shape, text: str | None = None) -> bytes:
    """The reply as one JSON document."""
    message = {"role": "assistant", "content": PIECE * shape.chunks if text is None else text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    head = {"id": "chatcmpl-canned", "object": "chat.completion", "created": 1_700_000_000, "model": shape.model}
    usage = {"prompt_tokens": 20, "completion_tokens": 3 * shape.chunks, "total_tokens": 20 + 3 * shape.chunks}
    return orjson.dumps({**head, "choices": [choice], "usage": usage})
