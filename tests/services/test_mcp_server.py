"""The MCP server of a whole installation: plugins, nodes, tool clients, approval, reload."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import ElicitRequestParams, ElicitResult

from app.reload.watcher import Pace
from app.services import Services
from tests.hub.approval.approving import Tools, approving, asked, person, says, settled, wants
from tests.hub.nodes.wire_nodes import CONFIG, UPSTREAM, manifest, node
from tests.hub.tool_clients.wire_tool_clients import completed, registered, tool_client
from tests.mcp.server.bench import ERAS, MODERN
from tests.mcp.server.raw import connected, modern
from tests.plugins.modules import alone, serving, write_module
from tests.server import ECHO, run, running, write_plugin
from tests.waiting import until

__all__ = ["alone"]


@asynccontextmanager
async def client_of(services: Services, era: str, **options: Any) -> AsyncIterator[Client]:
    """A client of the SDK at the installation's door."""
    door = await services.mcp.serving.door()
    async with Client(door.server, mode=era, **options) as client:
        yield client


def test_a_server_that_nobody_asks_for_mcp_does_not_import_the_sdk(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from tests.web.asgi import app_in\n"
        "from tests.plugins.modules import alone, serving\n"
        "import app.cli.check, app.cli.node, app.cli.serve, app.cli.tool\n"
        "async def main(home):\n"
        "    async with serving(home) as services:\n"
        "        app_in(home / 'other')\n"
        "        print(sorted(name for name in sys.modules if name.split('.')[0] in ('mcp', 'mcp_types')))\n"
        "asyncio.run(main(Path(sys.argv[1])))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]", done.stdout


@pytest.mark.parametrize("era", ERAS)
def test_an_in_process_plugin_tells_how_far_it_is_and_asks_its_caller(alone: Path, era: str) -> None:
    """MCP-12: ``context.progress``, from a thread as well; MCP-30: ``context.caller``."""
    write_module(
        alone,
        "Walker",
        """
        from app.extend import Question

        def create(context):
            class P:
                async def call(self, call, within):
                    context.progress(call, 1, 2, "half")
                    await __import__("asyncio").to_thread(context.progress, call, 2, 2)
                    form = {"mode": "form", "message": "Go on?", "requestedSchema": {
                        "type": "object", "properties": {"yes": {"type": "boolean"}}}}
                    answer = await within.caller.ask(Question.ELICIT, form)
                    return {"walked": answer["content"]}
            return P()
        """,
    )

    async def main() -> None:
        heard: list[tuple[float, float | None, str | None]] = []

        async def hear(done: float, total: float | None, message: str | None) -> None:
            heard.append((done, total, message))

        async def answer(_context: Any, params: ElicitRequestParams) -> ElicitResult:
            return ElicitResult(action="accept", content={"yes": True})

        async with serving(alone) as services, client_of(services, era, elicitation_callback=answer) as client:
            result = await client.call_tool("Walker", {}, progress_callback=hear)
            assert result.structured_content == {"walked": {"yes": True}}
            await until(lambda: heard)
            assert heard[-1][:2] == (2, 2)

    run(main())


def test_the_fields_of_a_manifest_are_those_of_the_tool(alone: Path) -> None:
    """MCP-20, MCP-23, MCP-25, D31: title, outputSchema, annotations, operator values; no key is ever shown."""
    command = {
        "commandIdentifier": "run",
        "description": "At {{Port}} for {{VarWho}}, {{Image_Key}}, {{TarFile}}",
        "title": "跑",
        "outputSchema": {"type": "object", "required": ["n"]},
        "annotations": {"readOnlyHint": True, "destructiveHint": "no", "custom": 1},
    }
    write_plugin(alone, "Runner", "", capabilities={"invocationCommands": [command, {**command, "title": 7}]})
    write_plugin(alone, "Single", "", capabilities={"invocationCommands": [command]})

    async def main() -> None:
        config = ("PORT=7001", "VarWho=Nova", "TarFile=a.txt", "Image_Key=secret-key-1")
        async with serving(alone, *config) as services, client_of(services, MODERN) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            tool = tools["Single"]
            assert tool.description == "At 7001 for Nova, {{Image_Key}}, {{TarFile}}"
            assert (tool.title, tool.output_schema) == ("跑", {"type": "object", "required": ["n"]})
            assert tool.annotations is not None and tool.annotations.read_only_hint is True
            assert tool.annotations.destructive_hint is None

    run(main())


def test_mcp_26_a_background_plugin_answers_at_once_with_its_text_and_id(alone: Path) -> None:
    script = """
    import json, time
    print(json.dumps({"status": "success", "result": {"task_id": "w-1", "say": "later"}}), flush=True)
    time.sleep(60)
    """
    write_plugin(alone, "Worker", script, pluginType="asynchronous")

    async def main() -> None:
        async with serving(alone, "ShutdownSeconds=0.2") as services, client_of(services, MODERN) as client:
            result = await client.call_tool("Worker", {})
            assert result.structured_content == {"task_id": "w-1", "say": "later"}
            assert "w-1" in result.content[0].text  # type: ignore[union-attr]

    run(main())


def test_d39_values_of_mcp_become_texts_for_untyped_plugins_and_stay_for_typed_ones(alone: Path) -> None:
    script = """
    import json, sys
    print(json.dumps({"status": "success", "result": {"got": json.loads(sys.stdin.read())}}))
    """
    write_plugin(alone, "Plain", script)
    command = {"commandIdentifier": "run", "description": "d", "typed": True}
    write_plugin(alone, "Typed", script, capabilities={"invocationCommands": [command]})

    async def main() -> None:
        async with serving(alone) as services, client_of(services, MODERN) as client:
            arguments = {"a": True, "b": 1.5, "c": [1, {"d": None}], "e": None, "f": "x"}
            plain = await client.call_tool("Plain", arguments)
            assert plain.structured_content == {"got": {"a": "true", "b": "1.5", "c": '[1,{"d":null}]', "f": "x"}}
            typed = await client.call_tool("Typed", arguments)
            assert typed.structured_content == {"got": arguments}

    run(main())


def test_mcp_16_a_reload_of_rules_and_plugins_is_told(alone: Path) -> None:
    async def main() -> None:
        write_plugin(alone, "Shown", "")
        async with running(alone, UPSTREAM, config=["MCPDeny=Shown,Later"], pace=Pace(look_every=60)) as server:
            door = await server.services.mcp.serving.door()
            async with connected(door) as raw:

                async def names() -> list[str]:
                    return [tool["name"] for tool in (await raw.ask("tools/list"))["result"]["tools"]]

                await raw.hello()
                assert await names() == []
                settings = alone / "config.env"
                settings.write_text(settings.read_text().replace("MCPDeny=Shown,Later", "MCPDeny=Later"))
                await server.services.reload()
                await raw.note("notifications/tools/list_changed")
                assert await names() == ["Shown"]
                write_plugin(alone, "Another", "")
                await server.services.reload()
                await raw.note("notifications/tools/list_changed")
                assert await names() == ["Another", "Shown"]

    run(main())


@pytest.mark.parametrize("era", ["2025-11-25", MODERN])
def test_ws_17_tools_of_tool_clients_and_nodes_are_mcp_tools_while_they_are_there(tmp_path: Path, era: str) -> None:
    """MCP-16: their coming and going is told."""
    changed = "notifications/tools/list_changed"

    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server:
            door = await server.services.mcp.serving.door()
            async with connected(door) as raw:

                async def names() -> dict[str, Any]:
                    answer = await raw.ask("tools/list", modern() if era == MODERN else None)
                    return {tool["name"]: tool for tool in answer["result"]["tools"]}

                if era == MODERN:
                    await raw.send(
                        "subscriptions/listen", modern({"notifications": {"toolsListChanged": True}}), id="s"
                    )
                    await raw.note("notifications/subscriptions/acknowledged")
                else:
                    await raw.hello()
                assert "roll" not in await names()
                async with tool_client(server) as owner:
                    await registered(owner)
                    await raw.note(changed)
                    assert (await names())["roll"]["inputSchema"]["required"] == ["sides"]
                    params: dict[str, Any] = {"name": "roll", "arguments": {"sides": 6}}
                    await raw.send("tools/call", modern(params) if era == MODERN else params, id="c")
                    request = await owner.receive()
                    await owner.send(completed(request["data"]["executionId"], {"rolled": 4}))
                    result = (await raw.reply("c"))["result"]
                    assert result["structuredContent"] == {"rolled": 4}
                await raw.note(changed)
                assert "roll" not in await names()
                async with node(server) as far:
                    await far.register("far", manifest("Remote"))
                    await raw.note(changed)
                    assert (await names())["Remote"]["description"].startswith("Runs Remote.")
                await raw.note(changed)
                assert "Remote" not in await names()

    run(main())


# --- approval -------------------------------------------------------------------------------------------------------


def answering(action: str, content: dict[str, Any] | None, forms: list[str]) -> Any:
    async def answer(_context: Any, params: ElicitRequestParams) -> ElicitResult:
        forms.append(params.message)
        return ElicitResult(action=action, content=content)  # type: ignore[arg-type]

    return answer


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("action", "content", "runs"),
    [("accept", {"approve": True}, True), ("accept", {"approve": False}, False), ("decline", None, False)],
)
def test_a_dangerous_call_is_asked_about_at_the_client_that_called(
    tmp_path: Path, era: str, action: str, content: dict[str, Any] | None, runs: bool
) -> None:
    """Spec 7.6, MCP-30: the form shows the arguments, without passwords; declined is rejected.

    However long one argument is, those behind it are shown.
    """

    async def main() -> None:
        tools, forms = Tools("Danger", "Harmless"), []
        async with approving(tmp_path, tools) as (server, _):
            callback = answering(action, content, forms)
            async with client_of(server.services, era, elicitation_callback=callback) as client:
                assert not (await client.call_tool("Harmless.Read", {})).is_error
                assert forms == []
                given = {"note": "x" * 20_000, "what": "all", "tool_password": "123456"}
                result = await client.call_tool("Danger.Delete", given)
                assert result.is_error is not runs
                assert len(forms) == 1 and '"what": "all"' in forms[0] and "123456" not in forms[0]
                assert tools.names == (["Harmless", "Danger"] if runs else ["Harmless"])
            assert server.services.approvals.pending() == ()

    run(main())


