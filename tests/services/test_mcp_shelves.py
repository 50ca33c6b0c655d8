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
from mcp_types import PromptReference, ResourceTemplateReference

from app.config.snapshot import load
from app.extend import Reloaded
from app.services.mcp_shelves import wanted_kinds
from tests.server import ECHO, HEADERS, Running, run, running, write_plugin
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
