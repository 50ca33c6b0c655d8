"""Questions of MCP servers beside calls that wait for approval, over real sockets and routes (D75; MCP-30, MCP-52)."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.extend import AnswerAction, CallContext, Door, PersonQuestion
from app.hub.approval.guard import MAX_QUESTIONS_OF_ONE
from tests.hub.approval.approving import CONFIG, asked, person, says, settled, until
from tests.hub.approval.test_guard import human
from tests.mcp.client.asking_server import FORM, Asking, asking, listed, used_by
from tests.server import Running, call_text, run, running

Test = Callable[[Running, Asking, ScriptedUpstream], Awaitable[None]]


def with_server(home: Path, test: Test, *, config: tuple[str, ...] = (), **entry: Any) -> None:
    async def main() -> None:
        async with asking() as made, ScriptedUpstream([say("our word")]) as up:
            used_by(home, made, **entry)
            async with running(home, up.base_url, config=(*CONFIG, *config)) as server:
                await listed(server, "ask", "visit", "say")
                await test(server, made, up)

    run(main())


async def called(server: Running, tool: str = "ask") -> Any:
    """What the tool says that it was answered."""
    text = (await human(server, call_text(f"forms.{tool}"))).text
    found = re.search(r'\{\\"(?:[^"\\]|\\.)*\}', text)
    assert found is not None, text
    return json.loads(json.loads(f'"{found[0]}"'))


def question(asker: str = "files", **more: Any) -> PersonQuestion:
    return PersonQuestion(asker, "Who?", CallContext("t", Door.MCP), more.pop("schema", FORM), **more)


def test_a_form_of_a_server_is_filled_in_by_a_chat_client(tmp_path: Path) -> None:
    async def test(server: Running, made: Asking, up: ScriptedUpstream) -> None:
        async with person(server) as wire:
            call = asyncio.create_task(called(server))
            request = await asked(wire)
            assert request["toolName"] == "forms.ask" and request["source"] == "human_tool"
            assert request["args"]["message"] == "Who are you?"
            assert request["question"]["server"] == "forms"
            assert [field["name"] for field in request["question"]["fields"]] == ["name", "age", "colour"]
            await wire.send(
                {
                    "type": "tool_approval_response",
                    "data": {"requestId": request["requestId"], "approved": True, "content": {"name": "Ann", "age": 7}},
                }
            )
            assert await call == {"action": "accept", "content": {"name": "Ann", "age": 7, "colour": "green"}}
            assert (await settled(wire))["approved"] is True
        assert not up.bodies

    with_server(tmp_path, test)


def test_a_client_that_knows_calls_only_can_say_no_and_yes_where_nothing_is_required(tmp_path: Path) -> None:
    """Spec 7.6: the message is that of approvals, so old clients show it and can decide what they can decide."""

    async def test(server: Running, made: Asking, up: ScriptedUpstream) -> None:
        async with person(server) as wire:
            call = asyncio.create_task(called(server))
            request = await asked(wire)
            await says(wire, request["requestId"], True)
            refused = await settled(wire)
            assert refused["late"] is True and refused["approved"] is None and "'name' is missing" in refused["reason"]
            assert server.services.approvals.find(request["requestId"]) is not None
            await says(wire, request["requestId"], False)
            assert await call == {"action": "decline"}
            made.form = {"type": "object", "properties": {"sure": {"type": "boolean", "default": True}}}
            await settled(wire)
            call = asyncio.create_task(called(server))
            await says(wire, (await asked(wire))["requestId"], True)
            assert await call == {"action": "accept", "content": {"sure": True}}

    with_server(tmp_path, test)


def test_a_page_is_shown_with_its_whole_host_and_never_opened(tmp_path: Path) -> None:
    async def test(server: Running, made: Asking, up: ScriptedUpstream) -> None:
        async with person(server) as wire:
            call = asyncio.create_task(called(server, "visit"))
            request = await asked(wire)
            shown = request["question"]
            assert (shown["mode"], shown["url"], shown["host"]) == (
                "url",
                "https://pay.example:8443/x",
                "pay.example:8443",
            )
            assert request["args"]["host"] == "pay.example:8443"
            await says(wire, request["requestId"], True)
            assert await call == {"action": "accept"}

    with_server(tmp_path, test)


def test_the_route_shows_questions_and_takes_answers_that_fit(tmp_path: Path) -> None:
    async def test(server: Running, made: Asking, up: ScriptedUpstream) -> None:
        call = asyncio.create_task(called(server))
        await until(lambda: server.services.approvals.pending())
        (one,) = (await server.client.get("/v1/approvals")).json()["approvals"]
        path = f"/v1/approvals/{one['requestId']}"
        assert one["question"]["message"] == "Who are you?"
        for content in (None, {}, {"name": 7}, {"name": "Ann", "further": 1}, {"name": "Ann", "age": -1}, [], "x"):
            answer = await server.client.post(path, json={"approved": True, "content": content})
            assert answer.status_code == 400, content
        answer = await server.client.post(path, json={"approved": True, "content": {"name": "Ann"}})
        assert answer.status_code == 200
        assert await call == {"action": "accept", "content": {"name": "Ann", "colour": "green"}}
        assert (await server.client.post(path, json={"approved": True})).status_code == 409

    with_server(tmp_path, test)


def test_when_nobody_answers_in_time_the_question_is_declined(tmp_path: Path) -> None:
    """D75; the call's own time stands still meanwhile."""

    async def test(server: Running, made: Asking, up: ScriptedUpstream) -> None:
        assert await called(server) == {"action": "decline"}
        assert not up.bodies

    with_server(tmp_path, test, config=("MCPQuestionSeconds=0.3", "MCPCallSeconds=0.2"))


