"""Independent clients of the Model Context Protocol against the real program, over HTTP and over its pipes (STD-50).

The inspector, and the official SDK in its older (1.30) and its present form; all revisions of the protocol.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    ListRootsResult,
    Root,
    TextContent,
)

from tests.cli.mcp_program import mcp
from tests.mcp.stdio.wires import MODERN as ENVELOPE
from tests.mcp.stdio.wires import initialize, notification, request
from tests.program import ROOT, VCP, Program, environment, started
from tests.server import ECHO, run, write_plugin

pytestmark = pytest.mark.external

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
INSPECTOR = (
    str(MODULES / ".bin" / "node"),
    str(MODULES / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js"),
    "--cli",
)
OLDER = (str(HERE / ".peer" / "bin" / "python"), str(HERE / "mcp_older_client.py"))

ALL_SECONDS = 600
CLIENT_SECONDS = 110
"""Longest times of a server and of one client: many programs start here, on machines that may have much to do."""

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"

ADDER = """
import json, sys
arguments = json.loads(sys.stdin.read())
print(json.dumps({"status": "success", "result": {"sum": arguments["a"] + arguments["b"]}}))
"""


def typed(command: str, **properties: str) -> dict[str, Any]:
    """A manifest's capabilities with one command whose arguments are all required."""
    schema = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }
    described = {"commandIdentifier": command, "description": f"Does {command}.", "parameters": schema, "typed": True}
    return {"capabilities": {"invocationCommands": [described]}}


