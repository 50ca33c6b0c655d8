"""``vcp mcp --only``: a server of its own, by raw frames against the real process (mcp.md section 4).

The tests of one kind of conversation share a process: starting one costs as much as all of them together.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.cli.mcp import _not_loaded, _root
from app.config.snapshot import load
from app.errors import ConfigError
from app.mcp.stdio.broken import broken_server
from tests.cli.commands import PLUGIN_SLEEPER
from tests.cli.mcp_program import McpProgram, mcp
from tests.mcp.stdio.wires import call, linked, notification, request
from tests.plugins.modules import write_module
from tests.plugins.watching import appears, lives, vanishes
from tests.server import run, write_plugin

WORKER = """
import json, sys
print("a chapter of the book on stderr", file=sys.stderr)
arguments = json.load(sys.stdin)
if arguments.get("book") == "missing":
    print(json.dumps({"status": "error", "error": "there is no book 秘密之书 in /home/somebody/library/books"}))
else:
    print(json.dumps({"status": "success", "result": {"root": arguments.get("root"), "src": arguments.get("src")}}))
"""

NOISY = """
import asyncio, os, subprocess, sys

def late():
    raise RuntimeError("a secret text in a task")

class Noisy:
    async def call(self, call, context):
        arguments = call.arguments
        if arguments.get("text") == "late":
            asyncio.get_running_loop().call_soon(late)
            return "later"
        print("printed by a plugin")
        sys.stdout.write("written by a plugin\\n")
        os.write(1, b"written to the descriptor\\n")
        subprocess.run([sys.executable, "-c", "print('printed by a child', flush=True)"], check=True)
        subprocess.run([sys.executable, "-c", "import sys; sys.exit(len(sys.stdin.read()))"], check=True)
        if arguments.get("text") == "broken":
            raise RuntimeError("a secret text in /home/somebody/library")
        return arguments.get("text")

def create(context):
    return Noisy()
"""


def schema(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "additionalProperties": False,
    }


def commands(**properties: Any) -> dict[str, Any]:
    command = {"command": "", "description": "does it", "parameters": schema(**properties)}
    return {"capabilities": {"invocationCommands": [command]}}


def write_plugins(folder: Path) -> None:
    write_plugin(folder, "Worker", WORKER, **commands(root="string", src="string", book="string"))
    write_plugin(folder, "Sleeper", PLUGIN_SLEEPER)
    write_module(folder, "Noisy", NOISY, **commands(text="string"))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with plugins, and a root to work in, which has a link that leads out of it."""
    folder = tmp_path_factory.mktemp("alone")
    write_plugins(folder)
    (folder / "root" / "books").mkdir(parents=True)
    (folder / "outside").mkdir()
    (folder / "outside" / "book.txt").write_text("text")
    (folder / "root" / "link").symlink_to(folder / "outside")
    return folder


@pytest.fixture(scope="module")
def program(library: Path) -> Iterator[McpProgram]:
    words = ("--only", "Worker,Noisy,Sleeper", "--plugins", library / "Plugin", f"--root={library / 'root'}")
    with mcp(*words, cwd=library) as started:
        started.begin()
        yield started
        started.send(call("last", "Worker"))  # STD-40: what is running at the end of input is answered
        code, frames = started.end()
        assert code == 0
        assert frames[-1]["id"] == "last"


def result(program: McpProgram, frame: Any) -> Any:
    return program.ask(frame)["result"]


def given(program: McpProgram, **arguments: Any) -> Any:
    """What the worker got of these arguments."""
    answer = result(program, call("given", "Worker", **arguments))
    assert not answer.get("isError"), answer
    return json.loads(answer["content"][0]["text"])


def test_the_start_line_names_the_number_of_tools_and_where_the_root_comes_from(program: McpProgram) -> None:
    """STD-1, STD-3: also ``--root=PATH``; and it names no path."""
    assert "vcp mcp: 3 tools, root from --root" in program.errors
    assert "/" not in program.errors


def test_the_list_holds_the_chosen_tools_with_their_schemas_in_the_same_order(program: McpProgram) -> None:
    """STD-33."""
    first, second = (result(program, request(id, "tools/list")) for id in (1, 2))
    assert first == second
    assert [tool["name"] for tool in first["tools"]] == ["Noisy", "Sleeper", "Worker"]
    assert first["tools"][2]["inputSchema"] == schema(root="string", src="string", book="string")


@pytest.mark.parametrize("written", [{}, {"root": ""}])
def test_a_root_that_is_not_given_is_put_in(program: McpProgram, library: Path, written: Any) -> None:
    """STD-8."""
    assert given(program, **written)["root"] == str(library / "root")


@pytest.mark.parametrize("written", ["books", "./books/", "books/../books", "{root}/books"])
def test_a_root_inside_is_used(program: McpProgram, library: Path, written: str) -> None:
    """STD-9, STD-13: relative paths are those of the root."""
    assert given(program, root=written.format(root=library / "root"))["root"] == str(library / "root" / "books")


