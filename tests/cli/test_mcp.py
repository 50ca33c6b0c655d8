"""``vcp mcp`` in a home, the configurations that it prints for clients, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TextIO

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from app.cli.own_command import SOURCE, OwnCommand, installed_from, own_command
from tests.cli.commands import command, refused
from tests.mcp.client.bench import peer
from tests.program import environment
from tests.server import ECHO, run, write_plugin


def entry(capsys: pytest.CaptureFixture[str], *words: str | Path) -> Any:
    ended = command(capsys, "mcp", *words)
    assert ended.code == 0
    return json.loads(ended.out)["mcpServers"]["vcp"]


def test_the_printed_command_serves_an_sdk_client_from_any_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STD-50, STD-47: exactly what is printed is started, and the client lists and calls every kind of tool.

    MCP servers that nobody has listed yet are waited for, since a client lists once (D88). What is wrong with the
    configuration is told without the place of the home.
    """
    home = tmp_path / "home"
    write_plugin(home, "Echo", ECHO)
    (home / "config.env").write_text("MCPMaxRunning=many\n", encoding="utf-8")
    servers = {"mcpServers": {"far": peer("slow-start=0.3")}}
    (home / "mcp_servers.json").write_text(json.dumps(servers), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    printed = entry(capsys, "--home", "home", "--print-config", "claude")

    async def test() -> None:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        started = StdioServerParameters(
            command=printed["command"],
            args=printed["args"],
            env={**{"PATH": environment()["PATH"]}, **printed.get("env", {})},
            cwd=elsewhere,
        )
        with (tmp_path / "stderr").open("w", encoding="utf-8") as errors:
            await served(started, errors)
        assert list(elsewhere.iterdir()) == []
        told = (tmp_path / "stderr").read_text(encoding="utf-8")
        assert "MCPMaxRunning" in told
        assert str(tmp_path) not in told

    async def served(started: StdioServerParameters, errors: TextIO) -> None:
        async with Client(stdio_client(started, errlog=errors)) as client:
            tools = await client.list_tools()
            assert {"Echo", "far.echo"} <= {tool.name for tool in tools.tools}
            assert (await client.call_tool("far.echo", {"text": "x"})).content[0].text == '{"text": "x"}'
            result = await client.call_tool("Echo", {"text": "密"})
            assert result.content[0].text == "密"
            sum_of = await client.call_tool("SciCalculator", {"expression": "6*7"})
            assert "42" in sum_of.content[0].text

    run(test())


def test_each_client_gets_its_own_form(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    claude, cursor, cherry = (
        entry(capsys, "--home", tmp_path, "--print-config", client) for client in ("claude", "cursor", "cherry")
    )
    assert claude == cursor
    assert Path(claude["command"]).is_absolute()
    assert claude["args"][-3:] == ["mcp", "--home", str(tmp_path)]
    assert cherry == {"name": "vcp", "type": "stdio", "isActive": True, **claude}


def test_a_client_that_comes_over_http_gets_address_and_key(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "config.env").write_text("Key=the-key\nPORT=4711\n", encoding="utf-8")
    words = ("--home", tmp_path, "--http", "--print-config")
    headers = {"Authorization": "Bearer the-key"}
    url = "http://127.0.0.1:4711/mcp"
    assert entry(capsys, *words, "claude") == {"type": "http", "url": url, "headers": headers}
    assert entry(capsys, *words, "cursor") == {"url": url, "headers": headers}
    cherry = {"name": "vcp", "type": "streamableHttp", "isActive": True, "baseUrl": url, "headers": headers}
    assert entry(capsys, *words, "cherry") == cherry


def test_the_options_of_a_stand_alone_server_are_printed_with_absolute_paths(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("--only", "B,A", "--root", "books", "--plugins", "more", "--allow-external-src")
    args = entry(capsys, *words, "--print-config", "cursor")["args"]
    assert args[args.index("mcp") + 1 :] == [
        *("--only", "A,B"),
        *("--plugins", str(tmp_path / "more")),
        *("--root", str(tmp_path / "books")),
        "--allow-external-src",
    ]


def test_the_installed_program_is_named_by_its_own_file_and_a_checkout_by_its_folder(tmp_path: Path) -> None:
    """Neither the working directory nor a variable of this shell is there when a client starts it."""
    (tmp_path / "vcp").touch()
    found = own_command(tmp_path / "python")
    if installed_from(SOURCE):
        assert found == OwnCommand(str(tmp_path / "vcp"))
    else:
        assert found == OwnCommand(str(tmp_path / "python"), ("-m", "app.cli"), {"PYTHONPATH": str(SOURCE)})
    assert not installed_from(tmp_path)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--root", "."), "--root is for --only"),
        (("--plugins", "."), "--plugins is for --only"),
        (("--allow-external-src",), "--allow-external-src is for --only"),
        (("--http",), "--http is for --print-config"),
    ],
)
def test_options_that_have_no_effect_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...], why: str
) -> None:
    assert why in refused(capsys, "mcp", "--home", tmp_path, *words)
