"""Rounds and their tools: order of what the client sees, time limits, faulty sources."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.chat.payload import checked_messages
from app.demo.script import Answer, Choice, Hold, Reply, Send, raw_reply, say
from app.demo.scripted import ScriptedUpstream
from app.errors import BadRequestError
from app.extend import CallContext, RoundFinished, ToolCall, ToolResult, ToolSpec
from app.web.chat import parse_object, request_id
from tests.chat.gated_tools import GatedTools
from tests.fixed_tools import FixedTools
from tests.server import call_text, chat_body, run, running, write_plugin

MODES = pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])


def test_results_are_shown_after_the_rounds_text_even_of_tools_that_were_ready_before(tmp_path: Path) -> None:
    async def main() -> None:
        tools = GatedTools("Quick")
        tools.gates["Quick"].set()
        text = call_text("Quick") + " and a long tail"
        held = say(text, sizes=[len(call_text("Quick"))]).streamed()
        whole = b"".join(step.data for step in held.steps if isinstance(step, Send))
        cut = whole.index(b'"content":" and a')
        reply = Reply((Send(whole[:cut]), Hold(), Send(whole[cut:])))
        async with (
            ScriptedUpstream([reply, say("end")]) as up,
            running(tmp_path, up.base_url, config=["ShowVCP=true"], sources=[tools]) as server,
        ):
            asking = asyncio.create_task(server.stream("x"))
            await tools.ended["Quick"].wait()
            up.release()
            got = await asking
            head, _, rest = got.text.partition("\n[[VCP调用结果信息汇总:")
            assert head == text
            assert rest.endswith("\n]]\n\nend")

    run(main())


@MODES
def test_a_tool_over_its_time_limit_is_told_to_the_model_and_the_chat_goes_on(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        write_plugin(
            tmp_path, "Late", "import time; time.sleep(60)", communication={"protocol": "stdio", "timeout": 100}
        )
        script = [say(call_text("Late")), say("end")]
        async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url) as server:
            assert (await server.chat("x", stream=stream)).status_code == 200
            (part,) = up.bodies[1]["messages"][-1]["content"]
            assert part["text"].startswith('来自工具 "Late" 的结果:\n执行插件 Late 时发生错误：')
            assert "timed out" in part["text"]

    run(main())


class Faulty(FixedTools):
    """A tool source that breaks its contract."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(ToolSpec("Faulty", "test", "Faulty"))
        self._error = error

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        started()
        raise self._error


@pytest.mark.parametrize("error", [RuntimeError("inside"), asyncio.CancelledError(), TimeoutError()])
@MODES
def test_a_source_that_raises_stops_neither_the_other_calls_nor_the_chat(
    tmp_path: Path, stream: bool, error: BaseException
) -> None:
    async def main() -> None:
        tools = GatedTools("Good")
        tools.gates["Good"].set()
        script = [say(call_text("Faulty") + call_text("Good")), say("end")]
        sources = [Faulty(error), tools]
        async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url, sources=sources) as server:
            assert "end" in (await server.chat("x", stream=stream)).text
            bad, good = (part["text"] for part in up.bodies[1]["messages"][-1]["content"])
            assert bad.startswith('来自工具 "Faulty" 的结果:\n执行插件 Faulty 时发生错误：')
            assert "Good said" in good

    run(main())


def test_while_a_slow_tool_runs_comments_keep_the_line_open_and_are_no_content(tmp_path: Path) -> None:
    async def main() -> None:
        tools = GatedTools("Slow")
        script = [say(call_text("Slow")), say("end")]
        async with (
            ScriptedUpstream(script) as up,
            running(tmp_path, up.base_url, config=["HeartbeatSeconds=0.02"], sources=[tools]) as server,
            server.client.stream("POST", "/v1/chat/completions", json=chat_body("x", stream=True)) as response,
        ):
            await tools.begun["Slow"].wait()
            lines, beats = [], 0
            async for line in response.aiter_lines():
                lines.append(line)
                beats += line == ": vcp-keepalive"
                if beats == 2:
                    tools.gates["Slow"].set()
            assert beats >= 2
            assert lines[-2] == "data: [DONE]"
            assert not any("vcp-keepalive" in line for line in lines if line.startswith("data:"))

    run(main())


