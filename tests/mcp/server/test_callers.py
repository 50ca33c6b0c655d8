"""Clients that are asked while their call runs: by requests in a session, by parking the call without one (MCP-30)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from mcp_types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    ListRootsResult,
    Root,
    TextContent,
)

from app.errors import VcpError
from app.extend import CallContext, ErrorKind, Json, Question, ToolCall, ToolResult
from app.mcp.server import callers, calls
from app.mcp.server.door import Asker, McpDoorRules
from tests.mcp.server.bench import ERAS, MODERN, DoorBench, Work, says
from tests.mcp.server.raw import Raw, connected, modern
from tests.server import run
from tests.waiting import until

FORM: Mapping[str, Json] = {
    "mode": "form",
    "message": "Name?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}
PAGE: Mapping[str, Json] = {"mode": "url", "message": "Sign in", "url": "https://a.example/in", "elicitationId": "e1"}
SAMPLE: Mapping[str, Json] = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
    "maxTokens": 10,
}
WITH_TOOLS: Mapping[str, Json] = {**SAMPLE, "tools": [{"name": "t", "inputSchema": {"type": "object"}}]}


def asking(*questions: tuple[Question, Mapping[str, Json]]) -> Work:
    """The work of a tool that asks these, one after the other, and gives back the answers."""

    async def work(call: ToolCall, context: CallContext) -> ToolResult:
        assert context.caller is not None
        try:
            answers = [await context.caller.ask(question, params) for question, params in questions]
        except VcpError as error:
            return ToolResult(error_kind=ErrorKind.PLUGIN, message=error.message)
        return ToolResult(structured={"answers": answers})

    return work


async def elicited(_context: Any, params: ElicitRequestParams) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": params.message})


async def sampled(_context: Any, params: CreateMessageRequestParams) -> CreateMessageResult:
    return CreateMessageResult(role="assistant", content=TextContent(text="word"), model="m")


async def roots(_context: Any) -> ListRootsResult:
    return ListRootsResult(roots=[Root(uri="file:///work")])  # type: ignore[arg-type]


EVERYTHING: Mapping[str, Any] = {
    "elicitation_callback": elicited,
    "sampling_callback": sampled,
    "list_roots_callback": roots,
}


@pytest.mark.parametrize("era", ERAS)
def test_mcp_30_forms_sampling_and_roots_are_answered_in_both_eras(era: str) -> None:
    async def main() -> None:
        async with DoorBench() as bench:
            work = asking((Question.ELICIT, FORM), (Question.SAMPLE, SAMPLE), (Question.ROOTS, {}))
            bench.tools.add("Asks", work)
            async with bench.client(era, **EVERYTHING) as client:
                result = await client.call_tool("Asks", {"x": 1})
                form, word, folders = result.structured_content["answers"]
                assert (form["action"], form["content"]) == ("accept", {"name": "Name?"})
                assert (word["content"]["text"], word["model"]) == ("word", "m")
                assert folders["roots"] == [{"uri": "file:///work"}]
            assert len(bench.tools.calls) == 1  # the tool ran once

    run(main())


@pytest.mark.parametrize("era", ERAS)
def test_mcp_30_several_questions_at_a_time_are_all_answered(era: str) -> None:
    async def main() -> None:
        async def work(call: ToolCall, context: CallContext) -> ToolResult:
            assert context.caller is not None
            forms = [{**FORM, "message": f"m{number}"} for number in range(3)]
            answers = await asyncio.gather(*(context.caller.ask(Question.ELICIT, form) for form in forms))
            return ToolResult(structured={"names": [answer["content"]["name"] for answer in answers]})

        async with DoorBench() as bench:
            bench.tools.add("Asks", work)
            async with bench.client(era, **EVERYTHING) as client:
                result = await client.call_tool("Asks", {})
                assert result.structured_content == {"names": ["m0", "m1", "m2"]}

    run(main())


@pytest.mark.parametrize(
    ("version", "capabilities", "question", "params", "can"),
    [
        ("2025-11-25", {"elicitation": {}}, Question.ELICIT, FORM, True),
        ("2025-06-18", {"elicitation": {}}, Question.ELICIT, FORM, True),
        ("2025-03-26", {"elicitation": {}}, Question.ELICIT, FORM, False),
        ("2025-11-25", {"elicitation": {"url": {}}}, Question.ELICIT, FORM, False),
        ("2025-11-25", {"elicitation": {"url": {}}}, Question.ELICIT, PAGE, True),
        ("2025-11-25", {"elicitation": {"form": {}}}, Question.ELICIT, PAGE, False),
        ("2025-06-18", {"elicitation": {"url": {}}}, Question.ELICIT, PAGE, False),
        ("2024-11-05", {"sampling": {}}, Question.SAMPLE, SAMPLE, True),
        ("2025-11-25", {"sampling": {}}, Question.SAMPLE, WITH_TOOLS, False),
        ("2025-11-25", {"sampling": {"tools": {}}}, Question.SAMPLE, WITH_TOOLS, True),
        ("2024-11-05", {"roots": {}}, Question.ROOTS, {}, True),
        ("2025-11-25", {}, Question.ROOTS, {}, False),
        (MODERN, {"elicitation": {"form": {}}}, Question.ELICIT, FORM, True),
        (MODERN, {"elicitation": {"url": {}}}, Question.ELICIT, PAGE, True),
        (MODERN, {}, Question.SAMPLE, SAMPLE, False),
    ],
)
def test_mcp_30_a_client_is_asked_only_what_it_said_it_can(
    version: str, capabilities: dict[str, Any], question: Question, params: Mapping[str, Json], can: bool
) -> None:
    async def main() -> None:
        said: list[bool] = []

        async def work(call: ToolCall, context: CallContext) -> ToolResult:
            assert context.caller is not None
            said.append(context.caller.can(question, params))
            return ToolResult(structured="x")

        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Looks", work)
            if version == MODERN:
                await raw.ask("tools/call", modern({"name": "Looks"}, **capabilities))
            else:
                await raw.hello(version, **capabilities)
                await raw.ask("tools/call", {"name": "Looks"})
            assert said == [can]

    run(main())


def test_mcp_30_a_session_without_the_capability_is_an_error_of_the_tool() -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Asks", asking((Question.ELICIT, FORM)))
            await raw.hello()
            result = (await raw.ask("tools/call", {"name": "Asks"}))["result"]
            assert result["isError"] and "elicitation/create" in result["content"][0]["text"]
            assert raw.asked == []

    run(main())


def test_mcp_30_the_newest_revision_without_the_capability_is_32021() -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Asks", asking((Question.SAMPLE, WITH_TOOLS)))
            error = (await raw.ask("tools/call", modern({"name": "Asks"}, sampling={})))["error"]
            assert error["code"] == -32021
            assert error["data"] == {"requiredCapabilities": {"sampling": {"tools": {}}}}

    run(main())


def test_a_tool_that_can_do_without_the_answer_goes_on_without_the_capability() -> None:
    async def main() -> None:
        async def work(call: ToolCall, context: CallContext) -> ToolResult:
            assert context.caller is not None
            with pytest.raises(VcpError):
                await context.caller.ask(Question.ELICIT, FORM)
            return ToolResult(structured="without")

        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Asks", work)
            result = (await raw.ask("tools/call", modern({"name": "Asks"})))["result"]
            assert result["content"][0]["text"] == "without"

    run(main())


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_a_session_is_asked_on_the_stream_of_its_call_and_a_refusal_is_an_error_of_the_tool() -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Asks", asking((Question.ELICIT, FORM)))
            await raw.hello(elicitation={})
            for reply, told in (
                ({"error": {"code": -1, "message": "User\nsays no"}}, "User says no"),
                ({"result": {"action": "perhaps"}}, "elicitation/create"),
                ({"result": {}}, "elicitation/create"),
                ({"result": {"action": "accept", "content": {"name": 7}}}, "$.name"),
                ({"result": {"action": "accept"}}, "$"),
            ):
                await raw.send("tools/call", {"name": "Asks"}, id=told)
                while not raw.asked:
                    await raw.take()
                asked = raw.asked.pop()
                assert asked["method"] == "elicitation/create"
                assert asked["params"]["requestedSchema"] == FORM["requestedSchema"]
                await raw.put({"jsonrpc": "2.0", "id": asked["id"], **reply})
                raw.replies.pop(told, None)
                result = (await raw.reply(told))["result"]
                assert result["isError"] and told in result["content"][0]["text"]

    run(main())


@pytest.mark.parametrize("era", ["2025-11-25", MODERN])
def test_a_question_that_nobody_answers_ends(era: str) -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.rules = McpDoorRules(question_seconds=0.02)
            bench.tools.add("Asks", asking((Question.ELICIT, FORM)))
            if era == MODERN:
                answer = await raw.ask("tools/call", modern({"name": "Asks"}, elicitation={}))
                assert answer["result"]["resultType"] == "input_required"
                await until(lambda: bench.door.running == 0)
            else:
                await raw.hello(elicitation={})
                result = (await raw.ask("tools/call", {"name": "Asks"}))["result"]
                assert result["isError"] and "0.02" in result["content"][0]["text"]

    run(main())


@pytest.mark.parametrize("era", ["2025-11-25", MODERN])
def test_a_question_that_is_none_of_the_protocol_is_an_error_of_the_tool(era: str) -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            odd: tuple[Mapping[str, Json], ...] = ({}, {"message": 1}, {"message": "m", "requestedSchema": {"type": 1}})
            for number, params in enumerate(odd):
                bench.tools.add(f"Asks{number}", asking((Question.ELICIT, params)))
            if era != MODERN:
                await raw.hello(elicitation={})
            for number in range(len(odd)):
                params = {"name": f"Asks{number}"}
                sent = modern(params, elicitation={}) if era == MODERN else params
                result = (await raw.ask("tools/call", sent))["result"]
                assert result["isError"] and "elicitation/create" in result["content"][0]["text"]

    run(main())


@pytest.mark.parametrize("era", ERAS)
def test_one_call_cannot_ask_without_end(era: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(callers, "MAX_QUESTIONS", 2)
        async with DoorBench() as bench:
            bench.tools.add("Asks", asking(*[(Question.ELICIT, FORM)] * 3))
            async with bench.client(era, **EVERYTHING) as client:
                result = await client.call_tool("Asks", {})
                assert result.is_error and " 2 " in result.content[0].text  # type: ignore[union-attr]

    run(main())


# --- without a session: parked calls ----------------------------------------------------------------------------------


async def parked(raw: Raw, bench: DoorBench, arguments: Any = None, **more: Any) -> dict[str, Any]:
    """Call a tool that asks; what the server wants to know."""
    params = {"name": "Asks", "arguments": arguments or {"a": 1}}
    result: dict[str, Any] = (await raw.ask("tools/call", modern(params, elicitation={}, **more)))["result"]
    assert result["resultType"] == "input_required"
    return result


def back(asked: dict[str, Any], *, name: str = "Asks", **changed: Any) -> Any:
    """The request of a client that comes back."""
    params = {
        "name": name,
        "arguments": {"a": 1},
        "requestState": asked["requestState"],
        "inputResponses": {key: {"action": "accept", "content": {"name": "n"}} for key in asked["inputRequests"]},
        **changed,
    }
    return modern({key: value for key, value in params.items() if value is not None}, elicitation={})


def test_mcp_30_the_client_comes_back_under_a_new_id_and_the_tool_does_not_run_twice() -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Asks", asking((Question.ELICIT, FORM), (Question.ELICIT, FORM)))
            first = await parked(raw, bench)
            (request,) = first["inputRequests"].values()
            assert request["method"] == "elicitation/create"
            assert request["params"]["message"] == "Name?"
            second = (await raw.ask("tools/call", back(first)))["result"]
            assert second["resultType"] == "input_required"
            assert second["requestState"] != first["requestState"]
            result = (await raw.ask("tools/call", back(second)))["result"]
            assert len(result["structuredContent"]["answers"]) == 2
            assert len(bench.tools.calls) == 1
            assert bench.door.running == 0

    run(main())


def test_mcp_30_a_state_that_was_tampered_with_used_up_or_of_something_else_is_refused() -> None:
    """Bound to tool, arguments and round; what is refused does not disturb the call that waits."""

    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Asks", asking((Question.ELICIT, FORM)))
            bench.tools.add("Other", says)
            asked = await parked(raw, bench)
            state = asked["requestState"]
            flipped = state[:-1] + ("A" if state[-1] != "A" else "B")
            for wrong in (
                back(asked, requestState=flipped),
                back(asked, requestState=state[:20]),
                back(asked, requestState="v1." + "A" * 200),
                back(asked, requestState=""),
                back(asked, name="Other"),
                back(asked, arguments={"a": 2}),
                back(asked, arguments=None),
            ):
                error = (await raw.ask("tools/call", wrong))["error"]
                assert error["code"] == -32602
                assert "requestState" in error["message"]
            assert "result" in await raw.ask("tools/call", back(asked))
            again = await raw.ask("tools/call", back(asked))  # a replay
            assert again["error"]["code"] == -32602
            assert [call.tool for call in bench.tools.calls] == ["Asks"]

    run(main())


def test_mcp_30_a_state_belongs_to_the_client_that_got_it() -> None:
    async def main() -> None:
        who = ["alice"]
        async with DoorBench(asker=lambda _: Asker(who[0])) as bench, connected(bench.door) as raw:
            bench.tools.add("Asks", asking((Question.ELICIT, FORM)))
            asked = await parked(raw, bench)
            who[0] = "mallory"
            assert (await raw.ask("tools/call", back(asked)))["error"]["code"] == -32602
            who[0] = ""
            assert (await raw.ask("tools/call", back(asked)))["error"]["code"] == -32602
            who[0] = "alice"
            assert "result" in await raw.ask("tools/call", back(asked))

    run(main())


def test_mcp_30_missing_answers_are_asked_for_again_and_wrong_ones_refused() -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Asks", asking((Question.ELICIT, FORM)))
            asked = await parked(raw, bench)
            again = (await raw.ask("tools/call", back(asked, inputResponses=None)))["result"]
            assert again["inputRequests"] == asked["inputRequests"]
            odd = (await raw.ask("tools/call", back(again, inputResponses={"other": {"action": "accept"}})))["result"]
            assert odd["inputRequests"] == asked["inputRequests"]
            (key,) = odd["inputRequests"]
            for wrong in ({"roots": []}, {"action": "accept", "content": {"name": 7}}, {"action": "accept"}):
                answer = await raw.ask("tools/call", back(odd, inputResponses={key: wrong}))
                assert answer["error"]["code"] == -32602
            good = await raw.ask("tools/call", back(odd))  # what was refused cost nothing
            assert good["result"]["structuredContent"]

    run(main())


def test_a_client_that_does_not_come_back_costs_a_call_and_no_more() -> None:
    async def main() -> None:
        cancelled = asyncio.Event()

        async def work(call: ToolCall, context: CallContext) -> ToolResult:
            assert context.caller is not None
            try:
                await asyncio.gather(context.caller.ask(Question.ELICIT, FORM), asyncio.Event().wait())
            finally:
                cancelled.set()
            raise AssertionError("nobody answered")

        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.rules = McpDoorRules(question_seconds=0.05)
            bench.tools.add("Asks", work)
            asked = await parked(raw, bench)
            await cancelled.wait()
            assert (await raw.ask("tools/call", back(asked)))["error"]["code"] == -32602
            assert bench.door.running == 0

    run(main())


def test_parked_calls_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(calls, "MAX_PARKED", 2)
        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Asks", asking((Question.ELICIT, FORM)))
            first, _ = await parked(raw, bench), await parked(raw, bench)
            params = modern({"name": "Asks"}, elicitation={})
            assert (await raw.ask("tools/call", params))["error"]["code"] == -32603
            await until(lambda: bench.door.running == 2)
            assert "result" in await raw.ask("tools/call", back(first))
            assert (await raw.ask("tools/call", params))["result"]["resultType"] == "input_required"

    run(main())


def test_the_end_of_the_door_ends_calls_that_wait_for_their_clients() -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Asks", asking((Question.ELICIT, FORM)))
            asked = await parked(raw, bench)
            await bench.door.stop()
            assert bench.door.running == 0
            assert (await raw.ask("tools/call", back(asked)))["error"]["code"] == -32602

    run(main())


def test_a_question_that_is_withdrawn_is_not_asked_again() -> None:
    """Another answer came first: the client that comes back gets the result, whatever it answers."""

    async def main() -> None:
        withdrawn = asyncio.Event()

        async def work(call: ToolCall, context: CallContext) -> ToolResult:
            assert context.caller is not None
            question = asyncio.ensure_future(context.caller.ask(Question.ELICIT, FORM))
            await withdrawn.wait()
            question.cancel()
            return ToolResult(structured={"by": "somebody else"})

        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Asks", work)
            asked = await parked(raw, bench)
            withdrawn.set()
            result = (await raw.ask("tools/call", back(asked)))["result"]
            assert result["structuredContent"] == {"by": "somebody else"}

    run(main())


def test_questions_are_written_for_the_revision_of_the_session() -> None:
    """Pages have an id for 2025-11-25, messages one block before it; params are those of the newest revision."""

    async def main() -> None:
        blocks = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
        many: Mapping[str, Json] = {"messages": [{"role": "user", "content": blocks}], "maxTokens": 10}
        page = {key: value for key, value in PAGE.items() if key != "elicitationId"}
        for version, question, params in (
            ("2025-11-25", Question.ELICIT, page),
            ("2025-11-25", Question.SAMPLE, many),
            ("2025-06-18", Question.SAMPLE, many),
        ):
            async with DoorBench() as bench, connected(bench.door) as raw:
                bench.tools.add("Asks", asking((question, params)))
                await raw.hello(version, elicitation={"url": {}}, sampling={})
                await raw.send("tools/call", {"name": "Asks"}, id=1)
                while not raw.asked:
                    await raw.take()
                sent = raw.asked[0]["params"]
                if question is Question.ELICIT:
                    assert len(sent["elicitationId"]) > 10 and sent["url"] == PAGE["url"]
                elif version == "2025-11-25":
                    assert [message["content"] for message in sent["messages"]] == [blocks]
                else:
                    assert [message["content"] for message in sent["messages"]] == blocks

    run(main())


def test_a_question_that_is_withdrawn_in_the_very_moment_in_which_it_is_asked_is_not_told() -> None:
    async def main() -> None:
        async def work(call: ToolCall, context: CallContext) -> ToolResult:
            assert context.caller is not None
            for _ in range(5):
                question = asyncio.ensure_future(context.caller.ask(Question.ELICIT, FORM))
                await asyncio.sleep(0)
                question.cancel()
                await asyncio.wait({question})
            return ToolResult(structured="done")

        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Asks", work)
            params: dict[str, Any] = {"name": "Asks", "arguments": {"a": 1}}
            result = (await raw.ask("tools/call", modern(params, elicitation={})))["result"]
            while result["resultType"] == "input_required":  # it may be told; then coming back is enough
                result = (await raw.ask("tools/call", back(result)))["result"]
            assert result["content"][0]["text"] == "done"
            assert len(bench.tools.calls) == 1

    run(main())


# --- questions with names ---------------------------------------------------------------------------------------------


def named(*keys: str) -> Work:
    """The work of a tool that asks one form under each of these names, all at once."""

    async def work(call: ToolCall, context: CallContext) -> ToolResult:
        assert context.caller is not None
        answers = await asyncio.gather(*(context.caller.ask(Question.ELICIT, FORM, key=key) for key in keys))
        return ToolResult(structured={"names": [answer["content"]["name"] for answer in answers]})

    return work


def accepted(name: Any) -> dict[str, Any]:
    return {"action": "accept", "content": {"name": name}}


def test_mcp_30_questions_that_are_asked_together_go_out_together_under_their_names() -> None:
    """Two of the same name, and those without one, are told apart."""

    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Asks", named("who", "", "who", "x" * 300))
            first = (await raw.ask("tools/call", modern({"name": "Asks"}, elicitation={})))["result"]
            keys = list(first["inputRequests"])
            assert keys == ["who", "question-2", "who-3", "x" * 200]
            answers = {key: accepted(key[:10]) for key in keys}
            params = {"name": "Asks", "inputResponses": answers, "requestState": first["requestState"]}
            result = (await raw.ask("tools/call", modern(params, elicitation={})))["result"]
            assert result["structuredContent"] == {"names": ["who", "question-2", "who-3", "xxxxxxxxxx"]}

    run(main())


def test_mcp_30_an_answer_may_come_with_the_call_to_a_question_that_has_a_name() -> None:
    """What else is sent is passed over."""

    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Asks", named("who"))
            params = {"name": "Asks", "inputResponses": {"who": accepted("Nova"), "other": accepted("x")}}
            result = (await raw.ask("tools/call", modern(params, elicitation={})))["result"]
            assert result["structuredContent"] == {"names": ["Nova"]}

    run(main())


@pytest.mark.parametrize(
    ("key", "sent"),
    [
        ("who", {"other": accepted("x")}),
        ("who", {"who": accepted(7)}),
        ("who", {"who": {"action": "perhaps"}}),
        ("who", {}),
        ("", {"": accepted("x"), "question-1": accepted("x")}),
    ],
)
def test_mcp_30_what_is_sent_with_the_call_and_does_not_fit_is_asked_for(key: str, sent: dict[str, Any]) -> None:
    """A question without a name, such as one for approval, is never answered beforehand."""

    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Asks", named(key))
            params = {"name": "Asks", "inputResponses": sent}
            reply = await raw.ask("tools/call", modern(params, elicitation={}))
            assert "error" in reply or reply["result"]["resultType"] == "input_required"
            if "error" not in reply:
                assert list(reply["result"]["inputRequests"]) == [key or "question-1"]

    run(main())
