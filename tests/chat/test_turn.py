"""The turn over a real server, a scripted upstream and real plugin processes: each input streamed and plain."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.chat.diary_blocks import MAX_BLOCKS
from app.demo.script import Answer, Choice, Escape, EventStyle, Hold, Send, json_reply, native_call, say
from app.demo.scripted import ScriptedUpstream
from app.extend import (
    CallContext,
    CallFinished,
    CallFound,
    CallStarted,
    DiaryWritten,
    Event,
    ToolCall,
    ToolResult,
    TurnFinished,
)
from tests.server import ECHO, Running, call_text, run, running, write_plugin

MODES = pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])

WAITS_FOR_FILE = """
import json, pathlib, sys, time
arguments = json.loads(sys.stdin.read() or "{}")
pathlib.Path(arguments["begun"]).touch()
while not pathlib.Path(arguments["go"]).exists():
    time.sleep(0.005)
print(json.dumps({"status": "success", "result": arguments.get("text", "went on")}))
"""


async def answer(server: Running, stream: bool, *messages: Any, **body: Any) -> tuple[str, str]:
    """Text and finish reason of an answer in either mode, checked to be well formed."""
    if stream:
        got = await server.stream(*messages, **body)
        assert got.status == 200
        assert got.done == 1
        assert len(got.finishes) == 1
        assert got.roles == ["assistant"]
        return got.text, got.finishes[0]
    response = await server.chat(*messages, **body)
    assert response.status_code == 200, response.text
    choice = response.json()["choices"][0]
    return choice["message"]["content"], choice["finish_reason"]


def fed_back(up: ScriptedUpstream, request: int = 2) -> list[Any]:
    """The parts of the message with the tool results."""
    message = up.bodies[request - 1]["messages"][-1]
    assert message["role"] == "user"
    parts: list[Any] = message["content"]
    return parts


def result_in(part: Any) -> Any:
    return json.loads(part["text"].partition("\n")[2])


@MODES
def test_a_tool_is_called_its_result_goes_back_and_the_answer_goes_on(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        first = f"I will echo.\n\n{call_text('Echo', text='你好', maid='Nova')}\n  there"
        async with ScriptedUpstream([say(first), say("It said 你好.")]) as up, running(tmp_path, up.base_url) as server:
            assert await answer(server, stream, "go") == (first + "\nIt said 你好.", "stop")
            messages = up.bodies[1]["messages"]
            assert messages[0] == {"role": "user", "content": "go"}
            assert messages[1] == {"role": "assistant", "content": first}
            (part,) = fed_back(up)
            assert part["type"] == "text"
            assert part["text"].startswith(
                '来自工具 "Echo" 的结果:\n{\n  "original_plugin_output": "你好",\n  "MaidName": "Nova"'
            )
            assert list(result_in(part)) == ["original_plugin_output", "MaidName", "timestamp"]
            assert up.bodies[1].get("stream", False) is stream

    run(main())


@MODES
def test_fields_we_do_not_know_go_upstream_untouched_and_none_is_added(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        async with ScriptedUpstream([say("ok")]) as up, running(tmp_path, up.base_url) as server:
            extra = {"foo": 1, "messageId": "m1", "nested": {"a": [1, 2.5, None, "…"]}, "temperature": 0.1}
            await answer(server, stream, {"role": "user", "content": "x", "name": "n"}, **extra)
            sent = up.bodies[0]
            assert sent == {
                "model": "m",
                "messages": [{"role": "user", "content": "x", "name": "n"}],
                **({"stream": True} if stream else {}),
                **extra,
            }
            headers = up.requests[0].headers
            assert headers["authorization"] == "Bearer upstream-key"
            assert headers["content-type"] == "application/json"

    run(main())


@MODES
def test_results_come_in_call_order_and_blocks_in_completion_order(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Wait", WAITS_FOR_FILE)
        write_plugin(tmp_path, "Echo", ECHO)
        go, begun = tmp_path / "go", tmp_path / "begun"
        first = call_text("Wait", go=go, begun=begun) + call_text("Echo", text="opened")
        script = [say(first), say("end")]
        async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url, config=["ShowVCP=true"]) as server:

            def let_go(event: Event) -> None:
                if isinstance(event, CallFinished) and event.call.tool == "Echo":
                    go.touch()

            server.services.events.listen(let_go)
            text, _ = await answer(server, stream, "x")
            assert [result_in(part)["original_plugin_output"] for part in fed_back(up)] == ["went on", "opened"]
            assert text.index("工具名称: Echo") < text.index("工具名称: Wait") < text.index("end")
            assert (
                "\n[[VCP调用结果信息汇总:\n- 工具名称: Echo\n- 执行状态: ✅ SUCCESS\n- 返回内容: opened\n]]\n" in text
            )

    run(main())


def test_a_tool_starts_while_the_model_is_still_writing(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Wait", WAITS_FOR_FILE)
        begun, go = tmp_path / "begun", tmp_path / "go"
        go.touch()
        text = call_text("Wait", go=go, begun=begun) + "tail"
        held = say(text, sizes=(len(text) - 4,)).streamed()
        whole = b"".join(step.data for step in held.steps if isinstance(step, Send))
        cut = whole.index(b'"content":"tail')
        reply = replace(held, steps=(Send(whole[:cut]), Hold(), Send(whole[cut:])))
        async with ScriptedUpstream([reply, say("end")]) as up, running(tmp_path, up.base_url) as server:
            task = asyncio.create_task(answer(server, True, "x"))
            while not begun.exists():
                await asyncio.sleep(0.002)
            assert not up.exchanges[0].served
            up.release()
            assert (await task)[0] == text + "\nend"
            (started,) = [event for event in server.events if isinstance(event, CallStarted)]
            assert started.eager

    run(main())


def test_with_eager_tools_off_nothing_starts_before_the_reply_has_ended(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        script = [say(call_text("Echo") + "tail"), say("end")]
        async with (
            ScriptedUpstream(script) as up,
            running(tmp_path, up.base_url, config=["EagerTools=false"]) as server,
        ):
            await answer(server, True, "x")
            names = [type(event).__name__ for event in server.events]
            assert names.index("RoundFinished") < names.index("CallStarted")
            assert not any(event.eager for event in server.events if isinstance(event, CallStarted))

    run(main())


@pytest.mark.parametrize(
    ("escape", "newline", "space", "block"),
    [
        *((escape, "\n", True, 1 if escape is Escape.NONE else 7) for escape in Escape),
        (Escape.NONE, "\r\n", False, 7),
        (Escape.ALL, "\r\n", True, 1),
    ],
)
def test_calls_are_found_however_the_upstream_writes_its_stream(
    tmp_path: Path, escape: Escape, newline: str, space: bool, block: int
) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        text = f"汉字 😀 {call_text('Echo', text='「😀」汉')} \u2028 end"
        style = EventStyle(newline=newline, space=space, escape=escape, comment="OPENROUTER PROCESSING")
        script = [say(text, sizes=(1,), style=style, block=block), say("done", style=style)]
        async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url) as server:
            got = await server.stream("x")
            assert got.text == text + "\ndone"
            assert "\ufffd" not in got.raw
            assert "OPENROUTER" not in got.text
            assert (got.done, got.finishes, got.roles) == (1, ["stop"], ["assistant"])
            assert result_in(fed_back(up)[0])["original_plugin_output"] == "「😀」汉"

    run(main())


@MODES
def test_a_failing_tool_is_told_to_the_model_and_the_chat_goes_on(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "No", 'print(\'{"status": "error", "error": "no such city"}\')')
        text = call_text("No", x="1") + call_text("Gone") + call_text("Crash")
        write_plugin(tmp_path, "Crash", 'import sys; print("boom", file=sys.stderr); sys.exit(3)')
        async with ScriptedUpstream([say(text), say("sorry")]) as up, running(tmp_path, up.base_url) as server:
            assert (await answer(server, stream, "x"))[0].endswith("\nsorry")
            no, gone, crash = (part["text"] for part in fed_back(up))
            head = '来自工具 "No" 的结果:\n执行插件 No 时发生错误：'
            assert no.startswith(head)
            assert json.loads(no.removeprefix(head))["plugin_error"] == "no such city"
            assert gone == '错误：未找到名为 "Gone" 的插件。'
            error = json.loads(crash.partition("发生错误：")[2])["plugin_execution_error"]
            assert "exited with code 3" in error
            assert "Stderr: boom" in error

    run(main())


@MODES
def test_blocks_in_think_parts_are_never_run_and_logged(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        text = f"<think>maybe {call_text('Echo')}</think> done"
        async with ScriptedUpstream([say(text)]) as up, running(tmp_path, up.base_url) as server:
            assert await answer(server, stream, "x") == (text, "stop")
            (found,) = [event for event in server.events if isinstance(event, CallFound)]
            assert found.skipped_why
            assert not any(isinstance(event, CallStarted) for event in server.events)

    run(main())


@MODES
def test_reasoning_fields_are_passed_on_and_never_scanned(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        async with (
            ScriptedUpstream([say("ok", reasoning=call_text("Echo"))]) as up,
            running(tmp_path, up.base_url) as server,
        ):
            assert await answer(server, stream, "x") == ("ok", "stop")

    run(main())


@MODES
def test_archery_is_not_waited_for_and_its_answer_not_sent(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Wait", WAITS_FOR_FILE)
        begun, go = tmp_path / "begun", tmp_path / "go"
        text = call_text("Wait", archery="no_reply", begun=begun, go=go)
        async with ScriptedUpstream([say(text)]) as up, running(tmp_path, up.base_url) as server:
            assert await answer(server, stream, "x") == (text, "stop")
            assert len(up.requests) == 1
            go.touch()
            while not any(isinstance(event, CallFinished) for event in server.events):
                await asyncio.sleep(0.002)
            (ended,) = [event for event in server.events if isinstance(event, CallFinished)]
            assert ended.result.ok
            assert not ended.muted
            assert "archery" not in ended.call.arguments

    run(main())


@pytest.mark.parametrize(
    ("config", "calls", "finish"),
    [("MaxVCPLoopStream=3", 4, "length"), ("MaxVCPLoopStream=abc", 6, "length"), ("MaxVCPLoopStream=0", 6, "length")],
)
def test_the_round_limit_ends_a_stream(tmp_path: Path, config: str, calls: int, finish: str) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)

        async with (
            ScriptedUpstream(lambda request: say(f"r{request.number} " + call_text("Echo"))) as up,
            running(tmp_path, up.base_url, config=[config]) as server,
        ):
            text, ended = await answer(server, True, "x")
            assert (len(up.requests), ended) == (calls, finish)
            assert all(f"r{number} " in text for number in range(1, calls + 1))
            assert sum(isinstance(event, CallStarted) for event in server.events) == calls - 1

    run(main())


def test_the_round_limit_of_plain_answers_keeps_the_last_reply(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        block = call_text("Echo")
        async with (
            ScriptedUpstream([say(letter + block) for letter in "abcd"]) as up,
            running(tmp_path, up.base_url, config=["MaxVCPLoopNonStream=3"]) as server,
        ):
            text, ended = await answer(server, False, "x")
            assert text == "\n".join(letter + block for letter in "abcd")
            assert (len(up.requests), ended) == (4, "length")
            assert up.bodies[2]["messages"][3] == {"role": "assistant", "content": "\nb" + block}

    run(main())


@MODES
def test_a_reply_without_calls_at_the_limit_ends_with_its_own_reason(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        config = ["MaxVCPLoopStream=1", "MaxVCPLoopNonStream=1"]
        script = [say(call_text("Echo")), say("end", finish="content_filter")]
        async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url, config=config) as server:
            assert (await answer(server, stream, "x"))[1] == "content_filter"

    run(main())


@MODES
def test_calls_beyond_the_limit_of_a_round_are_told_so(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        text = "".join(call_text("Echo", text=str(number)) for number in range(4))
        config = ["MaxToolCallsPerRound=2"]
        async with (
            ScriptedUpstream([say(text), say("end")]) as up,
            running(tmp_path, up.base_url, config=config) as server,
        ):
            await answer(server, stream, "x")
            parts = fed_back(up)
            assert [result_in(part)["original_plugin_output"] for part in parts[:2]] == [0, 1]
            assert all("MaxToolCallsPerRound" in part["text"] and "2" in part["text"] for part in parts[2:])
            assert len(parts) == 4

    run(main())


@MODES
def test_long_results_are_cut_visibly(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Long", 'import json; print(json.dumps({"status": "success", "result": "x" * 5000}))')
        config = ["ToolResultMaxChars=1000"]
        async with (
            ScriptedUpstream([say(call_text("Long")), say("end")]) as up,
            running(tmp_path, up.base_url, config=config) as server,
        ):
            await answer(server, stream, "x")
            text = fed_back(up)[0]["text"]
            assert 1000 < len(text) < 1200
            assert "结果过长，已截断" in text

    run(main())


@MODES
def test_pictures_go_up_as_parts_and_not_into_the_clients_text(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        parts = [
            {"type": "text", "text": "a cat"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
        ]
        result = {"status": "success", "result": {"content": parts, "details": "d"}}
        write_plugin(tmp_path, "Draw", f"print({json.dumps(result)!r})")
        async with (
            ScriptedUpstream([say(call_text("Draw")), say("end")]) as up,
            running(tmp_path, up.base_url, config=["ShowVCP=true"]) as server,
        ):
            text, _ = await answer(server, stream, "x")
            assert fed_back(up) == parts
            assert "QUJD" not in text
            assert "返回内容: a cat" in text

    run(main())


@MODES
def test_native_tool_calls_pass_through_and_end_the_turn(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        native = native_call("call_1", "weather", {"city": "北京"})
        async with (
            ScriptedUpstream([say("", tool_calls=[native], finish="tool_calls")]) as up,
            running(tmp_path, up.base_url) as server,
        ):
            if stream:
                got = await server.stream("x")
                assert got.finishes == ["tool_calls"]
                deltas = [
                    c["delta"]["tool_calls"][0] for k in got.chunks for c in k["choices"] if "tool_calls" in c["delta"]
                ]
                assert (
                    "".join(delta["function"].get("arguments", "") for delta in deltas)
                    == native["function"]["arguments"]
                )
            else:
                choice = (await server.chat("x")).json()["choices"][0]
                assert choice["finish_reason"] == "tool_calls"
                assert choice["message"]["tool_calls"] == [native]
                assert choice["message"]["content"] is None
            assert len(up.requests) == 1

    run(main())


@MODES
def test_text_calls_beside_native_ones_run_but_are_not_fed_back(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        native = native_call("call_1", "weather", {})
        reply = say(call_text("Echo", text="hi"), tool_calls=[native], finish="tool_calls")
        async with ScriptedUpstream([reply]) as up, running(tmp_path, up.base_url, config=["ShowVCP=true"]) as server:
            text, finish = await answer(server, stream, "x")
            assert finish == "tool_calls"
            assert "返回内容: hi" in text
            assert len(up.requests) == 1
            assert [event.result.ok for event in server.events if isinstance(event, CallFinished)] == [True]

    run(main())


def test_of_several_choices_only_the_first_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        two = Answer((Choice(call_text("Echo")), Choice("other " + call_text("Echo"), finish="length")))
        for stream in (True, False):
            async with ScriptedUpstream([two, say("end")]) as up, running(tmp_path, up.base_url) as server:
                if stream:
                    got = await server.stream("x", n=2)
                    by_index = {
                        c["index"]: c["finish_reason"] for k in got.chunks for c in k["choices"] if c["finish_reason"]
                    }
                    assert by_index == {0: "stop", 1: "length"}
                    assert got.finishes == ["stop", "length"]
                    assert got.text == call_text("Echo") + "\nend"
                else:
                    choices = (await server.chat("x", n=2)).json()["choices"]
                    assert [choice["finish_reason"] for choice in choices] == ["stop", "length"]
                    assert choices[1]["message"]["content"] == "other " + call_text("Echo")
                assert up.bodies[0]["n"] == 2
                assert up.bodies[1]["n"] == 1
                assert sum(isinstance(event, CallStarted) for event in server.events) == 1

    run(main())


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("forward", [True, False])
def test_usage_is_summed_into_one_chunk_when_it_was_asked_for(tmp_path: Path, asked: bool, forward: bool) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        usage = {
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "total_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 1},
        }
        script = [say(call_text("Echo"), usage=usage), say("end", usage=usage)]
        config = [f"ForwardRoundUsage={'true' if forward else 'false'}"]
        async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url, config=config) as server:
            body = {"stream_options": {"include_usage": True}} if asked else {}
            got = await server.stream("x", **body)
            summed = {
                "prompt_tokens": 6,
                "completion_tokens": 4,
                "total_tokens": 10,
                "prompt_tokens_details": {"cached_tokens": 2},
            }
            assert got.usages == ([usage, usage] if forward else [summed] if asked else [])
            assert ("stream_options" in up.bodies[0]) is asked
            assert got.finishes == ["stop"]

    run(main())


def test_a_plain_answer_sums_the_usage_of_its_rounds(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        script = [say(call_text("Echo"), usage={"total_tokens": 5}), say("end", usage={"total_tokens": 6})]
        async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url) as server:
            assert (await server.chat("x")).json()["usage"] == {"total_tokens": 11}

    run(main())


@MODES
def test_the_chatvcp_route_shows_results_whatever_the_setting(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Calc", 'print(\'{"status":"success","result":"###计算结果：2###，请将结果转告用户"}\')')
        script = [say(call_text("Calc")), say("end")]
        async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url) as server:
            text, _ = await answer(server, stream, "x", path="/v1/chatvcp/completions")
            assert "- 返回内容: 2\n]]" in text

    run(main())


@MODES
def test_the_head_profile_writes_the_later_formats(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        script = [say(call_text("Echo", text="hi") + call_text("Gone")), say("end")]
        config = ["compat_profile=head", "ShowVCP=true"]
        async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url, config=config) as server:
            text, _ = await answer(server, stream, "x")
            content = up.bodies[1]["messages"][-1]["content"]
            mark, _, parts = content.partition("\n")
            assert mark == "<!-- VCP_TOOL_PAYLOAD -->"
            first, second = json.loads(parts)
            assert json.loads(first["text"])["original_plugin_output"] == "hi"
            assert second["text"] == '[错误] 未找到名为 "Gone" 的插件'
            assert "VCP调用结果结束]]" in text

    run(main())


@MODES
def test_string_true_is_no_stream_and_an_upstream_that_streams_anyway_is_joined(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        script = [lambda request: say("a " + call_text("Echo")).streamed("m"), lambda request: say("b").streamed("m")]
        async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url) as server:
            body = {"stream": "true"} if stream else {}
            response = await server.chat("x", **body)
            assert response.headers["content-type"].startswith("application/json")
            assert response.json()["choices"][0]["message"]["content"] == "a " + call_text("Echo") + "\nb"

    run(main())


def test_a_plain_json_answer_to_a_stream_request_becomes_chunks(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        script = [lambda request: say("a " + call_text("Echo")).whole("m"), lambda request: say("b").whole("m")]
        async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url) as server:
            assert await answer(server, True, "x") == ("a " + call_text("Echo") + "\nb", "stop")

    run(main())


@MODES
def test_diary_blocks_of_a_reply_are_written_and_stay_in_it(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        lines = ("<<<DailyNoteStart>>>", "Maid: [公共]Nova", "Date: 2026.11.30", "Content: A good day.", "Tag: day")
        entry = "\n".join((*lines, "<<<DailyNoteEnd>>>"))
        async with ScriptedUpstream([say(entry)]) as up, running(tmp_path, up.base_url) as server:
            assert (await answer(server, stream, "x"))[0] == entry
            while not any(isinstance(event, DiaryWritten) for event in server.events):
                await asyncio.sleep(0.002)
            (written,) = [event for event in server.events if isinstance(event, DiaryWritten)]
            (file,) = (tmp_path / "dailynote" / "公共").iterdir()
            assert Path(written.file_path) == file
            assert file.read_text(encoding="utf-8").startswith("[2026-11-30] - Nova\nA good day.")

    run(main())


@MODES
def test_a_turn_ends_with_one_event_that_says_how(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        async with (
            ScriptedUpstream([say("ok"), json_reply({"error": {"message": "bad"}}, 400)]) as up,
            running(tmp_path, up.base_url) as server,
        ):
            await answer(server, stream, "x")
            await server.chat("x", stream=stream)
            ends = [event.outcome.value for event in server.events if isinstance(event, TurnFinished)]
            assert ends == ["success", "error"]

    run(main())


@MODES
def test_diary_blocks_that_are_only_thought_or_quoted_in_a_call_are_not_written(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        entry = "<<<DailyNoteStart>>>\nMaid: {}\nDate: 2026.11.30\nContent: x\nTag: day\n<<<DailyNoteEnd>>>"
        text = f"<think>{entry.format('A')}</think>{call_text('Echo', text=entry.format('B'))}{entry.format('C')}"
        async with ScriptedUpstream([say(text), say("end")]) as up, running(tmp_path, up.base_url) as server:
            await answer(server, stream, "x")
            while not any(isinstance(event, DiaryWritten) for event in server.events):
                await asyncio.sleep(0.002)
        assert [folder.name for folder in (tmp_path / "dailynote").iterdir()] == ["C"]

    run(main())


def test_a_reply_full_of_diary_blocks_is_stored_up_to_a_limit_that_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "DailyNoteWrite", ECHO)
        text = "<<<DailyNoteStart>>>\nMaid: A\nDate: 1\nContent: x\n<<<DailyNoteEnd>>>\n" * (MAX_BLOCKS + 3)
        async with ScriptedUpstream([say(text, sizes=(500,))]) as up, running(tmp_path, up.base_url) as server:
            server.services.turn_parts = replace(server.services.turn_parts, call_tool=counted)
            await server.stream("x")
            while len(server.services.background):
                await asyncio.sleep(0.002)
            assert len(calls) == MAX_BLOCKS
            assert "3 diary blocks are over the limit" in caplog.text

    calls: list[ToolCall] = []

    async def counted(call: ToolCall, context: CallContext) -> ToolResult:
        calls.append(call)
        return ToolResult(structured={"message": "Diary saved to x"})

    run(main())
