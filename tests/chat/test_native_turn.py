"""Function calls of the model API in whole turns, streamed and plain (D1, D3, D5, D24, D32, D33, D34, D68, D76)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.demo.script import Hold, Reply, Reset, Send, broken, json_reply, native_call, say
from app.demo.scripted import ScriptedUpstream
from app.extend import CallFinished, CallFound, CallStarted, Door, FirstToken, Outcome
from app.protocol import native_calls
from app.tools.auth_code import write_auth_code
from tests.chat.gated_tools import GatedTools
from tests.chat.native_calls import (
    PICTURE,
    WEATHER,
    Shelf,
    add,
    answer,
    asks,
    deltas,
    result_of,
    two_choices,
    weather,
)
from tests.server import call_text, chat_body, run, running, write_plugin
from tests.waiting import until

MODES = pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])
ON = ["NativeTools=on"]
OURS = "NativeToolsAllow=Add,Box.*,Draw,Note,Shy"
"""Without the plugins that come with the program."""


@MODES
def test_a_function_call_of_ours_runs_and_the_client_sees_one_answer_without_it(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        shelf = Shelf()
        usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
        script = [asks(add(), text="Let me see.", usage=usage), say("It is 3.", usage=usage)]
        async with (
            ScriptedUpstream(script) as up,
            running(tmp_path, up.base_url, config=[*ON, OURS], sources=[shelf]) as server,
        ):
            options: dict[str, Any] = {"stream_options": {"include_usage": True}} if stream else {}
            text, finish, calls = await answer(server, stream, "go", **options)
            assert (text, finish, calls) == ("Let me see.\nIt is 3.", "stop", [])
            first, second = up.bodies
            offered = [tool["function"] for tool in first["tools"]]
            names = [function["name"] for function in offered]
            assert names == ["Add", "Box__Open", "Box__Shut", "Draw", "Note", "Shy"]  # D68
            assert offered[0]["parameters"]["properties"] == {"a": {"type": "integer"}, "b": {"type": "integer"}}  # D5
            assert offered[4]["parameters"] == {
                "type": "object",
                "properties": {},
                "additionalProperties": True,
            }  # D70
            assert offered[4]["description"] == "notes"
            assert second["tools"] == first["tools"]
            user, assistant, result = second["messages"]
            assert user == {"role": "user", "content": "go"}
            assert assistant == {"role": "assistant", "content": "Let me see.", "tool_calls": [add()]}  # D76
            assert result["tool_call_id"] == "call_1"
            assert result["content"].startswith('来自工具 "Add" 的结果:\n{\n  "sum": 3')
            assert set(result) == {"role", "tool_call_id", "content"}
            (call,) = shelf.calls
            assert call.arguments == {"a": 1, "b": 2}
            assert shelf.contexts[0].door is (Door.STREAM if stream else Door.NON_STREAM)  # D66
            assert [event.skipped_why for event in server.events if isinstance(event, CallFound)] == [""]

    run(main())


@MODES
def test_with_the_setting_off_the_request_has_not_a_byte_more_and_calls_are_the_clients(
    tmp_path: Path, stream: bool
) -> None:  # D34
    async def main() -> None:
        shelf = Shelf()
        async with (
            ScriptedUpstream([asks(add())]) as up,
            running(tmp_path, up.base_url, sources=[shelf]) as server,
        ):
            body = chat_body("x", **({"stream": True} if stream else {}), tools=[WEATHER])
            assert await answer(server, stream, tools=[WEATHER]) == ("", "tool_calls", [add()])
            assert up.requests[0].body == orjson.dumps(body)
            assert shelf.calls == []

    run(main())


@MODES
@pytest.mark.parametrize("order", ["ours first", "theirs first"])
def test_in_a_mixture_the_clients_calls_win_and_ours_run_with_log_and_block(
    tmp_path: Path, stream: bool, order: str
) -> None:  # D33
    async def main() -> None:
        shelf = Shelf()
        calls = [add(), weather()] if order == "ours first" else [weather(), add()]
        reply = asks(*calls, text="Both." + call_text("Note"))
        async with (
            ScriptedUpstream([reply]) as up,
            running(tmp_path, up.base_url, config=[*ON, "ShowVCP=true"], sources=[shelf]) as server,
        ):
            text, finish, passed = await answer(server, stream, tools=[WEATHER])
            assert finish == "tool_calls"
            assert passed == [weather()]
            assert "工具名称: Add" in text
            assert "工具名称: Note" in text
            assert sorted(call.tool for call in shelf.calls) == ["Add", "Note"]
            assert len(up.requests) == 1
            assert [event.outcome for event in server.events if isinstance(event, CallFinished)] == [
                Outcome.SUCCESS
            ] * 2

    run(main())


@MODES
def test_what_the_client_says_of_its_own_calls_goes_upstream_as_it_came(tmp_path: Path, stream: bool) -> None:  # D33
    async def main() -> None:
        async with (
            ScriptedUpstream([say("ok")]) as up,
            running(tmp_path, up.base_url, config=ON, sources=[Shelf()]) as server,
        ):
            history = [
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": None, "tool_calls": [weather()]},
                {"role": "tool", "tool_call_id": "call_w", "content": "晴"},
            ]
            assert await answer(server, stream, *history, tools=[WEATHER]) == ("ok", "stop", [])
            assert up.bodies[0]["messages"] == history
            assert up.bodies[0]["tools"][0] == WEATHER

    run(main())


@MODES
def test_an_unknown_function_is_passed_on_untouched(tmp_path: Path, stream: bool) -> None:  # D3
    async def main() -> None:
        unknown = native_call("call_u", "nobody_knows", {"x": 1})
        async with (
            ScriptedUpstream([asks(unknown)]) as up,
            running(tmp_path, up.base_url, config=ON, sources=[Shelf()]) as server,
        ):
            assert await answer(server, stream) == ("", "tool_calls", [unknown])

    run(main())


def test_a_function_whose_name_stays_open_until_the_end_reaches_the_client_all_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        open_name = {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "Box"}}]}
        async with (
            ScriptedUpstream([deltas({"role": "assistant"}, open_name)]) as up,
            running(
                tmp_path, up.base_url, config=["NativeTools=on", "NativeToolsAllow=Box.*"], sources=[Shelf()]
            ) as it,
        ):
            text, finish, calls = await answer(it, True)
            assert (text, finish) == ("", "tool_calls")
            assert calls == [{"id": "c", "type": "function", "function": {"name": "Box", "arguments": ""}}]

    run(main())


@MODES
def test_text_calls_and_function_calls_of_one_reply_are_answered_side_by_side(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:  # D76
        shelf = Shelf()
        said = "I do." + call_text("Note", text="t")
        draw = native_call("call_2", "Draw", {})
        async with (
            ScriptedUpstream([asks(add(), draw, text=said), say("end")]) as up,
            running(tmp_path, up.base_url, config=ON, sources=[shelf]) as server,
        ):
            text, finish, calls = await answer(server, stream)
            assert (text, finish, calls) == (said + "\nend", "stop", [])
            _, assistant, sum_, drawn, rest = up.bodies[1]["messages"]
            assert assistant == {"role": "assistant", "content": said, "tool_calls": [add(), draw]}
            assert (sum_["role"], sum_["tool_call_id"]) == ("tool", "call_1")
            assert (drawn["role"], drawn["tool_call_id"]) == ("tool", "call_2")
            # P20: a picture goes where pictures are understood, and its place says so.
            assert drawn["content"].startswith("a cat\n")
            assert "user message" in drawn["content"]
            assert "QUJD" not in drawn["content"]
            assert rest["role"] == "user"
            noted, title, picture = rest["content"]
            assert noted["text"].startswith('来自工具 "Note" 的结果:')
            assert "Draw" in title["text"]
            assert picture == PICTURE

    run(main())


@MODES
def test_the_newer_generation_of_formats_has_its_own_words(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        config = [*ON, "compat_profile=head"]
        async with (
            ScriptedUpstream([asks(add(), text=call_text("Note")), say("end")]) as up,
            running(tmp_path, up.base_url, config=config, sources=[Shelf()]) as server,
        ):
            await answer(server, stream)
            _, _, result, rest = up.bodies[1]["messages"]
            assert json.loads(result["content"])["sum"] == 3
            assert rest["content"].startswith("<!-- VCP_TOOL_PAYLOAD -->\n[")

    run(main())


WRONG = (
    ("Add", "{", "JSON"),
    ("Add", "[1]", "JSON"),
    ("Add", '{"a":NaN}', "JSON"),
    ("Add", '{"a":"many"}', "$.a"),
    ("Add", '{"a":1,"c":2}', "unknown: "),
    ("Add", "", "required but missing: "),
    ("Add", '{"archery":true}', "required but missing: "),
    ("Box__Open", '{"command":"Shut"}', "Shut"),
)


@MODES
def test_what_is_wrong_with_a_call_is_told_to_the_model_in_its_own_answer(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:  # D71
        shelf = Shelf()
        wrong = [
            {"id": f"bad{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for number, (name, arguments, _) in enumerate(WRONG)
        ]
        async with (
            ScriptedUpstream([asks(*wrong, add()), say("end")]) as up,
            running(tmp_path, up.base_url, config=ON, sources=[shelf]) as server,
        ):
            assert await answer(server, stream) == ("end", "stop", [])
            _, assistant, *told, fine = up.bodies[1]["messages"]
            for number, (_, _, said) in enumerate(WRONG):
                assert told[number]["tool_call_id"] == f"bad{number}"
                assert said in told[number]["content"]
                assert "执行插件" in told[number]["content"]
                # What is no object does not stand in the history: upstreams read it there.
                assert isinstance(json.loads(assistant["tool_calls"][number]["function"]["arguments"]), dict)
            assert result_of(fine)["sum"] == 3
            assert [call.tool for call in shelf.calls] == ["Add"]
            ends = [event.outcome for event in server.events if isinstance(event, CallFinished)]
            assert sorted(ends) == ["error"] * len(WRONG) + ["success"]

    run(main())


@pytest.mark.parametrize("arguments", ['{"a":"geheim"}', '"geheim"'])
def test_arguments_that_do_not_fit_are_shown_to_the_model_and_never_logged(
    tmp_path: Path, arguments: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        caplog.set_level("DEBUG", logger="app")
        wrong = {"id": "bad", "type": "function", "function": {"name": "Add", "arguments": arguments}}
        async with (
            ScriptedUpstream([asks(wrong), say("end")]) as up,
            running(tmp_path, up.base_url, config=ON, sources=[Shelf()]) as server,
        ):
            await answer(server, True)
            assert "geheim" in up.bodies[1]["messages"][-1]["content"]
            history = up.bodies[1]["messages"][1]["tool_calls"][0]["function"]["arguments"]
            assert history == (arguments if arguments.startswith("{") else "{}")

    run(main())
    assert "the arguments are wrong" in caplog.text
    assert "geheim" not in caplog.text


@MODES
def test_what_means_a_value_or_none_is_read_as_in_marked_calls_and_names_are_folded(
    tmp_path: Path, stream: bool
) -> None:
    async def main() -> None:  # D4, D5, P86
        shelf = Shelf()
        written: list[dict[str, Any]] = [
            {"A": "41", "b": 1},
            {"a": 1, "b": None},
            {"a": 1, "b": ""},
            {"a": "1", "b": " 2 "},
        ]
        calls = [native_call(f"c{number}", "Add", arguments) for number, arguments in enumerate(written)]
        async with (
            ScriptedUpstream([asks(*calls), say("end")]) as up,
            running(tmp_path, up.base_url, config=ON, sources=[shelf]) as server,
        ):
            await answer(server, stream)
            read = [call.arguments for call in shelf.calls]
            assert read == [{"a": 41, "b": 1}, {"a": 1}, {"a": 1}, {"a": 1, "b": 2}]

    run(main())


@MODES
def test_every_call_has_its_answer_also_a_silent_one_one_without_reply_and_one_over_the_limit(
    tmp_path: Path, stream: bool
) -> None:
    async def main() -> None:  # D76; vcp-core 7.6
        calls = [
            native_call("shy", "Shy", {}),
            native_call("shot", "Note", {"archery": "no_reply"}),
            add("sum"),
            native_call("unfit", "Add", {}),
        ]
        async with (
            ScriptedUpstream([asks(*calls), say("end")]) as up,
            running(tmp_path, up.base_url, config=[*ON, "MaxToolCallsPerRound=3"], sources=[Shelf()]) as server,
        ):
            assert await answer(server, stream) == ("end", "stop", [])
            _, assistant, *told = up.bodies[1]["messages"]
            assert [call["id"] for call in assistant["tool_calls"]] == ["shy", "shot", "sum", "unfit"]
            assert [message["tool_call_id"] for message in told] == ["shy", "shot", "sum", "unfit"]
            contents = [message["content"] for message in told]
            assert "rejected" in contents[0]
            assert "no result follows" in contents[1]
            assert result_of(told[2])["sum"] == 3
            assert "MaxToolCallsPerRound" in contents[3]

    run(main())


@MODES
@pytest.mark.parametrize("name", ["Shy", "Note"])
def test_where_the_model_is_told_nothing_the_answer_ends_and_nobody_waits_for_calls(
    tmp_path: Path, stream: bool, name: str
) -> None:
    async def main() -> None:
        alone = native_call("c", name, {"archery": True} if name == "Note" else {})
        async with (
            ScriptedUpstream([asks(alone, text="Done.")]) as up,
            running(tmp_path, up.base_url, config=ON, sources=[Shelf()]) as server,
        ):
            assert await answer(server, stream) == ("Done.", "stop", [])
            assert len(up.requests) == 1

    run(main())


@MODES
def test_at_the_round_limit_calls_that_are_left_end_the_answer_with_length(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:  # D25
        shelf = Shelf()
        config = [*ON, "MaxVCPLoopStream=1", "MaxVCPLoopNonStream=1"]
        async with (
            ScriptedUpstream([asks(add()), asks(add("call_2"))]) as up,
            running(tmp_path, up.base_url, config=config, sources=[shelf]) as server,
        ):
            assert await answer(server, stream) == ("", "length", [])
            assert len(shelf.calls) == 1

    run(main())


COMMANDING: tuple[dict[str, Any], ...] = (
    {"tools": [WEATHER], "tool_choice": "none"},
    {"tools": [WEATHER], "tool_choice": "required"},
    {"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "weather"}}},
    {"functions": [{"name": "weather"}]},
    {"tools": {"odd": 1}},
)


def test_a_client_that_says_what_the_model_has_to_call_is_not_offered_more(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            ScriptedUpstream([say("ok")] * len(COMMANDING)) as up,
            running(tmp_path, up.base_url, config=ON, sources=[Shelf()]) as server,
        ):
            for body in COMMANDING:
                await answer(server, True, **body)
                sent = up.bodies[-1]
                assert {key: sent[key] for key in sent if key in ("tools", "tool_choice", "functions")} == body

    run(main())


@MODES
def test_the_clients_tools_stay_in_front_untouched_and_keep_their_names(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        shelf = Shelf()
        own = [WEATHER, {"type": "function", "function": {"name": "Add", "strict": True}}]
        fields = {"tools": own, "tool_choice": "auto", "parallel_tool_calls": False}
        config = [*ON, OURS, "NativeToolsMax=4", "NativeToolsDeny=Box.*"]
        async with (
            ScriptedUpstream([asks(add())]) as up,
            running(tmp_path, up.base_url, config=config, sources=[shelf]) as server,
        ):
            assert await answer(server, stream, **fields) == ("", "tool_calls", [add()])
            sent = up.bodies[0]
            assert sent["tools"][:2] == own
            assert [tool["function"]["name"] for tool in sent["tools"][2:]] == ["Draw", "Note"]
            assert (sent["tool_choice"], sent["parallel_tool_calls"]) == ("auto", False)
            assert shelf.calls == []

    run(main())


@MODES
def test_of_several_choices_the_first_goes_on_and_no_other_shows_our_calls(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:  # D32
        shelf = Shelf()
        reply = two_choices([add()], [add("call_2"), weather()])
        only = two_choices([add()], [add("call_2")])
        async with (
            ScriptedUpstream([reply, say("end"), only, say("end")]) as up,
            running(tmp_path, up.base_url, config=ON, sources=[shelf]) as server,
        ):
            for expected in ([weather()], []):
                if stream:
                    got = await server.stream("x", n=2)
                    by_choice: dict[int, list[Any]] = {0: [], 1: []}
                    for choice in (c for k in got.chunks for c in k["choices"]):
                        by_choice[choice["index"]] += choice["delta"].get("tool_calls") or []
                    assert by_choice[0] == []
                    assert [piece["index"] for piece in by_choice[1]] == [0] * len(by_choice[1])
                    assert bool(by_choice[1]) is bool(expected)
                    assert got.finishes == ["stop", "tool_calls" if expected else "stop"]
                else:
                    first, other = (await server.chat("x", n=2)).json()["choices"]
                    assert (first["finish_reason"], first["message"]["content"]) == ("stop", "end")
                    assert "tool_calls" not in first["message"]
                    assert other["message"].get("tool_calls", []) == expected
                    assert other["finish_reason"] == ("tool_calls" if expected else "stop")
                assert up.bodies[-1]["n"] == 1
            assert len(shelf.calls) == 2

    run(main())


def test_a_call_starts_when_the_next_begins_while_the_model_is_still_writing(tmp_path: Path) -> None:
    async def main() -> None:  # D24
        tools = GatedTools("Quick", "Later")
        for gate in tools.gates.values():
            gate.set()
        pieces = [
            {"role": "assistant", "content": "t"},
            {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "Quick", "arguments": "{"}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]},
            {"tool_calls": [{"index": 1, "id": "b", "function": {"name": "Later", "arguments": ""}}]},
        ]
        (whole,) = (step.data for step in deltas(*pieces).steps if isinstance(step, Send))
        cut = whole.index(b'data: {"id":"c","choices":[{"index":0,"delta":{}')
        reply = Reply((Send(whole[:cut]), Hold(), Send(whole[cut:])))
        async with (
            ScriptedUpstream([reply, say("end")]) as up,
            running(tmp_path, up.base_url, config=ON, sources=[tools]) as server,
        ):
            asking = asyncio.create_task(answer(server, True))
            await tools.ended["Quick"].wait()
            assert not tools.begun["Later"].is_set()
            assert not up.exchanges[0].served
            up.release()
            assert await asking == ("t\nend", "stop", [])
            assert [event.eager for event in server.events if isinstance(event, CallStarted)] == [True, True]

    run(main())


def test_text_is_not_held_back_by_calls_and_a_call_counts_as_the_first_token(tmp_path: Path) -> None:
    async def main() -> None:
        both_at_once = {"content": "text", "tool_calls": [{"index": 0, "id": "a", "function": {"name": "Note"}}]}
        first = deltas({"role": "assistant", "content": ""}, both_at_once)
        (whole,) = (step.data for step in first.steps if isinstance(step, Send))
        cut = whole.index(b'data: {"id":"c","choices":[{"index":0,"delta":{}')
        async with (
            ScriptedUpstream([Reply((Send(whole[:cut]), Hold(), Send(whole[cut:]))), say("end")]) as up,
            running(tmp_path, up.base_url, config=ON, sources=[Shelf()]) as server,
            server.client.stream(
                "POST", "/v1/chat/completions", json={"stream": True, "messages": [{"role": "user", "content": "x"}]}
            ) as response,
        ):
            lines = []
            async for line in response.aiter_lines():
                lines.append(line)
                if '"content":"text"' in line:
                    assert not up.exchanges[0].served
                    assert any(isinstance(event, FirstToken) for event in server.events)
                    up.release()
            assert lines[-2] == "data: [DONE]"
            assert not any("tool_calls" in line for line in lines)

    run(main())


@MODES
@pytest.mark.parametrize("how", ["interrupt", "hang-up"])
def test_a_stopped_turn_cancels_its_function_calls(tmp_path: Path, stream: bool, how: str) -> None:
    async def main() -> None:  # D27
        tools = GatedTools("Slow")
        async with (
            ScriptedUpstream([asks(native_call("c", "Slow", {}))]) as up,
            running(tmp_path, up.base_url, config=ON, sources=[tools]) as server,
        ):
            asking = asyncio.create_task(server.chat("x", stream=stream, requestId="r"))
            await tools.begun["Slow"].wait()
            if how == "interrupt":
                await server.client.post("/v1/interrupt", json={"requestId": "r"})
                assert "Slow" not in (await asking).text
            else:
                asking.cancel()
            await tools.ended["Slow"].wait()
            assert tools.log == ["Slow cancelled"]
            await until(lambda: any(isinstance(event, CallFinished) for event in server.events))

    run(main())


def test_a_call_that_has_started_is_cancelled_when_the_upstream_breaks_off(tmp_path: Path) -> None:  # D24
    async def main() -> None:
        tools = GatedTools("Slow")
        reply = asks(native_call("a", "Slow", {}), native_call("b", "Slow", {"x": 1}), text="t").streamed()
        at = reply.promised - 200
        async with (
            ScriptedUpstream([broken(reply, Reset(), at)]) as up,
            running(tmp_path, up.base_url, config=ON, sources=[tools]) as server,
        ):
            got = await server.stream("x")
            assert got.finishes == ["stop"]
            assert "[ERROR]" in got.text
            assert "tool_calls" not in got.raw
            assert set(tools.log) <= {"Slow cancelled"}
            (finished,) = [event for event in server.events if isinstance(event, CallFinished)]
            assert finished.outcome is Outcome.CANCELLED

    run(main())


@MODES
def test_words_that_every_tool_takes_are_no_fault_under_a_closed_schema(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:  # vcp-core 4.2
        shelf = Shelf()
        async with (
            ScriptedUpstream([asks(add(a=1, maid="Nova")), say("end")]) as up,
            running(tmp_path, up.base_url, config=ON, sources=[shelf]) as server,
        ):
            await answer(server, stream)
            assert (shelf.calls[0].maid, shelf.calls[0].arguments) == ("Nova", {"a": 1, "maid": "Nova"})
            assert result_of(up.bodies[1]["messages"][-1])["MaidName"] == "Nova"

    run(main())


@MODES
def test_the_thoughts_before_a_call_and_the_providers_signatures_go_back_with_it(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        signed = {**add(), "extra_content": {"google": {"thought_signature": "s"}}}
        details = [{"type": "reasoning.text", "text": "so"}]
        message = {"role": "assistant", "content": None, "reasoning_content": "hm, so", "reasoning_details": details}
        plain = json_reply({"choices": [{"index": 0, "message": {**message, "tool_calls": [signed]}}]})
        streamed = deltas(
            {"role": "assistant", "reasoning_content": "hm, "},
            {"reasoning_content": "so", "reasoning_details": details},
            {"tool_calls": [{**signed, "index": 0}]},
        )
        async with (
            ScriptedUpstream([streamed if stream else plain, say("end")]) as up,
            running(tmp_path, up.base_url, config=ON, sources=[Shelf()]) as server,
        ):
            await answer(server, stream)
            assert up.bodies[1]["messages"][1] == {**message, "tool_calls": [signed]}

    run(main())


@MODES
def test_ids_that_are_missing_or_the_same_are_made_unique(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        nameless = {"type": "function", "function": {"name": "Note", "arguments": ""}, "id": ""}
        async with (
            ScriptedUpstream([asks(add("same"), add("same"), nameless), say("end")]) as up,
            running(tmp_path, up.base_url, config=ON, sources=[Shelf()]) as server,
        ):
            await answer(server, stream)
            _, assistant, *told = up.bodies[1]["messages"]
            ids = [call["id"] for call in assistant["tool_calls"]]
            assert ids[0] == "same"
            assert len(set(ids)) == 3
            assert all(ids)
            assert [message["tool_call_id"] for message in told] == ids
            assert assistant["tool_calls"][2]["function"]["arguments"] == "{}"

    run(main())


@MODES
def test_an_upstream_that_answers_in_the_other_form_is_understood(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:  # P25, B23
        first = asks(add(), weather())
        reply = first.whole() if stream else first.streamed()
        async with (
            ScriptedUpstream([reply]) as up,
            running(tmp_path, up.base_url, config=ON, sources=[Shelf()]) as server,
        ):
            text, finish, calls = await answer(server, stream)
            assert (text, finish, calls) == ("", "tool_calls", [weather()])

    run(main())


@MODES
def test_a_reply_with_more_calls_than_make_sense_ends_readably(
    tmp_path: Path, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_calls, "MAX_CALLS", 40)

    async def main() -> None:
        flood = asks(*(native_call(f"c{number}", "nobody", {}) for number in range(41)), sizes=(1000,))
        async with (
            ScriptedUpstream([flood]) as up,
            running(tmp_path, up.base_url, config=ON, sources=[Shelf()]) as server,
        ):
            response = await server.chat("x", stream=stream)
            assert "40 function calls" in response.text
            assert (response.status_code == 200) is stream

    run(main())


@MODES
def test_the_hourly_code_can_be_given_with_a_function_call(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:  # vcp-core 4.5, D30
        shelf = Shelf()
        async with (
            ScriptedUpstream(
                lambda received: (
                    say("end")
                    if received.number % 2 == 0
                    else asks(native_call("c", "Add", {"a": 1, "tool_password": code if received.number > 2 else "no"}))
                )
            ) as up,
            running(tmp_path, up.base_url, config=[*ON, OURS, "VCPToolCode=true"], sources=[shelf]) as server,
        ):
            write_auth_code(tmp_path)
            code = server.services.auth_code() or ""
            await answer(server, stream)
            assert shelf.calls == []
            assert "tool_password" in up.bodies[1]["messages"][-1]["content"]
            properties = up.bodies[0]["tools"][0]["function"]["parameters"]["properties"]
            assert list(properties) == ["tool_password", "a", "b"]
            await answer(server, stream)
            assert [call.arguments for call in shelf.calls] == [{"a": 1}]

    run(main())


def test_a_real_plugin_gets_texts_and_its_maid_is_named(tmp_path: Path) -> None:
    async def main() -> None:  # D39; vcp-core 4.6
        write_plugin(
            tmp_path,
            "Tell",
            """
            import json, sys
            print(json.dumps({"status": "success", "result": json.loads(sys.stdin.read())}))
            """,
            capabilities={"invocationCommands": [{"command": "tell", "description": "tells"}]},
        )
        call = native_call("c", "Tell", {"n": 1, "yes": True, "list": [1], "none": None, "maid": "Nova"})
        async with (
            ScriptedUpstream([asks(call), say("end")]) as up,
            running(tmp_path, up.base_url, config=ON) as server,
        ):
            await answer(server, True)
            told = result_of(up.bodies[1]["messages"][-1])
            assert {name: told[name] for name in ("n", "yes", "list", "MaidName")} == {
                "n": "1",
                "yes": "true",
                "list": "[1]",
                "MaidName": "Nova",
            }
            assert "none" not in told

    run(main())


def refusal(status: int, message: str) -> Reply:
    return json_reply({"error": {"message": message}}, status)


@MODES
def test_with_auto_a_model_that_knows_no_functions_is_asked_without_and_stays_so(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        shelf = Shelf()
        no = refusal(400, "llama2 does not support tools")
        script = [no, say(call_text("Note")), say("end"), say("second"), say("other model")]
        async with (
            ScriptedUpstream(script) as up,
            running(tmp_path, up.base_url, config=["NativeTools=auto"], sources=[shelf]) as server,
        ):
            text, finish, _ = await answer(server, stream)
            assert (text, finish) == (call_text("Note") + "\nend", "stop")
            assert [call.tool for call in shelf.calls] == ["Note"]
            await answer(server, stream)
            await answer(server, stream, model="other")
            assert ["tools" in body for body in up.bodies] == [True, False, False, False, True]
            without = {**up.bodies[0]}
            del without["tools"]
            assert up.bodies[1] == without

    run(main())


@MODES
@pytest.mark.parametrize(
    ("mode", "message", "asked"),
    [("on", "no tools here", 1), ("auto", "bad temperature", 1), ("auto", "no tools here", 2)],
)
def test_other_refusals_are_shown_and_none_is_remembered_that_has_another_reason(
    tmp_path: Path, stream: bool, mode: str, message: str, asked: int
) -> None:
    async def main() -> None:
        no = refusal(400, message)
        async with (
            ScriptedUpstream([no] * asked + [say("ok")]) as up,
            running(tmp_path, up.base_url, config=[f"NativeTools={mode}"], sources=[Shelf()]) as server,
        ):
            refused = await server.chat("x", stream=stream)
            assert message in refused.text
            assert (refused.status_code == 200) is stream
            assert len(up.requests) == asked
            await answer(server, stream)
            assert "tools" in up.bodies[-1]

    run(main())


def test_a_reload_changes_what_is_offered_and_an_empty_offer_adds_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            ScriptedUpstream([say("ok")] * 2) as up,
            running(tmp_path, up.base_url, config=ON, sources=[Shelf()]) as server,
        ):
            await answer(server, True)
            services = server.services
            settings = services.settings.model_copy(update={"native_tools_allow": ("Nothing*",)})
            services.apply(replace(services.config, settings=settings))
            await answer(server, True)
            assert "tools" in up.bodies[0]
            assert "tools" not in up.bodies[1]

    run(main())
