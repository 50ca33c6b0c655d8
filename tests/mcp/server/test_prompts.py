"""Agents and prompts of plugins as prompts (mcp.md MCP-29)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitRequestParams, ElicitResult

from app.errors import BadRequestError, NotFoundError, VcpError
from app.extend import CallContext, Door, PromptArgument, PromptSource, Question
from app.mcp.server.door import McpDoorRules
from app.mcp.server.prompts import Prompts
from app.prompt.agents import AgentBook
from app.prompt.files import TextFiles
from tests.mcp.server.bench import ERAS, DoorBench
from tests.mcp.server.raw import connected, modern
from tests.server import run

WHO = CallContext("turn-1", Door.MCP)


@dataclass
class Brought:
    """A plugin's prompt; it says what it was made of."""

    name: str
    description: str = "of a plugin"
    title: str = ""
    arguments: Sequence[PromptArgument] = ()
    made: Any = None

    async def get(self, arguments: Mapping[str, str], context: CallContext) -> Any:
        if callable(self.made):
            return await self.made(context)
        return self.made if self.made is not None else f"{self.name}: {dict(arguments)}"

    async def complete(self, argument: str, value: str, given: Mapping[str, str]) -> Sequence[str]:
        return [f"{argument}{number}" for number in range(200)]


def prompts(home: Path, *wanted: str, brought: Sequence[PromptSource] = ()) -> Prompts:
    (home / "Agent").mkdir(exist_ok=True)
    (home / "agent_map.json").write_text(json.dumps({"Nova": "n.txt", "小克": "k.txt", "Nobody": "x.txt"}))

    async def expand(text: str) -> str:
        return f"<{text}>"

    return Prompts(
        AgentBook(home / "agent_map.json", TextFiles(home / "Agent")), lambda: wanted, expand, lambda: brought
    )


def names(shelf: Prompts) -> list[str]:
    return [prompt.name for prompt in asyncio.run(shelf.list()).prompts]


def test_mcp_29_only_the_agents_that_the_settings_name_are_prompts(tmp_path: Path) -> None:
    assert names(prompts(tmp_path)) == []
    assert names(prompts(tmp_path, "No*")) == ["Nobody", "Nova"]
    assert names(prompts(tmp_path, "*")) == ["Nobody", "Nova", "小克"]
    (nova,) = asyncio.run(prompts(tmp_path, "Nova").list()).prompts
    assert nova.arguments is not None
    assert [(argument.name, argument.required) for argument in nova.arguments] == [("input", False)]


def test_mcp_29_a_prompt_is_the_expanded_agent_and_what_the_person_says_stays_as_it_is(tmp_path: Path) -> None:
    """D9: only the operator's text is expanded."""
    shelf = prompts(tmp_path, "*")
    result = asyncio.run(shelf.get("小克", {"input": "{{agent:Nova}} {{Date}}"}, WHO))
    assert [(message.role, message.content.text) for message in result.messages] == [
        ("user", "<{{agent:小克}}>"),
        ("user", "{{agent:Nova}} {{Date}}"),
    ]
    assert len(asyncio.run(shelf.get("小克", {}, WHO)).messages) == 1


def test_mcp_29_unknown_names_and_arguments_are_told(tmp_path: Path) -> None:
    shelf = prompts(tmp_path, "Nova")
    with pytest.raises(NotFoundError):
        asyncio.run(shelf.get("小克", {}, WHO))
    with pytest.raises(BadRequestError, match="topic"):
        asyncio.run(shelf.get("Nova", {"topic": "x"}, WHO))
    with pytest.raises(NotFoundError):
        asyncio.run(shelf.complete("小克", "input", "", {}))
    assert asyncio.run(shelf.complete("Nova", "input", "", {})).values == []


# --- prompts of plugins -----------------------------------------------------------------------------------------------


def test_mcp_29_prompts_of_plugins_stand_beside_agents_which_win_by_name(tmp_path: Path) -> None:
    brought = [Brought("Nova"), Brought("plan", "Makes a plan", "Plan", [PromptArgument("what", "of", True)])]
    shelf = prompts(tmp_path, "Nova", brought=[*brought, Brought("plan", "of the next plugin")])
    nova, plan = asyncio.run(shelf.list()).prompts
    assert nova.description != "of a plugin"
    assert (plan.name, plan.title, plan.description) == ("plan", "Plan", "Makes a plan")
    assert [argument.model_dump(exclude_none=True) for argument in plan.arguments or ()] == [
        {"name": "what", "description": "of", "required": True}
    ]
    made = asyncio.run(shelf.get("plan", {"what": "{{agent:Nova}}"}, WHO))
    assert [message.content.text for message in made.messages] == ["plan: {'what': '{{agent:Nova}}'}"]
    completed = asyncio.run(shelf.complete("plan", "what", "WHAT19", {}))
    assert completed.values == sorted(f"what{number}" for number in (19, *range(190, 200)))


