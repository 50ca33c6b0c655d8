"""Shapes of the OpenAI chat API: chunks, completions, error objects, and the way from one to the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DONE = b"data: [DONE]\n\n"
"""The event that ends every stream."""

DONE_DATA = b"[DONE]"
"""The data of that event."""

# Fields of a delta that hold a piece of text each.
_TEXT_FIELDS = ("content", "reasoning_content", "reasoning", "refusal", "thinking")
# What has a meaning of its own at the top of a chunk or completion; everything else there is kept as it is.
_OWN_FIELDS = ("choices", "usage", "object")


def sse(data: bytes) -> bytes:
    """``data``, which has no line end in it, as a server-sent event."""
    return b"data: " + data + b"\n\n"


def chunk(
    id: str, model: str, created: int, delta: Mapping[str, Any], finish_reason: str | None, index: int = 0
) -> dict[str, Any]:
    """One ``chat.completion.chunk`` with one choice; ``created`` in seconds since the epoch."""
    return {
        "id": id,
        "object": "chat.completion.chunk",
        "created": created,
        "model": model,
        "choices": [{"index": index, "delta": dict(delta), "finish_reason": finish_reason}],
    }


def completion(
    id: str,
    model: str,
    created: int,
    content: str | None,
    finish_reason: str | None,
    *,
    usage: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """One ``chat.completion`` with one choice; ``created`` in seconds since the epoch."""
    body: dict[str, Any] = {
        "id": id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish_reason}],
    }
    if usage is not None:
        body["usage"] = dict(usage)
    return body


def error_object(message: str, type: str, code: str | int | None, param: str | None = None) -> dict[str, Any]:
    """An error as the OpenAI API writes it (D26)."""
    return {"error": {"message": message, "type": type, "param": param, "code": code}}


def text_of(content: Any, separator: str = "") -> str:
    """The text of a message's ``content``: the string itself, the text parts of a list, or nothing."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Mapping) and part.get("type") in ("text", "output_text", None):
            text = part.get("text")
            if isinstance(text, str):
                texts.append(text)
    return separator.join(texts)


class CompletionJoiner:
    """Joins the chunks of a streamed answer into one completion (P25).

    Odd shapes are tolerated: what is not understood is left out or, at the top level, kept as first seen. Providers
    that repeat ``id`` or name in every piece of a native tool call are understood (P21). Text pieces are joined at the
    end, so time stays linear.
    """

    def __init__(self) -> None:
        self._top: dict[str, Any] = {}
        self._usage: Any = None
        self._choices: dict[int, _Choice] = {}

    def feed(self, chunk: Mapping[str, Any]) -> None:
        """Take the next chunk."""
        for name, value in chunk.items():
            if name not in _OWN_FIELDS and value is not None:
                self._top.setdefault(name, value)
        if chunk.get("usage") is not None:
            self._usage = chunk["usage"]
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, Mapping):
                index = choice.get("index")
                self._choices.setdefault(index if isinstance(index, int) else 0, _Choice()).feed(choice)

    def completion(self) -> dict[str, Any]:
        """What has arrived so far as one ``chat.completion``. ``finish_reason`` is null when none has been seen."""
        top = dict(self._top)
        body: dict[str, Any] = {
            "id": top.pop("id", ""),
            "object": "chat.completion",
            "created": top.pop("created", 0),
            "model": top.pop("model", ""),
            "choices": [self._choices[index].joined(index) for index in sorted(self._choices)],
        }
        if self._usage is not None:
            body["usage"] = self._usage
        return body | top


