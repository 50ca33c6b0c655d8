"""Tools and replies for tests of function calls in turns."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.demo.script import Answer, Choice, Reply, events, native_call, say
from app.extend import CallContext, ErrorKind, Json, ToolCall, ToolCommand, ToolResult, ToolSpec
from tests.fixed_tools import FixedTools
from tests.server import Running

NUMBERS: Mapping[str, Json] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}


class Shelf(FixedTools):
    """``Add`` wants two whole numbers, ``Note`` takes anything, ``Draw`` gives a picture, ``Box`` has two commands."""

    def __init__(self) -> None:
        super().__init__(
            ToolSpec("Add", "test", "Add", (ToolCommand("Add", "", "adds", parameters=NUMBERS, typed=True),)),
            ToolSpec("Note", "test", "Note", (ToolCommand("Note", "", "notes"),)),
            ToolSpec("Draw", "test", "Draw"),
            ToolSpec("Box", "test", "Box", (ToolCommand("Open", "", "opens"), ToolCommand("Shut", "", "shuts"))),
            ToolSpec("Shy", "test", "Shy"),
        )
        self.calls: list[ToolCall] = []
        self.contexts: list[CallContext] = []

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        started()
        self.calls.append(call)
        self.contexts.append(context)
        if spec.name == "Add":
            return ToolResult(structured={"sum": call.arguments["a"] + call.arguments.get("b", 0)})
        if spec.name == "Draw":
            return ToolResult(parts=({"type": "text", "text": "a cat"}, PICTURE))
        if spec.name == "Shy":
            return ToolResult(error_kind=ErrorKind.REJECTED, message="no", silent=True)
        return ToolResult(structured=f"{call.tool} done")


def asks(*calls: Json, text: str = "", finish: str | None = "tool_calls", **how: Any) -> Answer:
    """A reply that asks for these calls."""
    return say(text, tool_calls=calls, finish=finish, **how)


def add(id: str = "call_1", **arguments: Json) -> Json:
    return native_call(id, "Add", arguments or {"a": 1, "b": 2})


WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
"""A tool of the client's."""


def weather(id: str = "call_w") -> Json:
    return native_call(id, "weather", {"city": "北京"})


async def answer(server: Running, stream: bool, *messages: Any, **body: Any) -> tuple[str, str, list[Json]]:
    """Text, finish reason and function calls that the client sees; checked to be one well-formed answer."""
    if not stream:
        response = await server.chat(*(messages or ("x",)), **body)
        assert response.status_code == 200, response.text
        choice = response.json()["choices"][0]
        message = choice["message"]
        assert message["content"] is not None or message["tool_calls"]
        return message["content"] or "", choice["finish_reason"], message.get("tool_calls", [])
    got = await server.stream(*(messages or ("x",)), **body)
    assert (got.status, got.done, len(got.finishes), got.roles) == (200, 1, 1, ["assistant"])
    pieces = [piece for k in got.chunks for c in k["choices"] for piece in c["delta"].get("tool_calls") or ()]
    return got.text, got.finishes[0], put_together(pieces)


def put_together(pieces: Sequence[Json]) -> list[Json]:
    """The calls of a stream as clients put them together; their numbers must be 0, 1, …"""
    calls: dict[int, Json] = {}
    for piece in pieces:
        call = calls.setdefault(piece["index"], {"function": {"arguments": ""}})
        call |= {key: value for key, value in piece.items() if key not in ("index", "function")}
        function = dict(piece.get("function") or {})
        arguments = call["function"]["arguments"] + function.pop("arguments", "")
        call["function"] |= {**function, "arguments": arguments}
    assert sorted(calls) == list(range(len(calls)))
    return [calls[index] for index in sorted(calls)]


def deltas(*parts: Json, finish: str = "tool_calls") -> Reply:
    """A stream of these deltas of the first choice."""
    chunks: list[Json] = [
        {"id": "c", "created": 7, "model": "m", "choices": [{"index": 0, "delta": part, "finish_reason": None}]}
        for part in parts
    ]
    return events([*chunks, {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}])


def two_choices(first: Sequence[Json], second: Sequence[Json]) -> Answer:
    """Two choices that each ask for calls."""
    return Answer((Choice("", "", tuple(first), "tool_calls"), Choice("", "", tuple(second), "tool_calls")))


def result_of(message: Json) -> Json:
    """The JSON in a ``tool`` message of the baseline profile."""
    assert message["role"] == "tool"
    return json.loads(message["content"].partition("\n")[2])
