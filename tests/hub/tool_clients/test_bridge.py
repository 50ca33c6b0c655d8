"""Tools of tool clients at all other doors, and our tools at the tool socket (WS-17; D30, D65, D66, D68)."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.extend import (
    CallContext,
    CallFinished,
    CallStarted,
    Door,
    ErrorKind,
    Outcome,
    ToolCall,
    ToolResult,
)
from app.tools.auth_code import AuthCode, write_auth_code
from tests.hub.approval.approving import asked, person, says, settled, wants
from tests.hub.clients import Wire
from tests.hub.tool_clients.wire_tool_clients import (
    CONFIG,
    ROLL,
    UPSTREAM,
    completed,
    execute,
    failure,
    frame,
    refused,
    register,
    registered,
    told,
    tool_client,
)
from tests.server import ECHO, Running, call_text, run, running, write_plugin


async def human(server: Running, tool: str, **fields: str) -> Any:
    return await server.client.post(
        "/v1/human/tool", content=call_text(tool, **fields).encode(), headers={"Content-Type": "text/plain"}
    )


async def answer(owner: Wire, result: Any) -> Any:
    """The owner does one run; what it was asked."""
    asked = (await owner.receive_type("execute_tool"))["data"]
    await owner.send(completed(asked["executionId"], result))
    return asked


def test_a_registered_tool_is_called_from_another_door_and_only_its_owner_hears_of_it(tmp_path: Path) -> None:
    """WS-17, D65: texts become values by the schema (D5), names are folded (D4)."""

    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            tool_client(server) as owner,
            tool_client(server) as other,
        ):
            await registered(owner, other)
            calling = asyncio.ensure_future(human(server, "roll", Sides="6", maid="Nova"))
            asked = await answer(owner, 4)
            assert asked["name"] == "roll"
            assert asked["args"] == {"sides": 6, "maid": "Nova"}
            response = await calling
            assert response.status_code == 200
            body = response.json()
            assert (body["original_plugin_output"], body["MaidName"]) == (4, "Nova")
            assert await told(owner, 1) == [completed(asked["executionId"], 4)]
            await other.nothing_waits()
            (began,) = [event for event in server.events if isinstance(event, CallStarted)]
            (ended,) = [event for event in server.events if isinstance(event, CallFinished)]
            (client, _) = server.services.tool_clients.clients()
            assert (began.door, began.origin, began.node) == (Door.HUMAN_TOOL, f"socket:{client.id}", client.id)
            assert ended.outcome is Outcome.SUCCESS

    run(main())


def test_the_owner_of_a_run_from_another_door_sees_its_start_and_its_end_in_the_usual_order(tmp_path: Path) -> None:
    """D65, WS-19."""

    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server, tool_client(server) as owner:
            await registered(owner)
            calling = asyncio.ensure_future(human(server, "roll", sides="6"))
            started, asked = await told(owner, 2)
            assert started == {"type": "tool_execution_started", "data": asked["data"]}
            await owner.send(
                frame("tool_execution_failed", executionId=asked["data"]["executionId"], error={"message": "no dice"})
            )
            assert failure(await owner.receive(), asked["data"]["executionId"])[1] == "no dice"
            assert (await calling).json()["plugin_error"] == "no dice"

    run(main())


def test_wrong_arguments_from_another_door_never_reach_the_owner(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server, tool_client(server) as owner:
            await registered(owner)
            response = await human(server, "roll", sides="one")
            assert response.status_code == 500
            assert "args.sides" in response.json()["plugin_error"]
            await owner.nothing_waits()

    run(main())


def test_a_call_from_another_door_ends_with_its_owner_its_time_or_its_caller(tmp_path: Path) -> None:
    """WS-11, WS-12, WS-14; the caller's own cancelling is told to the owner."""

    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server:
            router = server.services.router

            def calling(call_id: str) -> asyncio.Task[ToolResult]:
                call = ToolCall(id=call_id, tool="roll", arguments={"sides": 6})
                return asyncio.ensure_future(router.call(call, CallContext(turn_id="t", door=Door.AGENT)))

            async with tool_client(server) as owner:
                await registered(owner, timeoutMs=20)
                result = await calling("c1")
                assert result.error_kind is ErrorKind.TIMEOUT
                assert [one["type"] for one in await told(owner, 3)][2] == "tool_execution_failed"
                await registered(owner)
                task = calling("c2")
                await told(owner, 2)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                cancelled, failed = await told(owner, 2)
                assert cancelled == frame("execution_cancelled", executionId="c2")
                assert "cancelled" in failure(failed, "c2")[1]
                task = calling("c3")
                await told(owner, 2)
                await owner.send(frame("cancel_execution", executionId="c3"))
                assert (await task).error_kind is ErrorKind.CANCELLED
                await told(owner, 2)
                task = calling("c4")
                await told(owner, 2)
            assert (await task).error_kind is ErrorKind.EXECUTION
            assert server.services.tool_clients.running() == 0
            assert (await calling("c5")).error_kind is ErrorKind.UNKNOWN_TOOL

    run(main())