@pytest.mark.parametrize("era", ERAS)
def test_a_form_that_is_closed_leaves_the_decision_to_others(tmp_path: Path, era: str) -> None:
    async def main() -> None:
        tools, forms = Tools("Danger"), []
        async with approving(tmp_path, tools) as (server, _), person(server) as wire:
            callback = answering("cancel", None, forms)
            async with client_of(server.services, era, elicitation_callback=callback) as client:
                call = asyncio.create_task(client.call_tool("Danger.Delete", {}))
                request = await asked(wire)
                await until(lambda: forms)
                await says(wire, request["requestId"], True)
                assert not (await call).is_error
            assert tools.names == ["Danger"]

    run(main())


def test_the_first_answer_counts_and_the_client_is_asked_no_more(tmp_path: Path) -> None:
    async def main() -> None:
        tools = Tools("Danger")
        async with approving(tmp_path, tools) as (server, _), person(server) as wire:
            door = await server.services.mcp.serving.door()
            async with connected(door) as raw:
                await raw.hello(elicitation={})
                await raw.send("tools/call", {"name": "Danger.Delete"}, id=1)
                request = await asked(wire)
                while not raw.asked:
                    await raw.take()
                await says(wire, request["requestId"], True)
                await settled(wire)
                assert "isError" not in (await raw.reply(1))["result"]
                (form,) = raw.asked
                cancelled = [note for note in raw.notes if note["method"] == "notifications/cancelled"]
                assert [note["params"]["requestId"] for note in cancelled] == [form["id"]]
                await raw.put({"jsonrpc": "2.0", "id": form["id"], "result": {"action": "decline"}})
                assert "result" in await raw.ask("ping")
            assert tools.names == ["Danger"]

    run(main())


