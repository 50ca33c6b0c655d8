"""What a running server shows MCP clients beside tools (mcp.md MCP-17, MCP-28, MCP-29)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequestParams, ElicitResult, PromptReference, ResourceTemplateReference

from app.config.snapshot import load
from app.extend import Reloaded, ShelfChanged
from app.services.mcp_shelves import wanted_kinds
from tests.plugins.modules import write_module
from tests.server import ECHO, HEADERS, Running, run, running, write_plugin
from tests.waiting import until
from tests.web.mcp_posts import NOWHERE, modern, opened, post

CONFIG = ["MCPResources=diaries,agents,results,plugins", "MCPPrompts=No*", "TarName=小明", "Image_Key=picture-key"]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def furnished(home: Path) -> None:
    write(home / "agent_map.json", json.dumps({"Nova": "Nova.txt", "Other": "Nova.txt"}))
    write(home / "Agent" / "Nova.txt", "你是 Nova，主人是 {{TarName}}。日记：{{小克日记本}}")
    write(home / "dailynote" / "小克" / "a.txt", "今天 {{TarName}}")
    write_plugin(home, "Echo", ECHO)


def client(server: Running, http: httpx2.AsyncClient, mode: Any) -> Client:
    return Client(streamable_http_client(f"{server.url}/mcp", http_client=http), mode=mode)


def test_prompts_are_expanded_as_system_messages_are_and_resources_are_read_as_they_lie_there(tmp_path: Path) -> None:
    """D9: what comes from a diary is data in the prompt too."""

    async def main() -> None:
        async with running(tmp_path, NOWHERE, config=CONFIG) as server:
            furnished(tmp_path)
            for mode in ("legacy", "auto"):
                async with (
                    httpx2.AsyncClient(headers=HEADERS, trust_env=False) as http,
                    client(server, http, mode) as mcp,
                ):
                    assert [prompt.name for prompt in (await mcp.list_prompts()).prompts] == ["Nova"]
                    prompt = await mcp.get_prompt("Nova", {"input": "你好 {{TarName}}"})
                    assert [message.content.text for message in prompt.messages] == [
                        "你是 Nova，主人是 小明。日记：今天 {{TarName}}",
                        "你好 {{TarName}}",
                    ]
                    (content,) = (await mcp.read_resource("agent://Nova")).contents
                    assert "{{TarName}}" in content.text
                    completed = await mcp.complete(
                        ResourceTemplateReference(type="ref/resource", uri="diary://{notebook}/{file}"),
                        {"name": "notebook", "value": "小"},
                    )
                    assert completed.completion.values == ["小克"]
                    none = await mcp.complete(
                        PromptReference(type="ref/prompt", name="Nova"), {"name": "input", "value": ""}
                    )
                    assert none.completion.values == []
                    for wrong, code in (("Other", -32602), ("nobody", -32602)):
                        with pytest.raises(MCPError) as refused:
                            await mcp.get_prompt(wrong)
                        assert refused.value.code == code

    run(main())


def test_mcp_28_mcp_31_an_unknown_resource_has_the_code_of_its_era_and_lists_are_private(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, NOWHERE, config=CONFIG) as server:
            session = await opened(server)
            assert (await session.call("resources/read", {"uri": "agent://nobody"}))["error"]["code"] == -32002
            uri = "agent://nobody"
            headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": "resources/read", "mcp_name": uri}
            unknown = await post(server.client, modern("resources/read", {"uri": uri}), **headers)
            assert unknown.json()["error"]["code"] == -32602
            for method in ("resources/list", "resources/templates/list", "prompts/list"):
                headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": method}
                result = (await post(server.client, modern(method), **headers)).json()["result"]
                assert (result["ttlMs"], result["cacheScope"]) == (0, "private")

    run(main())


def test_nothing_is_shown_that_the_settings_of_now_do_not_name(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, NOWHERE) as server:
            furnished(tmp_path)
            session = await opened(server)
            assert (await session.call("resources/list"))["result"]["resources"] == []
            assert (await session.call("resources/templates/list"))["result"]["resourceTemplates"] == []
            assert (await session.call("prompts/list"))["result"]["prompts"] == []
            assert "error" in await session.call("resources/read", {"uri": "agent://Nova"})
            file = tmp_path / "config.env"
            file.write_text(file.read_text(encoding="utf-8") + "MCPResources=agents\n", encoding="utf-8")
            server.services.apply(load(tmp_path, {}))
            names = [one["name"] for one in (await session.call("resources/list"))["result"]["resources"]]
            assert names == ["Nova", "Other"]
            assert "error" in await session.call("resources/read", {"uri": "diary://%E5%B0%8F%E5%85%8B/a.txt"})

    run(main())


def test_mcp_28_a_session_hears_of_results_it_watches_and_all_hear_of_new_lists(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, NOWHERE, config=CONFIG) as server:
            write_plugin(tmp_path, "Video", ECHO, pluginType="asynchronous")
            await server.services.reload()
            session = await opened(server)
            await session.call("resources/subscribe", {"uri": "result://Video/1"})
            headers = {"accept": "text/event-stream", "mcp-session-id": session.id}
            heard: set[str] = set()
            async with server.client.stream("GET", "/mcp", headers=headers) as stream:
                for task in ("2", "1"):
                    await server.client.post(f"/plugin-callback/Video/{task}", json={"status": "Succeed"})
                server.services.events.publish(Reloaded(("agents",)))
                async for line in stream.aiter_lines():
                    if line.startswith("data:") and line[5:].strip():
                        message = json.loads(line[5:])
                        heard.add(
                            message["method"].removeprefix("notifications/") + message.get("params", {}).get("uri", "")
                        )
                    if {"resources/list_changed", "prompts/list_changed", "resources/updatedresult://Video/1"} <= heard:
                        break
            assert "resources/updatedresult://Video/2" not in heard

    run(main())


def test_words_that_name_no_resources_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = load(tmp_path, {"API_URL": "http://127.0.0.1:9", "MCPResources": "agents,fils,files"}).settings
    kinds = {"agents": "A", "diaries": "D", "files": "F"}
    assert wanted_kinds(kinds, settings) == ("A",)  # type: ignore[arg-type]
    assert "there is no fils;" in caplog.text
    assert "MCPFilesRoot names no folder" in caplog.text


BRINGS = """
from app.extend import OfferedResource, PromptArgument, Question, ResourceContent