def test_with_consent_a_model_answers_a_server_and_nothing_is_expanded(tmp_path: Path) -> None:
    """D75, MCP-52: over HTTP, from the file of servers to the model API."""

    async def test(server: Running, made: Asking, up: ScriptedUpstream) -> None:
        answer = await called(server, "say")
        assert answer["content"] == {"type": "text", "text": "our word"}
        (body,) = up.bodies
        assert body["model"] == "cheap" and body["messages"] == [{"role": "user", "content": "{{Date}}?"}]
        assert "tools" not in body and body["max_tokens"] == 9

    with_server(tmp_path, test, sampling=True, samplingModel="cheap")


def test_without_consent_no_model_is_asked(tmp_path: Path) -> None:
    async def test(server: Running, made: Asking, up: ScriptedUpstream) -> None:
        text = (await human(server, call_text("forms.say"))).text
        assert "Sampling not supported (-32600)" in text and not up.bodies

    with_server(tmp_path, test)


def test_a_server_cannot_drown_the_approvals_and_a_stop_cancels(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, "http://127.0.0.1:9", config=CONFIG) as server:
            approvals = server.services.approvals
            many = [asyncio.create_task(approvals.ask(question(), 60)) for _ in range(MAX_QUESTIONS_OF_ONE + 3)]
            await until(lambda: len(approvals.pending()) == MAX_QUESTIONS_OF_ONE)
            await until(lambda: sum(one.done() for one in many) == 3)
            assert {one.result().action for one in many if one.done()} == {AnswerAction.DECLINE}
            other = asyncio.create_task(approvals.ask(question("another"), 60))
            await until(lambda: len(approvals.pending()) == MAX_QUESTIONS_OF_ONE + 1)
            await approvals.stop()
            assert (await other).action is AnswerAction.CANCEL
            assert (await approvals.ask(question(), 60)).action is AnswerAction.DECLINE

    run(main())


@pytest.mark.parametrize("schema", [{"type": "array"}, {"properties": {"x": {"type": "object"}}}])
def test_nobody_is_shown_a_form_that_is_none(tmp_path: Path, schema: Any) -> None:
    async def main() -> None:
        async with running(tmp_path, "http://127.0.0.1:9", config=CONFIG) as server:
            answer = await server.services.approvals.ask(question(schema=schema), 60)
            assert answer.action is AnswerAction.DECLINE

    run(main())


def test_what_a_server_writes_is_bounded_in_what_people_are_shown(tmp_path: Path) -> None:
    huge = {"properties": {f"f{n}": {"type": "string", "description": "x" * 100_000} for n in range(60)}}

    async def main() -> None:
        async with running(tmp_path, "http://127.0.0.1:9", config=CONFIG) as server:
            approvals = server.services.approvals
            big = PersonQuestion("s", "m" * 5_000_000, CallContext("t", Door.MCP), huge)
            asking_it = asyncio.create_task(approvals.ask(big, 60))
            await until(lambda: approvals.pending())
            answer = await server.client.get("/v1/approvals")
            assert len(answer.content) < 200_000
            asking_it.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking_it
            assert not approvals.pending()

    run(main())


def test_where_nobody_can_be_asked_a_question_is_declined_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, "http://127.0.0.1:9", config=CONFIG) as server:
            server.services.approvals.open = False
            assert (await server.services.approvals.ask(question(), 60)).action is AnswerAction.DECLINE

    run(main())