def test_without_a_session_the_result_waits_for_the_client_when_somebody_else_answered(tmp_path: Path) -> None:
    async def main() -> None:
        tools = Tools("Danger")
        async with approving(tmp_path, tools) as (server, _), person(server) as wire:
            door = await server.services.mcp.serving.door()
            async with connected(door) as raw:
                params: dict[str, Any] = {"name": "Danger.Delete", "arguments": {}}
                first = (await raw.ask("tools/call", modern(params, elicitation={})))["result"]
                assert first["resultType"] == "input_required"
                await says(wire, (await asked(wire))["requestId"], True)
                await settled(wire)
                await until(lambda: tools.names)
                (key,) = first["inputRequests"]
                params |= {"requestState": first["requestState"], "inputResponses": {key: {"action": "decline"}}}
                result = (await raw.ask("tools/call", modern(params, elicitation={})))["result"]
                assert "isError" not in result
            assert tools.names == ["Danger"]

    run(main())


@pytest.mark.parametrize("era", ERAS)
def test_a_client_that_shows_no_forms_waits_for_a_person_elsewhere(tmp_path: Path, era: str) -> None:
    async def main() -> None:
        tools = Tools("Danger")
        async with approving(tmp_path, tools) as (server, _), person(server) as wire:
            async with client_of(server.services, era) as client:
                call = asyncio.create_task(client.call_tool("Danger.Delete", {}))
                await says(wire, (await asked(wire))["requestId"], False, "not now")
                result = await call
                assert result.is_error and "not now" in result.content[0].text  # type: ignore[union-attr]
            assert tools.names == []

    run(main())