def test_a_model_reads_how_to_call_the_tool_calls_it_and_nothing_of_the_chat_is_told_to_others(tmp_path: Path) -> None:
    """WS-17, D65: {{VCP<Name>}}; D31: what came from a client is never expanded."""
    schema = {
        "type": "object",
        "properties": {"sides": {"type": "integer", "description": "how\nmany {{VarSecret}}"}},
        "required": ["sides"],
    }

    async def main() -> None:
        async with (
            ScriptedUpstream([say(call_text("roll", sides="6")), say("You have a 4.")]) as up,
            running(tmp_path, up.base_url, config=(*CONFIG, "VarSecret=opened")) as server,
            tool_client(server) as owner,
            tool_client(server) as other,
        ):
            await owner.send(register("roll", schema, description="Rolls a die. {{VarSecret}}"))
            await told(owner, 1)
            await told(other, 1)
            system = {"role": "system", "content": "{{VarSecret}} {{VCProll}}"}
            asking = asyncio.ensure_future(server.stream(system, "Roll a die!"))
            assert (await answer(owner, 4))["args"] == {"sides": 6}
            assert (await asking).text.endswith("You have a 4.")
            await other.nothing_waits()
            prompt = up.bodies[0]["messages"][0]["content"]
            assert prompt.startswith("opened - roll (roll) - 命令: N/A:\n    Rolls a die. {{VarSecret}}\n")
            assert "- sides (integer，必需 / , required): how many {{VarSecret}}" in prompt
            assert "tool_name:「始」roll「末」,\n    sides:「始」<integer>「末」" in prompt
            assert '"original_plugin_output": 4' in up.bodies[1]["messages"][-1]["content"][0]["text"]

    run(main())


def test_a_scheduled_call_reaches_the_tool(tmp_path: Path) -> None:
    """WS-17: any tool, later."""

    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server, tool_client(server) as owner:
            await registered(owner)
            soon = datetime.fromtimestamp(time.time() + 2, server.services.config.zone)
            due = soon.strftime("%Y-%m-%d %H:%M:%S")
            response = await human(server, "roll", sides="6", timely_contact=due)
            assert response.json()["status"] == "scheduled"
            assert (await answer(owner, 4))["args"] == {"sides": 6}

    run(main())


def test_our_own_tools_are_run_by_their_name_with_the_same_frames(tmp_path: Path) -> None:
    """WS-17: the server is the owner; the result is that of /v1/human/tool."""
    write_plugin(tmp_path, "Echo", ECHO)

    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            tool_client(server) as caller,
            tool_client(server) as other,
        ):
            await caller.send(execute("e1", "Echo", args={"text": "hello", "maid": "Nova"}))
            for client in (caller, other):
                started, done = await told(client, 2)
                assert started["data"] == {
                    "executionId": "e1",
                    "name": "Echo",
                    "args": {"text": "hello", "maid": "Nova"},
                }
                assert done["type"] == "tool_execution_completed"
                result = done["data"]["result"]
                assert (result["original_plugin_output"], result["MaidName"]) == ("hello", "Nova")
                assert "timestamp" in result
            (ended,) = [event for event in server.events if isinstance(event, CallFinished)]
            assert (ended.context.door, ended.context.client_ip) == (Door.TOOL_SOCKET, "127.0.0.1")
            assert await refused(other, completed("e1")) == "TOOL_NOT_FOUND"

    run(main())


def test_our_own_tool_that_fails_or_is_cancelled_says_so(tmp_path: Path) -> None:
    """WS-14, WS-17."""
    write_plugin(tmp_path, "Fails", 'print(\'{"status": "error", "error": "no luck"}\')')
    write_plugin(tmp_path, "Waits", "import time\ntime.sleep(60)")

    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server, tool_client(server) as caller:
            await caller.send(execute("e1", "Fails"))
            _, failed = await told(caller, 2)
            code, message = failure(failed)
            assert code == "TOOL_EXECUTION_FAILED"
            assert "no luck" in message
            await caller.send(execute("e2", "Waits"))
            await told(caller, 1)
            while not any(isinstance(event, CallStarted) and event.tool == "Waits" for event in server.events):
                await asyncio.sleep(0.01)
            await caller.send(frame("cancel_execution", executionId="e2"))
            assert "cancelled" in failure(await caller.receive(), "e2")[1]
            while not any(isinstance(event, CallFinished) and event.call.tool == "Waits" for event in server.events):
                await asyncio.sleep(0.01)
            assert server.events[-1].outcome is Outcome.CANCELLED  # type: ignore[union-attr]  # the one just found

    run(main())