@pytest.mark.parametrize("written", ["..", "../outside", "/etc", "link", "link/x", "{root}x", "a\0b", "books/../.."])
def test_a_root_outside_falls_back_to_that_of_the_server(program: McpProgram, library: Path, written: str) -> None:
    """STD-10, STD-13, STD-14: one line on stderr, without the path; the call succeeds."""
    before = program.errors.count("\n")
    assert given(program, root=written.format(root=library / "root"))["root"] == str(library / "root")
    added = program.errors.splitlines()[before:]
    assert len(added) == 1
    assert "outside" in added[0]
    assert "/" not in added[0]


@pytest.mark.parametrize("written", ["../outside/book.txt", "{folder}/outside/book.txt", "link/book.txt"])
def test_an_import_from_outside_is_refused_with_the_way_out(program: McpProgram, library: Path, written: str) -> None:
    """STD-11, STD-35."""
    answer = result(program, call(1, "Worker", src=written.format(folder=library)))
    assert answer["isError"] is True
    [item] = answer["content"]
    assert item["text"].startswith("错误：")
    assert "--allow-external-src" in item["text"]


def test_an_import_from_inside_is_allowed(program: McpProgram) -> None:
    """STD-11."""
    assert given(program, src="books/x.txt")["src"] == "books/x.txt"


def test_a_failure_of_a_tool_is_a_result_that_says_so_and_the_program_lives(program: McpProgram) -> None:
    """STD-35, STD-47: one text item behind the fixed prefix."""
    answer = result(program, call(1, "Worker", book="missing"))
    assert answer["isError"] is True
    assert [item["type"] for item in answer["content"]] == ["text"]
    assert answer["content"][0]["text"].startswith("错误：")
    assert "\n" not in answer["content"][0]["text"]
    assert result(program, request(2, "ping")) == {}


def test_arguments_that_the_schema_does_not_have_are_refused_by_path(program: McpProgram) -> None:
    """STD-37, D71."""
    answer = result(program, call(1, "Worker", unknown=1))
    assert answer["isError"] is True
    assert "unknown" in answer["content"][0]["text"]
    assert "$.book" in result(program, call(2, "Worker", book=7))["content"][0]["text"]


def test_unknown_tools_are_an_error_with_a_hint(program: McpProgram) -> None:
    """STD-36: also those of the program that were not chosen."""
    for name in ("Nothing", "SciCalculator"):
        error = program.ask(call(1, name))["error"]
        assert error["code"] == -32602
        assert error["data"]["availableToolCount"] == 3
        assert error["data"]["hint"]


def test_nothing_but_frames_comes_out_whatever_plugins_and_children_print(program: McpProgram) -> None:
    """STD-45: prints of a plugin and of a child that inherits the descriptors; a child finds an empty input."""
    assert result(program, call(1, "Noisy", text="ok"))["content"][0]["text"] == "ok"
    for line in program.raw.splitlines():
        assert json.loads(line)["jsonrpc"] == "2.0"
    for text in ("printed by a plugin", "written to the descriptor", "printed by a child"):
        assert text in program.errors


def test_neither_stderr_nor_the_client_gets_stacks_texts_and_paths(program: McpProgram, library: Path) -> None:
    """STD-46, STD-47, STD-49."""
    program.send(b'{"a secret line": \n')
    assert program.next()["error"]["code"] == -32700
    result(program, call(1, "Worker", book="missing"))
    answer = result(program, call(2, "Noisy", text="broken"))
    assert answer["isError"] is True
    assert "/home/somebody" not in json.dumps(answer)
    assert "Traceback" not in json.dumps(answer)
    for text in ("secret", "秘密之书", "a chapter of the book", "Traceback", "/home", str(library)):
        assert text not in program.errors


def test_an_error_that_nobody_waits_for_is_one_line_and_the_program_lives(program: McpProgram) -> None:
    """STD-42, STD-47."""
    before = len(program.errors)
    assert result(program, call(1, "Noisy", text="late"))["content"][0]["text"] == "later"
    assert result(program, request(2, "ping")) == {}
    [line] = program.errors[before:].splitlines()
    assert "(RuntimeError)" in line
    assert "secret" not in line


def test_a_cancelled_call_ends_its_process_and_gets_no_answer(program: McpProgram, library: Path) -> None:
    """STD-38, STD-39, MCP-13: meanwhile other calls are answered."""
    pid = library / "Plugin" / "Sleeper" / "pid"
    program.send(call("slow", "Sleeper"))
    run(appears(pid))
    process = int(pid.read_text())
    assert result(program, request(1, "ping")) == {}
    assert given(program)["root"]
    program.send(notification("notifications/cancelled", {"requestId": "slow"}))
    run(vanishes(process))
    before = len(program.raw)
    assert result(program, request(2, "ping")) == {}
    assert b"slow" not in program.raw[before:]