def test_the_call_of_a_plugin_within_a_call_is_asked_about_at_the_client_too(tmp_path: Path) -> None:
    write_module(
        tmp_path,
        "Asks",
        """
        def create(context):
            class P:
                async def call(self, call, within):
                    result = await context.call_tool("Danger.Delete", {})
                    return {"text": result.structured}
            return P()
        """,
    )

    async def main() -> None:
        tools, forms = Tools("Danger"), []
        async with approving(tmp_path, tools) as (server, _):
            callback = answering("accept", {"approve": True}, forms)
            async with client_of(server.services, MODERN, elicitation_callback=callback) as client:
                result = await client.call_tool("Asks", {})
                assert result.structured_content == {"text": "Danger said"}
            assert len(forms) == 1

    run(main())


@pytest.mark.parametrize("era", ERAS)
def test_without_a_server_the_client_is_the_only_one_who_can_be_asked(alone: Path, era: str) -> None:
    """As in ``vcp mcp``: a client that shows forms decides, for all others nobody could."""
    wants(alone, "Danger")
    write_plugin(alone, "Danger", ECHO)

    async def main() -> None:
        forms: list[str] = []
        async with serving(alone) as services:
            callback = answering("accept", {"approve": True}, forms)
            async with client_of(services, era, elicitation_callback=callback) as client:
                assert not (await client.call_tool("Danger", {"text": "x"})).is_error
            async with client_of(services, era) as client:
                refused = await client.call_tool("Danger", {"text": "x"})
                assert refused.is_error and "vcp approve" in refused.content[0].text  # type: ignore[union-attr]
        assert len(forms) == 1

    run(main())
