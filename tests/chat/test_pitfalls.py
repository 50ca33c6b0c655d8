"""The pitfalls of tool requests over a real server: plain, streamed, and torn in the worst places."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.demo.script import Answer, Escape, EventStyle, Received, say
from app.demo.scripted import ScriptedUpstream
from app.extend import CallContext, ToolCall, ToolResult, ToolSpec
from tests.fixed_tools import FixedTools
from tests.server import run, running
from tests.tool_requests import PITFALLS

TORN = EventStyle(newline="\r\n", space=False, escape=Escape.ALL, comment="keep-alive")


class RecordedTools(FixedTools):
    """Tools that answer at once; what they were called with is in ``calls``."""

    def __init__(self, *names: str) -> None:
        super().__init__(*(ToolSpec(name, "test", name) for name in names))
        self.calls: list[tuple[str, dict[str, str]]] = []

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        started()
        self.calls.append((spec.name, dict(call.arguments)))
        return ToolResult(structured="ok")


@pytest.mark.parametrize("way", ["plain", "streamed", "torn"])
def test_each_pitfall_ends_the_same_however_the_reply_comes(tmp_path: Path, way: str) -> None:
    async def main() -> None:
        tools = RecordedTools("A", "B", "Echo")

        def script(request: Received) -> Answer:
            if request.json["messages"][-1]["content"] != "go":
                return say("end")
            text = PITFALLS[len(ended)][0]
            return say(text, sizes=(1,), style=TORN, block=61) if way == "torn" else say(text)

        ended: list[str] = []
        async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url, sources=[tools]) as server:
            for text, expected in PITFALLS:
                if way == "plain":
                    said = (await server.chat("go")).json()["choices"][0]["message"]["content"]
                else:
                    got = await server.stream("go")
                    assert (got.done, got.finishes) == (1, ["stop"])
                    said = got.text
                assert said == (text + "\nend" if expected else text)
                assert tools.calls == expected
                tools.calls.clear()
                ended.append(text)
            rounds = sum(2 if expected else 1 for _, expected in PITFALLS)
            assert len(up.requests) == rounds

    run(main())