def write_home(home: Path) -> Path:
    write_plugin(home, "Echo", ECHO, **typed("echo", text="string"))
    write_plugin(home, "Adder", ADDER, **typed("add", a="integer", b="integer"))
    shutil.copytree(HERE / "conformance" / "Plugin", home / "Plugin", dirs_exist_ok=True)
    return home


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    home = write_home(tmp_path_factory.mktemp("home"))
    with started("serve", "--port", "0", cwd=home, longest=ALL_SECONDS) as program:
        yield program


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A server that shows two tools."""
    home = write_home(tmp_path_factory.mktemp("small"))
    (home / "config.env").write_text("MCPAllow=Echo,Adder\n", encoding="utf-8")
    with started("serve", "--port", "0", cwd=home, longest=ALL_SECONDS) as program:
        yield program


def address(program: Program) -> str:
    return program.base_url.removesuffix("/v1") + "/mcp"


# --- the inspector ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Inspected:
    code: int
    out: str
    errors: str

    @property
    def answer(self) -> Any:
        return json.loads(self.out)


def inspected(target: tuple[str, ...], folder: Path, *words: str) -> Inspected:
    done = subprocess.run(
        (*INSPECTOR, *target, *words, "--connect-timeout", f"{CLIENT_SECONDS}000"),
        cwd=folder,
        env={**environment(), "HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=CLIENT_SECONDS,
    )
    return Inspected(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("way", ["stdio", "http"])
def test_std_50_the_inspector_lists_and_calls_every_tool(small: Program, tmp_path: Path, way: str) -> None:
    """Over our pipes it starts the program in a home of its own; its exit code tells a script how it went."""
    if way == "http":
        target: tuple[str, ...] = (address(small), "--header", f"Authorization: Bearer {small.key}")
    else:
        home = write_home(tmp_path / "home")
        (home / "config.env").write_text("MCPAllow=Echo,Adder\n", encoding="utf-8")
        target = (*VCP, "mcp", "--home", str(home))

    call = ("--method", "tools/call", "--tool-name")
    wanted = [
        ("--method", "tools/list"),
        (*call, "Echo", "--tool-arg", "text=hello there"),
        (*call, "Adder", "--tool-arg", "a=40", "b=2"),
    ]
    if way == "http":  # what it does with failures is no question of the way
        wanted += [(*call, "Adder", "--tool-arg", "a=40"), (*call, "Nobody")]
    with ThreadPoolExecutor(2) as threads:
        listed, echo, adder, *failures = threads.map(lambda words: inspected(target, tmp_path, *words), wanted)
    assert [one.code for one in (listed, echo, adder)] == [0, 0, 0], (listed, echo, adder)
    assert {tool["name"] for tool in listed.answer["tools"]} == {"Echo", "Adder"}
    assert echo.answer["content"] == [{"type": "text", "text": "hello there"}]
    assert adder.answer["structuredContent"] == {"sum": 42}
    assert all(one.code for one in failures), failures
    if failures:
        assert failures[0].answer["isError"] is True
        assert '"b"' in failures[0].answer["content"][0]["text"]


# --- the official SDK -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["http", "stdio"])
def test_std_50_a_client_of_the_older_sdk_uses_everything(server: Program, tmp_path: Path, way: str) -> None:
    """Over the pipes it is served by the running server, which the program finds by itself."""
    words = ("http", address(server), server.key) if way == "http" else ("stdio", *printed(server))
    done = subprocess.run(
        (*OLDER, *words),
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=CLIENT_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["version"] == "2025-11-25"
    assert {"Echo", "Adder", "test_sampling"} <= set(seen["tools"])
    check_calls(seen["calls"])
    assert seen["unknown"] == -32602
    assert seen["progress"] == [0, 50, 100]
    assert seen["logged"] == ["Tool execution started", "Tool processing data", "Tool execution completed"]
    check_shelves(seen)


def printed(server: Program) -> tuple[str, ...]:
    """The command that starts ``vcp mcp`` in the home of a server, from any folder."""
    home = Path(f"/proc/{server.process.pid}/cwd").readlink()
    return (sys.executable, "-c", START, str(ROOT), "mcp", "--home", str(home))


START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from app.cli.program import main; sys.exit(main())"


def check_calls(calls: Mapping[str, Any]) -> None:
    text = {name: call["content"][0].get("text", "") for name, call in calls.items()}
    assert text["echo"] == "你好"
    assert calls["wrong"]["error"] is True
    assert [block["type"] for block in calls["kinds"]["content"]] == ["text", "image", "resource"]
    assert calls["sound"]["content"][0]["mimeType"] == "audio/wav"
    assert calls["failing"]["error"] is True
    assert text["sampling"] == "LLM response: HELLO"
    assert "a@b.example" in text["elicitation"]
    assert text["roots"] == "file:///work"
    assert len(calls["three"]["structured"]["answers"]) == 3


def check_shelves(seen: Mapping[str, Any]) -> None:
    assert "test://static-text" in seen["resources"]
    assert "test://template/{id}/data" in seen["templates"]
    assert json.loads(seen["text"])["id"] == "7"
    assert "test_simple_prompt" in seen["prompts"]
    assert seen["prompt"] == "Prompt with arguments: arg1='a', arg2='b'"
    assert seen["completed"] == ["test value", "testing"]


async def sampled(_context: Any, params: CreateMessageRequestParams) -> CreateMessageResult:
    content = params.messages[0].content
    assert isinstance(content, TextContent)
    return CreateMessageResult(role="assistant", content=TextContent(text=content.text.upper()), model="m")


async def elicited(_context: Any, params: ElicitRequestParams) -> ElicitResult:
    return ElicitResult(action="accept", content={"username": "nova", "email": params.message, "name": "Nova"})


async def roots(_context: Any) -> ListRootsResult:
    return ListRootsResult(roots=[Root(uri="file:///work")])  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["legacy", MODERN])
@pytest.mark.parametrize("way", ["http", "stdio"])
def test_std_50_a_client_of_the_present_sdk_uses_everything_in_both_eras(
    server: Program, tmp_path: Path, way: str, mode: str
) -> None:
    async def main() -> None:
        asking = {"sampling_callback": sampled, "elicitation_callback": elicited, "list_roots_callback": roots}
        if way == "http":
            headers = {"Authorization": f"Bearer {server.key}"}
            async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=30) as http:
                transport = streamable_http_client(address(server), http_client=http)
                async with Client(transport, mode=mode, **asking) as client:
                    await used(client)
        else:
            command, *arguments = printed(server)
            program = StdioServerParameters(command=command, args=arguments, cwd=tmp_path)
            async with Client(stdio_client(program), mode=mode, **asking) as client:
                await used(client)

    async def used(client: Client) -> None:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else mode)
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert {"Echo", "Adder", "test_sampling"} <= tools
        told: list[float] = []

        async def progress(done: float, total: float | None, message: str | None) -> None:
            told.append(done)

        async def call(name: str, /, **arguments: Any) -> Any:
            result = await client.call_tool(name, arguments, progress_callback=progress)
            content = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
            return {"error": result.is_error, "content": content, "structured": result.structured_content}

        check_calls(
            {
                "echo": await call("Echo", text="你好"),
                "wrong": await call("Echo", txt="x"),
                "kinds": await call("test_multiple_content_types"),
                "sound": await call("test_audio_content"),
                "failing": await call("test_error_handling"),
                "sampling": await call("test_sampling", prompt="hello"),
                "elicitation": await call("test_elicitation", message="a@b.example"),
                "roots": await call("test_input_required_result_list_roots"),
                "three": await call("test_input_required_result_multiple_inputs"),
            }
        )
        await call("test_tool_with_progress")
        assert told == [0, 50, 100]

    run(main())


# --- revisions --------------------------------------------------------------------------------------------------------


def test_mcp_2_every_revision_is_spoken_over_http(server: Program) -> None:
    headers = {"Authorization": f"Bearer {server.key}", "Accept": "application/json, text/event-stream"}
    with httpx.Client(base_url=address(server), headers=headers, trust_env=False, timeout=30) as http:

        def ask(frame: Mapping[str, Any], **more: str) -> Any:
            response = http.post("", json=frame, headers=more)
            assert response.status_code == 200, response.text
            lines = [line.removeprefix("data:") for line in response.text.splitlines() if line.startswith("data:")]
            return json.loads([line for line in lines if line.strip()][-1] if lines else response.text), response

        for version in LEGACY:
            answer, response = ask(initialize(version=version))
            assert answer["result"]["protocolVersion"] == version
            session = {"Mcp-Session-Id": response.headers["Mcp-Session-Id"], "MCP-Protocol-Version": version}
            assert http.post("", json=notification("notifications/initialized"), headers=session).status_code == 202
            answer, _ = ask(request(2, "tools/list"), **session)
            assert "Echo" in {tool["name"] for tool in answer["result"]["tools"]}
        answer, _ = ask(initialize(version="2031-01-01"))
        assert answer["result"]["protocolVersion"] == LEGACY[-1]
        modern = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "server/discover"}
        answer, _ = ask(request(3, "server/discover", ENVELOPE), **modern)
        assert MODERN in answer["result"]["supportedVersions"]


def test_mcp_2_every_revision_is_spoken_over_the_pipes_of_a_program(tmp_path: Path) -> None:
    home = write_home(tmp_path / "home")

    def spoken(version: str) -> str:
        with mcp("--home", home, cwd=tmp_path) as program:
            if version == MODERN:
                answer = program.ask(request(1, "server/discover", ENVELOPE))
                version = next(one for one in answer["result"]["supportedVersions"] if one == MODERN)
                tools = program.ask(request(2, "tools/list", ENVELOPE))
            else:
                version = program.begin(version)["protocolVersion"]
                tools = program.ask(request(2, "tools/list"))
            assert "Echo" in {tool["name"] for tool in tools["result"]["tools"]}
            assert program.end() == (0, [])
        return version

    versions = (*LEGACY, MODERN)
    with ThreadPoolExecutor(2) as threads:
        assert tuple(threads.map(spoken, versions)) == versions