@MODES
def test_only_the_first_choice_is_scanned_and_the_joined_halves_are_fed_back(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        tools = GatedTools("A", "B")
        for gate in tools.gates.values():
            gate.set()
        first = replace(say("").choices[0], text="text " + call_text("A"))
        other = replace(first, text=call_text("B"), finish=None)
        answer = replace(say(""), choices=(first, other))
        async with (
            ScriptedUpstream([answer, say("end", finish="content_filter")]) as up,
            running(tmp_path, up.base_url, sources=[tools]) as server,
        ):
            if stream:
                got = await server.stream("x", n=2)
                # Each choice has one finish, also the one that the upstream left without.
                assert got.finishes == ["content_filter", "stop"]
            else:
                choices = (await server.chat("x", n=2)).json()["choices"]
                assert choices[0]["finish_reason"] == "content_filter"
                assert choices[1]["message"]["content"] == call_text("B")
            assert tools.log == ["A done"]
            assert up.bodies[1]["messages"][1]["content"] == "text " + call_text("A")

    run(main())


def test_chunks_of_our_own_are_known_by_their_ids(tmp_path: Path) -> None:
    async def main() -> None:
        tools = GatedTools("A")
        tools.gates["A"].set()
        config = ["ShowVCP=true", "MaxVCPLoopStream=1", "ApiRetries=1"]
        refusal, broken = raw_reply(b"no", 400), raw_reply(b"no", 500)
        script = [say(call_text("A")), say("end"), say(call_text("A")), say(call_text("A")), refusal, broken]
        async with (
            ScriptedUpstream(script) as up,
            running(tmp_path, up.base_url, config=config, sources=[tools]) as server,
        ):
            for ours in (
                ["chatcmpl-vcp-", "chatcmpl-VCP-separator-", "chatcmpl-VCP-final-stop-"],
                ["chatcmpl-vcp-", "chatcmpl-VCP-separator-", "chatcmpl-VCP-final-length-"],
                ["chatcmpl-VCP-upstream-error-"] * 2,
                ["chatcmpl-VCP-error-"] * 2,
            ):
                ids = [chunk["id"] for chunk in (await server.stream("x")).chunks]
                assert [re.sub(r"\d{13}$", "", id) for id in ids if id != "chatcmpl-scripted"] == ours

    run(main())


@pytest.mark.parametrize("end", ["interrupt", "fault"])
def test_every_choice_has_its_finish_however_the_answer_ends(tmp_path: Path, end: str) -> None:
    async def main() -> None:
        tools = GatedTools("Slow")
        two = Answer((Choice(call_text("Slow")), Choice("other", finish="length")))
        script = [two] if end == "interrupt" else [two, raw_reply(b"no", 400)]
        async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url, sources=[tools]) as server:
            asking = asyncio.create_task(server.stream("x", n=2, requestId="r"))
            await tools.begun["Slow"].wait()
            if end == "interrupt":
                # The tool started while the answer was still on its way.
                while not any(isinstance(event, RoundFinished) for event in server.events):
                    await asyncio.sleep(0.002)
                await server.client.post("/v1/interrupt", json={"requestId": "r"})
            tools.gates["Slow"].set()
            got = await asking
            ends = [(c["index"], c["finish_reason"]) for k in got.chunks for c in k["choices"] if c["finish_reason"]]
            assert ends == [(0, "stop"), (1, "length")]
            assert got.done == 1

    run(main())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not JSON"),
        (b"{oops", "not JSON"),
        (b"\xff\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "object"),
        (b'"text"', "object"),
        (b"{}", "messages"),
        (b'{"messages":{}}', "messages"),
        (b'{"messages":[]}', "messages"),
        (b'{"messages":[{"role":"user"},"x"]}', r"messages\[1\]"),
    ],
)
def test_a_body_that_is_no_chat_is_refused_by_name(data: bytes, said: str) -> None:
    with pytest.raises(BadRequestError, match=said):
        checked_messages(parse_object(data))


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({}, None),
        ({"requestId": "a", "messageId": "b"}, "a"),
        ({"messageId": "b"}, "b"),
        ({"requestId": "", "messageId": "b"}, "b"),
        ({"requestId": None, "messageId": 0}, "0"),
        ({"requestId": 12345678901234567890}, "12345678901234567890"),
        ({"requestId": True}, None),
        ({"requestId": 1.5}, None),
        ({"requestId": ["a"]}, None),
    ],
)
def test_the_id_of_a_request_is_its_first_usable_field(body: dict[str, Any], found: str | None) -> None:
    assert request_id(body) == found