SLOW = """
import json, os, sys, time
open("started.tmp", "w").close()
os.rename("started.tmp", "started")
while not os.path.exists("go"):
    time.sleep(0.01)
print(json.dumps({"status": "success", "result": "depth " + os.environ["VCP_CALL_DEPTH"]}))
"""


def test_a_signal_is_like_the_end_of_input_and_a_second_one_does_not_wait(tmp_path: Path) -> None:
    """STD-2, STD-41, STD-48: with DEBUG=1 there are stacks; no process is left behind; chains of calls are counted."""
    slow, sleeper = write_plugin(tmp_path, "Slow", SLOW), write_plugin(tmp_path, "Sleeper", PLUGIN_SLEEPER)
    write_module(tmp_path, "Noisy", NOISY, **commands(text="string"))
    environ = {"DEBUG": "1", "VCP_CALL_DEPTH": "2"}
    words = ("--only", "Slow,Sleeper,Noisy", "--plugins", tmp_path / "Plugin")
    with mcp(*words, cwd=tmp_path, environ=environ) as program:
        program.begin()
        assert result(program, call(1, "Noisy", text="late"))["content"][0]["text"] == "later"
        assert result(program, request(2, "ping")) == {}
        assert "Traceback" in program.errors
        assert "a secret text in a task" in program.errors
        assert "root from the working directory" in program.errors
        program.send(call("stuck", "Sleeper"), call("last", "Slow"))
        run(appears(sleeper / "pid"))
        run(appears(slow / "started"))
        program.process.send_signal(signal.SIGTERM)
        (slow / "go").touch()
        assert program.answer("last")["result"]["content"][0]["text"] == "depth 3"
        program.process.send_signal(signal.SIGINT)
        code, _ = program.rest()
        assert code in (0, 1)
        assert not lives(int((sleeper / "pid").read_text()))


def test_a_plugin_that_cannot_be_loaded_ends_the_program(tmp_path: Path) -> None:
    """STD-43: exit code 1, and stderr says which, in one line without paths (STD-47)."""
    write_module(tmp_path, "Broken", "raise RuntimeError('cannot be loaded')")
    with mcp("--only", "Broken", "--plugins", tmp_path / "Plugin", cwd=tmp_path) as program:
        assert program.rest() == (1, [])
        assert "plugin Broken could not be loaded" in program.errors
        assert "Traceback" not in program.errors
        assert str(tmp_path) not in program.errors


def test_with_the_switch_a_plugin_that_cannot_be_loaded_leaves_an_empty_list() -> None:
    """STD-7, STD-44."""

    async def test() -> None:
        server = broken_server()

        async def drive(incoming: Any, outgoing: Any) -> None:
            await server.run(incoming, outgoing, server.create_initialization_options())

        async with linked(drive) as (client, _):
            assert (await client.begin())["serverInfo"]["name"]
            assert (await client.ask(request(1, "tools/list")))["result"]["tools"] == []
            for frame in (call(2, "Broken"), request(3, "resources/list"), request(4, "nothing")):
                error = (await client.ask(frame))["error"]
                assert error["code"] == -32603
                assert "/" not in error["message"].replace(" / ", "")
            assert (await client.ask(request(5, "ping")))["result"] == {}

    run(test())


@pytest.mark.parametrize("ignored", [False, True])
def test_what_becomes_of_a_load_error_is_the_switchs_word(ignored: bool, caplog: pytest.LogCaptureFixture) -> None:
    """STD-7, STD-43, STD-44: exit code 1, or a server until the end of input."""
    reading, writing = os.pipe(), os.pipe()
    os.close(reading[1])
    options = argparse.Namespace(ignore_plugin_load_error=ignored)
    try:
        assert asyncio.run(_not_loaded("plugin X: it is broken", options, (reading[0], writing[1]))) == (not ignored)
    finally:
        for descriptor in (reading[0], *writing):
            os.close(descriptor)
    assert "plugin X: it is broken" in caplog.text


def test_the_root_comes_from_the_option_then_the_variable_then_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STD-2."""
    monkeypatch.chdir(tmp_path)
    for name in ("option", "variable"):
        (tmp_path / name).mkdir()
    option, none = argparse.Namespace(root=Path("option")), argparse.Namespace(root=None)
    with_variable = load(tmp_path, {"VCP_MCP_ROOT": str(tmp_path / "variable")})
    assert _root(option, with_variable) == (tmp_path / "option", "--root")
    assert _root(none, with_variable) == (tmp_path / "variable", "VCP_MCP_ROOT")
    assert _root(none, load(tmp_path, {})) == (tmp_path, "the working directory")
    with pytest.raises(ConfigError, match="is not a folder"):
        _root(argparse.Namespace(root=Path("missing")), with_variable)