def test_the_code_is_an_argument_that_nobody_is_told(tmp_path: Path) -> None:
    """D30: the tool password holds at the tool socket too, for our tools and for those of clients."""
    write_plugin(tmp_path, "Echo", ECHO)

    async def main() -> None:
        config = (*CONFIG, "VCPToolCode=true")
        async with (
            running(tmp_path, UPSTREAM, config=config) as server,
            tool_client(server) as owner,
            tool_client(server) as caller,
        ):
            write_auth_code(tmp_path)
            code = AuthCode(tmp_path)()
            await registered(owner, caller)
            for name, arguments in (("Echo", {"text": "hi"}), ("roll", {"sides": 6})):
                for given in ({}, {"tool_password": "000000"}, {"tool_password": 5}):
                    await caller.send(execute("e1", name, args={**arguments, **given}))
                    for client in (owner, caller):
                        started, failed = await told(client, 2)
                        assert started["data"]["args"] == arguments
                        assert failure(failed)[0] == "TOOL_EXECUTION_FAILED"
            await caller.send(execute("e1", "roll", args={"sides": 6, "Tool-Password": code}))
            asked = await answer(owner, 2)
            assert asked["args"] == {"sides": 6}
            assert [one["type"] for one in await told(caller, 2)][1] == "tool_execution_completed"
            await told(owner, 1)
            await caller.send(execute("e1", "Echo", args={"text": "hi", "tool_password": code}))
            _, done = await told(caller, 2)
            assert done["data"]["result"]["original_plugin_output"] == "hi"

    run(main())


def test_without_a_code_tool_password_is_an_argument_like_any_other(tmp_path: Path) -> None:
    """Spec 4.2."""

    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server, tool_client(server) as owner:
            await registered(owner)
            await owner.send(execute(args={"sides": 6, "tool_password": "x"}))
            assert (await told(owner, 2))[1]["data"]["args"] == {"sides": 6, "tool_password": "x"}

    run(main())


def test_names_of_the_servers_tools_are_taken(tmp_path: Path) -> None:
    """WS-4, D68: also the name of a plugin with its command."""
    manifest = {"capabilities": {"invocationCommands": [{"command": "say", "description": "d", "example": "e"}]}}
    write_plugin(tmp_path, "Echo", ECHO, **manifest)

    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            tool_client(server) as client,
            tool_client(server) as other,
        ):
            for name in ("Echo", " Echo ", "Echo.say"):
                assert await refused(client, register(name)) == "TOOL_EXISTS"
            await registered(client, other, name="Echo.sing")
            await registered(client, other, name="echo")

    run(main())


def test_names_whose_placeholder_is_something_else_are_taken(tmp_path: Path) -> None:
    """D68: {{VCP<Name>}} of a static plugin, of all tools and of results of background plugins stay what they are."""
    placeholders = {"systemPromptPlaceholders": [{"placeholder": "{{VCPWeatherInfo}}"}]}
    write_plugin(tmp_path, "Weather", "", pluginType="static", capabilities=placeholders)

    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server, tool_client(server) as client:
            for name in ("WeatherInfo", "AllTools", "_ASYNC_RESULT::Echo::7"):
                assert await refused(client, register(name)) == "TOOL_EXISTS", name
            await registered(client, name="Weather_Info")

    run(main())


@pytest.mark.parametrize("approved", [True, False])
def test_a_call_that_needs_approval_waits_for_it(tmp_path: Path, approved: bool) -> None:
    """Spec 7.6: the start is told, the owner is asked when somebody has said yes."""

    async def main() -> None:
        wants(tmp_path, "roll")
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            person(server) as somebody,
            tool_client(server) as owner,
            tool_client(server) as caller,
        ):
            await registered(owner, caller)
            await caller.send(execute(args={"sides": 6}))
            request = await asked(somebody)
            assert (request["toolName"], request["args"]) == ("roll", {"sides": 6})
            await told(owner, 1)
            await says(somebody, request["requestId"], approved, "not now")
            if approved:
                await answer(owner, 4)
                assert (await told(caller, 2))[1] == completed()
            else:
                code, message = failure((await told(caller, 2))[1])
                assert code == "TOOL_EXECUTION_FAILED"
                assert "not now" in message
                assert [one["type"] for one in await told(owner, 1)] == ["tool_execution_failed"]

    run(main())