class _Choice:
    """One choice on its way to be whole."""

    def __init__(self) -> None:
        self._role = "assistant"
        self._texts: dict[str, list[str]] = {}
        self._other: dict[str, Any] = {}
        self._calls: dict[int, _Call] = {}
        self._function: _Call | None = None  # the older form of a native call
        self._logprobs: dict[str, list[Any]] = {}
        self._finish: Any = None
        self._extra: dict[str, Any] = {}

    def feed(self, choice: Mapping[str, Any]) -> None:
        delta = choice.get("delta")
        if not isinstance(delta, Mapping):
            # Some servers send the whole message once; behind deltas it would double the text.
            message = choice.get("message")
            delta = message if isinstance(message, Mapping) and not self._texts and not self._calls else {}
        for name, value in delta.items():
            self._field(name, value)
        if choice.get("finish_reason") is not None:
            self._finish = choice["finish_reason"]
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, Mapping):
            for name, entries in logprobs.items():
                if isinstance(entries, list):
                    self._logprobs.setdefault(name, []).extend(entries)
        for name, value in choice.items():
            if name not in ("index", "delta", "message", "finish_reason", "logprobs") and value is not None:
                self._extra[name] = value

    def joined(self, index: int) -> dict[str, Any]:
        texts = {name: "".join(pieces) for name, pieces in self._texts.items()}
        calls = [self._calls[place].joined() for place in sorted(self._calls)]
        content = texts.pop("content", None if calls or self._function else "")
        message: dict[str, Any] = {"role": self._role, "content": content} | texts | self._other
        if calls:
            message["tool_calls"] = calls
        if self._function is not None:
            message["function_call"] = self._function.joined()["function"]
        choice: dict[str, Any] = {"index": index, "message": message, "finish_reason": self._finish}
        if self._logprobs:
            choice["logprobs"] = self._logprobs
        return choice | self._extra

    def _field(self, name: str, value: Any) -> None:
        if value is None:
            return
        if name == "role":
            self._role = value
        elif name == "content" and isinstance(value, list):
            self._texts.setdefault(name, []).append(text_of(value))
        elif name in _TEXT_FIELDS and isinstance(value, str):
            self._texts.setdefault(name, []).append(value)
        elif name == "tool_calls" and isinstance(value, list):
            for piece in value:
                if isinstance(piece, Mapping):
                    self._call(piece)
        elif name == "function_call" and isinstance(value, Mapping):
            self._function = self._function or _Call()
            self._function.feed({"function": value})
        elif isinstance(value, list):
            known = self._other.get(name)
            if isinstance(known, list):
                known.extend(value)
            else:
                self._other[name] = list(value)  # a list of our own: it grows
        else:
            self._other[name] = value

    def _call(self, piece: Mapping[str, Any]) -> None:
        place = piece.get("index")
        if not isinstance(place, int):
            # Without an index a new id begins a new call, everything else belongs to the last one.
            id = piece.get("id")
            last = max(self._calls, default=-1)
            known = [number for number, call in self._calls.items() if id and call.id == id]
            place = known[0] if known else last + 1 if id or last < 0 else last
        self._calls.setdefault(place, _Call()).feed(piece)


class _Call:
    """One native tool call on its way to be whole."""

    def __init__(self) -> None:
        self.id = ""
        self._type = "function"
        self._name = ""
        self._arguments: list[str] = []
        self._other: dict[str, Any] = {}

    def feed(self, piece: Mapping[str, Any]) -> None:
        self.id = self.id or piece.get("id") or ""
        self._type = piece.get("type") or self._type
        function = piece.get("function")
        if isinstance(function, Mapping):
            self._name = self._name or function.get("name") or ""
            arguments = function.get("arguments")
            if isinstance(arguments, str):
                self._arguments.append(arguments)
        for name, value in piece.items():
            if name not in ("index", "id", "type", "function") and value is not None:
                self._other[name] = value

    def joined(self) -> dict[str, Any]:
        function = {"name": self._name, "arguments": "".join(self._arguments)}
        return {"id": self.id, "type": self._type, "function": function} | self._other


def completion_to_chunks(completion: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The chunks of a stream that says what the completion says: for each choice one with the whole message and one
    with its finish, then one with the usage if there is any (4.7). Joining them gives the completion back.
    """
    top = {name: value for name, value in completion.items() if name not in _OWN_FIELDS}
    top["object"] = "chat.completion.chunk"
    chunks: list[dict[str, Any]] = []
    choices = completion.get("choices")
    for place, choice in enumerate(choices if isinstance(choices, list) else ()):
        if not isinstance(choice, Mapping):
            continue
        index = choice.get("index", place)
        message = choice.get("message")
        delta = {"role": "assistant", **(message if isinstance(message, Mapping) else {})}
        calls = delta.get("tool_calls")
        if isinstance(calls, list):
            delta["tool_calls"] = [
                {**call, "index": number} for number, call in enumerate(calls) if isinstance(call, Mapping)
            ]
        extra = {name: value for name, value in choice.items() if name not in ("index", "message", "finish_reason")}
        chunks.append({**top, "choices": [{"index": index, "delta": delta, "finish_reason": None} | extra]})
        finish = {"index": index, "delta": {}, "finish_reason": choice.get("finish_reason")}
        chunks.append({**top, "choices": [finish]})
    if completion.get("usage") is not None:
        chunks.append({**top, "choices": [], "usage": completion["usage"]})
    return chunks