class Orders:
    scheme = "orders"
    def resources(self):
        return [OfferedResource("orders://1", "one")]
    def read(self, uri):
        return ResourceContent("paper") if uri == "orders://1" else None

class Refuses:
    scheme = "refuses"
    def resources(self):
        raise RuntimeError("out of order")
    read = resources

class Plan:
    name = "plan"
    description = "makes a plan"
    arguments = [PromptArgument("what", required=True)]
    def __init__(self, context):
        self.context = context
    def get(self, arguments, context):
        form = {"message": "When?", "requestedSchema": {"type": "object", "properties": {"when": {"type": "string"}}}}
        answer = self.context.wait(context.caller.ask(Question.ELICIT, form, key="when"))
        self.context.shelf_changed("orders://1")
        self.context.shelf_changed()
        return f"{arguments['what']} on {answer['content']['when']}"

class Plugin:
    def __init__(self, context):
        self.context = context
    def resources(self):
        return [Refuses(), Orders()]
    def prompts(self):
        return [Plan(self.context)]

def create(context):
    return Plugin(context)
"""


def test_mcp_16_mcp_28_mcp_29_mcp_30_a_plugin_brings_resources_and_prompts_that_ask(tmp_path: Path) -> None:
    """Also without a word in the settings: who installs a plugin wants what it brings. One that fails costs itself."""

    async def main() -> None:
        write_module(tmp_path, "Orders", BRINGS)
        async with running(tmp_path, NOWHERE) as server:
            session = await opened(server)
            listed = (await session.call("resources/list"))["result"]["resources"]
            assert [one["uri"] for one in listed] == ["orders://1"]
            read = (await session.call("resources/read", {"uri": "orders://1"}))["result"]
            assert read["contents"] == [{"uri": "orders://1", "mimeType": "text/plain", "text": "paper"}]
            missing = (await session.call("resources/read", {"uri": "orders://2"}))["error"]
            assert (missing["code"], missing["data"]) == (-32002, {"uri": "orders://2"})
            refusing = (await session.call("resources/read", {"uri": "refuses://1"}))["error"]
            assert refusing["code"] == -32603 and "out of order" not in refusing["message"]
            assert [one["name"] for one in (await session.call("prompts/list"))["result"]["prompts"]] == ["plan"]
            nothing = (await session.call("prompts/get", {"name": "plan"}))["error"]
            assert nothing["code"] == -32602 and "what" in nothing["message"]

            async def elicited(_context: Any, params: ElicitRequestParams) -> ElicitResult:
                return ElicitResult(action="accept", content={"when": params.message})

            heard: list[ShelfChanged] = []
            server.services.events.listen(heard.append, ShelfChanged)  # type: ignore[arg-type]
            for mode in ("legacy", "2026-07-28"):
                async with httpx2.AsyncClient(headers=HEADERS, trust_env=False) as http:
                    transport = streamable_http_client(f"{server.url}/mcp", http_client=http)
                    async with Client(transport, mode=mode, elicitation_callback=elicited) as mcp:
                        made = await mcp.get_prompt("plan", {"what": "tea"})
                        assert [one.content.text for one in made.messages] == ["tea on When?"]
            assert heard == [ShelfChanged("Orders", "orders://1"), ShelfChanged("Orders")] * 2

    run(main())


def test_mcp_16_clients_hear_of_what_a_plugin_says_has_changed(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, NOWHERE) as server:
            session = await opened(server)
            await session.call("resources/subscribe", {"uri": "orders://1"})
            headers = {"accept": "text/event-stream", "mcp-session-id": session.id}
            heard: list[str] = []
            async with server.client.stream("GET", "/mcp", headers=headers) as stream:
                for uri in ("orders://2", "orders://1", ""):
                    server.services.events.publish(ShelfChanged("Orders", uri))
                async for line in stream.aiter_lines():
                    if line.startswith("data:") and line[5:].strip():
                        message = json.loads(line[5:])
                        told = message["method"].removeprefix("notifications/")
                        heard.append(told + message.get("params", {}).get("uri", ""))
                    if len(heard) == 3:
                        break
            assert sorted(heard) == [
                "prompts/list_changed",
                "resources/list_changed",
                "resources/updatedorders://1",
            ]

    run(main())


def test_mcp_16_clients_hear_of_notes_that_came_changed_or_went_whoever_wrote_them(tmp_path: Path) -> None:
    """A subscriber of one note, which a person edits in the folder, and which is deleted over HTTP."""
    config = [
        "MCPResources=diaries",
        "KNOWLEDGEBASE_BATCH_WINDOW_MS=100",
        "MemoryEmbedder=hashing",
        "AdminUsername=a",
        "AdminPassword=long-enough-word",
    ]

    async def main() -> None:
        write(tmp_path / "dailynote" / "小克" / "a.txt", "第一稿")
        write(tmp_path / "dailynote" / "小克" / "b.txt", "别的")
        async with running(tmp_path, NOWHERE, config=config) as server:
            uri = "diary://%E5%B0%8F%E5%85%8B/a.txt"
            index = server.services.memory.index
            await until(lambda: index.index is not None and index.index.notebooks())
            session = await opened(server)
            await session.call("resources/subscribe", {"uri": uri})
            headers = {"accept": "text/event-stream", "mcp-session-id": session.id}
            async with server.client.stream("GET", "/mcp", headers=headers) as stream:
                lines = stream.aiter_lines()

                async def heard() -> tuple[str, str]:
                    async for line in lines:
                        if line.startswith("data:") and line[5:].strip():
                            message = json.loads(line[5:])
                            return message["method"], message.get("params", {}).get("uri", "")
                    raise AssertionError("the stream has ended")

                write(tmp_path / "dailynote" / "小克" / "a.txt", "第二稿，长一些")
                while (await heard()) != ("notifications/resources/updated", uri):
                    pass  # the list, when the session began
                (content,) = (await session.call("resources/read", {"uri": uri}))["result"]["contents"]
                assert content["text"] == "第二稿，长一些"
                sent = {"notesToDelete": [{"folder": "小克", "file": "a.txt"}]}
                path = "/admin_api/dailynotes/delete-batch"
                gone = await server.client.post(path, json=sent, auth=("a", "long-enough-word"))
                assert gone.status_code == 200, gone.text
                told = {await heard(), await heard()}
                assert told == {
                    ("notifications/resources/list_changed", ""),
                    ("notifications/resources/updated", uri),
                }

    run(main())