@pytest.mark.parametrize("who", ["owner", "caller"])
def test_a_call_that_waits_for_approval_ends_with_its_owner_and_by_cancelling(tmp_path: Path, who: str) -> None:
    """WS-12, WS-14: nobody is asked any more."""

    async def main() -> None:
        wants(tmp_path, "roll")
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            person(server) as somebody,
            tool_client(server) as caller,
        ):
            async with tool_client(server) as owner:
                await registered(owner, caller)
                await caller.send(execute(args={"sides": 6}))
                await asked(somebody)
                await told(caller, 1)
                if who == "caller":
                    await caller.send(frame("cancel_execution", executionId="e1"))
                    assert failure(await caller.receive())[0] == "TOOL_EXECUTION_FAILED"
                    assert (await settled(somebody))["approved"] is None
            if who == "owner":
                assert failure(await caller.receive())[0] == "TOOL_EXECUTION_FAILED"
                assert (await settled(somebody))["approved"] is None
            assert server.services.tool_clients.running() == 0

    run(main())


def test_the_log_names_the_door(tmp_path: Path) -> None:
    """D66: vcp_log of runs that begin on the tool socket."""
    write_plugin(tmp_path, "Echo", ECHO)

    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            person(server) as reader,
            tool_client(server) as client,
        ):
            await registered(client)
            await client.send(execute("e1", args={"sides": 6}))
            await answer(client, 4)
            logged = (await reader.receive_type("vcp_log"))["data"]
            assert (logged["tool_name"], logged["status"], logged["source"]) == ("roll", "success", "tool_socket")
            await client.send(execute("e2", "Echo", args={"text": "hi"}))
            logged = (await reader.receive_type("vcp_log"))["data"]
            assert (logged["tool_name"], logged["status"], logged["source"]) == ("Echo", "success", "tool_socket")

    run(main())


def test_tool_clients_are_counted(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            tool_client(server),
            tool_client(server),
            person(server),
        ):
            numbers = (await server.client.get("/metrics")).text
            assert 'vcp_clients{type="ToolClient"} 2' in numbers
            assert 'vcp_clients{type="VCPLog"} 1' in numbers

    run(main())


def test_a_plugin_that_appears_later_hides_the_tool_and_gives_the_name_back_when_it_goes(tmp_path: Path) -> None:
    """D68; the tool stays registered, and the router's listeners are told."""

    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server, tool_client(server) as owner:
            changes: list[int] = []
            server.services.tool_clients.changed(lambda: changes.append(1))
            await registered(owner, name="Echo")
            await registered(owner, name="roll")
            assert len(changes) == 2
            write_plugin(tmp_path, "Echo", ECHO)
            await server.services.reload()
            assert set(server.services.tool_clients.tools()) == {"roll"}
            assert len(changes) == 3
            await owner.send({"type": "list_tools"})
            assert [tool["name"] for tool in (await owner.receive())["data"]["tools"]] == ["roll"]
            await owner.send(execute("e1", "Echo", args={"text": "ours"}))
            _, done = await told(owner, 2)
            assert done["data"]["result"]["original_plugin_output"] == "ours"
            shutil.rmtree(tmp_path / "Plugin" / "Echo")
            await server.services.reload()
            assert set(server.services.tool_clients.tools()) == {"roll", "Echo"}
            await owner.send(execute("e2", "Echo", args={"sides": 6}))
            assert [one["type"] for one in await told(owner, 2)] == ["tool_execution_started", "execute_tool"]

    run(main())


def test_ordinary_tools_are_described_with_schema_and_example(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server, tool_client(server) as owner:
            await registered(owner, description="Rolls a die.")
            (client,) = server.services.tool_clients.clients()
            spec = server.services.router.specs()["roll"]
            assert spec.origin == f"socket:{client.id}"
            (command,) = spec.commands
            assert command.parameters == ROLL
            assert command.description.startswith("Rolls a die.\n")
            assert "- sides (integer，必需 / , required)" in command.description
            assert "sides:「始」<integer>「末」" in command.example
            assert "tool_name:「始」roll「末」" in command.example
            json.dumps(command.parameters)

    run(main())