def test_mcp_29_arguments_of_a_plugins_prompt_are_checked_before_it_is_asked(tmp_path: Path) -> None:
    shelf = prompts(tmp_path, brought=[Brought("plan", arguments=[PromptArgument("what", required=True)])])
    with pytest.raises(BadRequestError, match="what"):
        asyncio.run(shelf.get("plan", {}, WHO))
    with pytest.raises(BadRequestError, match="when"):
        asyncio.run(shelf.get("plan", {"what": "x", "when": "y"}, WHO))


@pytest.mark.parametrize(
    "made",
    [
        [{"role": "wizard", "content": {"type": "text", "text": "x"}}],
        [{"role": "user"}],
        [{"role": "user", "content": {"type": "image", "data": 7, "mimeType": "image/png"}}],
        [{"role": "user", "content": {"type": "text", "text": {1, 2}}}],
    ],
)
def test_a_prompt_that_is_none_of_the_protocol_is_told_as_such(tmp_path: Path, made: Any) -> None:
    with pytest.raises(VcpError, match="plan"):
        asyncio.run(prompts(tmp_path, brought=[Brought("plan", made=made)]).get("plan", {}, WHO))


FORM = {
    "message": "Which?",
    "requestedSchema": {"type": "object", "properties": {"which": {"type": "string"}}, "required": ["which"]},
}


async def asks_first(context: CallContext) -> str:
    assert context.caller is not None
    answer = await context.caller.ask(Question.ELICIT, FORM, key="which")
    return f"about {answer['content']['which']}"


@pytest.mark.parametrize("era", ERAS)
def test_mcp_30_a_prompt_may_ask_its_client_first_in_both_eras(tmp_path: Path, era: str) -> None:
    async def elicited(_context: Any, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"which": params.message})

    async def main() -> None:
        shelf = prompts(tmp_path, brought=[Brought("plan", made=asks_first)])
        async with DoorBench(prompts=shelf) as bench, bench.client(era, elicitation_callback=elicited) as client:
            made = await client.get_prompt("plan")
            assert [message.content.text for message in made.messages] == ["about Which?"]
            assert bench.door.running == 0

    run(main())


def test_mcp_30_the_state_of_a_prompt_is_for_this_prompt_and_an_unable_client_is_told_what_it_lacks(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        shelf = prompts(tmp_path, brought=[Brought("plan", made=asks_first), Brought("other", made=asks_first)])
        async with DoorBench(prompts=shelf) as bench, connected(bench.door) as raw:
            asked = (await raw.ask("prompts/get", modern({"name": "plan"}, elicitation={})))["result"]
            assert list(asked["inputRequests"]) == ["which"]
            answers = {"which": {"action": "accept", "content": {"which": "cats"}}}
            params = {"inputResponses": answers, "requestState": asked["requestState"]}
            for method, name in (("prompts/get", "other"), ("tools/call", "plan")):
                refused = await raw.ask(method, modern({"name": name, **params}, elicitation={}))
                assert refused["error"]["code"] == -32602
            made = (await raw.ask("prompts/get", modern({"name": "plan", **params}, elicitation={})))["result"]
            assert made["resultType"] == "complete"
            assert made["messages"][0]["content"]["text"] == "about cats"

            lacking = (await raw.ask("prompts/get", modern({"name": "plan"})))["error"]
            assert (lacking["code"], lacking["data"]) == (
                -32021,
                {"requiredCapabilities": {"elicitation": {"form": {}}}},
            )
            assert bench.door.running == 0

    run(main())


def test_a_prompt_that_waits_ends_with_its_cancelled_request(tmp_path: Path) -> None:
    ended: list[str] = []

    async def waits(context: CallContext) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")
        return ""

    async def main() -> None:
        shelf = prompts(tmp_path, brought=[Brought("plan", made=waits)])
        async with DoorBench(prompts=shelf) as bench, connected(bench.door) as raw:
            await raw.hello("2025-11-25")
            await raw.send("prompts/get", {"name": "plan"}, id="p")
            while not bench.door.running:
                await asyncio.sleep(0.001)
            await raw.send("notifications/cancelled", {"requestId": "p"})
            while bench.door.running:
                await asyncio.sleep(0.001)
            assert ended == ["ended"]

    run(main())


def test_mcp_27_prompts_have_places_like_calls(tmp_path: Path) -> None:
    async def waits(context: CallContext) -> str:
        await asyncio.Event().wait()
        return ""

    async def main() -> None:
        shelf = prompts(tmp_path, brought=[Brought("plan", made=waits)])
        async with DoorBench(prompts=shelf) as bench, connected(bench.door) as raw:
            bench.rules = McpDoorRules(max_running_per_client=1)
            await raw.hello("2025-11-25")
            await raw.send("prompts/get", {"name": "plan"}, id="p")
            while not bench.door.running:
                await asyncio.sleep(0.001)
            full = pytest.MonkeyPatch()
            full.setattr("app.mcp.server.places.MAX_WAITING", 0)
            try:
                refused = await raw.ask("prompts/get", {"name": "plan"})
            finally:
                full.undo()
            assert refused["error"]["code"] == -32603 and "calls wait already" in refused["error"]["message"]

    run(main())
