"""Synchronous stdio plugins from call to result, with real processes (spec 5.3-5.6; vectors 10.4)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.extend import ErrorKind, ToolCall, ToolCommand, ToolPush, ToolSpec
from app.plugins.places import Limits
from app.plugins.stdio import stdin_bytes

if TYPE_CHECKING:
    from tests.plugins.conftest import Bench, Caller

ECHO = """
import json, os, sys
text = sys.stdin.read()
print(json.dumps({"status": "success", "result": {"stdin": text, "env": dict(os.environ), "cwd": os.getcwd()}}))
"""


def printing(text: str, code: int = 0, stderr: str = "") -> str:
    return f"import sys; sys.stdout.write({text!r}); sys.stderr.write({stderr!r}); sys.exit({code})"


@pytest.mark.parametrize("how", ["loop", "threads", "uvloop"])
def test_a_plugin_gets_its_arguments_as_compact_utf8_json(bench: Bench, how: str) -> None:
    bench.threads = how == "threads"
    bench.uvloop = how == "uvloop"
    folder = bench.plugin("Echo", ECHO)
    result = bench.call("Echo", {"maid": "Nova", "text": "汉😀"})
    assert result.ok, result.message
    assert result.structured["stdin"] == '{"maid":"Nova","text":"汉😀"}'  # O13
    assert result.structured["cwd"] == str(folder)
    assert result.exit_code == 0


def test_without_arguments_stdin_is_at_its_end_at_once(bench: Bench) -> None:  # O12, P48
    bench.plugin("Echo", ECHO)
    assert bench.call("Echo").structured["stdin"] == ""


def test_the_child_sees_the_documented_environment(bench: Bench) -> None:
    bench.plugin("Echo", ECHO, configSchema={"MAX": {"type": "integer", "default": 5}})
    bench.environ |= {"API_Key": "secret", "VarHttpUrl": "http://x", "Image_Key": "pic", "LANG": "C"}
    env = bench.call("Echo", client_ip="10.1.2.3").structured["env"]
    expected = {
        "API_Key": "secret",
        "VarHttpUrl": "http://x",
        "MAX": "5",
        "DebugMode": "false",
        "PROJECT_BASE_PATH": str(bench.home),
        "SERVER_PORT": "6005",
        "IMAGESERVER_IMAGE_KEY": "pic",
        "VCP_REQUEST_IP": "10.1.2.3",
        "PYTHONIOENCODING": "utf-8",
    }
    assert expected.items() <= env.items()
    assert "DECRYPTED_AUTH_CODE" not in env


def test_text_survives_a_c_locale(bench: Bench) -> None:  # P44
    bench.plugin("Han", 'print(\'{"status":"success","result":"汉字"}\')')
    bench.environ |= {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert bench.call("Han").structured == {"original_plugin_output": "汉字"}


def test_an_administrators_plugin_gets_the_code(bench: Bench) -> None:
    bench.plugin("Admin", ECHO, requiresAdmin=True)
    bench.auth_code = "313213"
    assert bench.call("Admin").structured["env"]["DECRYPTED_AUTH_CODE"] == "313213"


def test_without_a_readable_code_an_administrators_plugin_is_not_started(bench: Bench) -> None:  # B11
    folder = bench.plugin("Admin", "open('ran', 'w')", requiresAdmin=True)
    bench.environ["DECRYPTED_AUTH_CODE"] = "000000"
    result = bench.call("Admin")
    assert result.error_kind is ErrorKind.EXECUTION
    assert "auth code" in result.message
    assert not (folder / "ran").exists()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (printing("", 2, "boom"), 'Plugin "X" exited with code 2. Stdout:  Stderr: boom'),  # O10
        (
            printing("no json", 0, "why"),
            'Plugin "X" exited successfully but did not provide a valid initial JSON response. '
            "Stdout: no json Stderr: why",
        ),
    ],
)
def test_a_process_without_an_answer_is_a_definite_error(bench: Bench, script: str, message: str) -> None:
    bench.plugin("X", script)
    result = bench.call("X")
    assert (result.error_kind, result.message) == (ErrorKind.EXECUTION, message)


def test_good_json_with_a_bad_exit_code_is_a_success(bench: Bench) -> None:  # O9, P40
    bench.plugin("X", printing('{"status":"success","result":"fine"}', 3, "noise"))
    result = bench.call("X")
    assert (result.structured, result.exit_code) == ({"original_plugin_output": "fine"}, 3)
    assert result.stderr_tail == "noise"


def test_the_time_limit_gives_the_documented_text(bench: Bench) -> None:  # O11
    bench.plugin("X", "import time; time.sleep(60)", communication={"protocol": "stdio", "timeout": 50})
    result = bench.call("X")
    assert (result.error_kind, result.message) == (ErrorKind.TIMEOUT, 'Plugin "X" execution timed out.')


def test_the_callers_deadline_shortens_the_time_limit(bench: Bench) -> None:
    bench.plugin("X", "import time; time.sleep(60)")

    async def work(call: Caller) -> Any:
        return await call("X", deadline=asyncio.get_running_loop().time() + 0.05)

    assert bench.run(work).error_kind is ErrorKind.TIMEOUT


def test_eight_megabytes_in_one_line_arrive(bench: Bench) -> None:
    bench.plugin("Big", 'print(\'{"status":"success","result":"\' + "x" * 8_000_000 + \'"}\')')
    assert len(bench.call("Big").structured["original_plugin_output"]) == 8_000_000


def test_megabytes_of_arguments_arrive_while_output_flows(bench: Bench) -> None:
    # Both pipes are far fuller than they can be, so writing first and reading later would never end.
    bench.plugin(
        "Both",
        "import json, sys\n"
        "sys.stdout.write('log' * 300_000 + '\\n'); sys.stdout.flush()\n"
        "sys.stderr.write('log' * 300_000); sys.stderr.flush()\n"
        "print(json.dumps({'status': 'success', 'result': str(len(sys.stdin.read()))}))",
    )
    result = bench.call("Both", {"a": "x" * 3_000_000})
    assert result.structured == {"original_plugin_output": 3_000_008}


@pytest.mark.parametrize("start", ["import os; os.close(0)", "pass"])
def test_a_plugin_that_does_not_read_its_arguments_still_answers(bench: Bench, start: str) -> None:
    bench.plugin("Deaf", start + '; print(\'{"status":"success","result":"ok"}\')')
    assert bench.call("Deaf", {"a": "x" * 3_000_000}).structured == {"original_plugin_output": "ok"}


def test_too_much_output_ends_the_plugin_with_an_error_that_names_the_limit(bench: Bench) -> None:  # B10
    bench.limits = Limits(output_bytes=100_000, stop_seconds=1.0)
    bench.plugin("Flood", "while True: print('x' * 1000)")
    result = bench.call("Flood")
    assert result.error_kind is ErrorKind.EXECUTION
    assert "limit of 100000 bytes" in result.message


def test_output_on_stderr_counts_too(bench: Bench) -> None:
    bench.limits = Limits(output_bytes=100_000, stop_seconds=1.0)
    bench.plugin("Flood", "import sys\nwhile True: print('x' * 1000, file=sys.stderr)")
    assert "limit of 100000 bytes" in bench.call("Flood").message


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"command": "no-such-program x"}, 'command "no-such-program" was not found'),
        ({"command": "./gone.sh"}, '"./gone.sh" does not exist'),
        ({"command": "python gone.py"}, '"gone.py" does not exist'),
        ({"command": "python 'main.py"}, "unclosed quote"),
        ({"type": "python"}, "no entryPoint.command"),
        ({"command": "./main.py"}, "Permission denied"),
    ],
)
def test_a_command_that_cannot_be_started_is_named(bench: Bench, entry: dict[str, Any], words: str) -> None:  # D11
    bench.plugin("X", "", entryPoint=entry)
    result = bench.call("X")
    assert result.error_kind is ErrorKind.EXECUTION
    assert result.message.startswith('Failed to start plugin "X": ')
    assert words in result.message


def test_a_command_with_shell_syntax_runs_in_a_shell(bench: Bench) -> None:
    bench.environ["WORD"] = "from the shell"
    bench.plugin("Shell", "", entryPoint={"command": 'true && printf \'{"status":"success","result":"%s"}\' "$WORD"'})
    assert bench.call("Shell").structured == {"original_plugin_output": "from the shell"}


def test_the_script_may_be_named_from_the_projects_root(bench: Bench) -> None:  # P46
    bench.plugin("X", printing('{"status":"success","result":"found"}'))
    bench.plugin("Y", "", entryPoint={"command": "python Plugin/X/main.py", "interpreter": "server"})
    assert bench.call("Y").structured == {"original_plugin_output": "found"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"pluginType": "static"}, "(type: static, protocol: stdio) is not a supported stdio plugin"),
        (
            {"pluginType": "asynchronous", "communication": {"protocol": "direct"}},
            "(type: asynchronous, protocol: direct) is not a supported stdio plugin",
        ),
        (
            {"pluginType": "service", "entryPoint": {"type": "nodejs", "script": "x.js"}, "communication": {}},
            "(type: service, protocol: direct) is not a supported stdio plugin for a direct call. "
            "这是 Node 模块，不在此运行。 / It is a Node module and is not run here.",
        ),
    ],
)
def test_other_types_are_listed_but_not_callable(bench: Bench, fields: dict[str, Any], words: str) -> None:
    bench.plugin("X", "", **fields)

    async def work(call: Caller) -> Any:
        assert not call.source.tools()["X"].callable
        return await call("X")

    result = bench.run(work)
    assert result.error_kind is ErrorKind.EXECUTION
    assert words in result.message


def test_the_tool_says_what_the_manifest_says(bench: Bench) -> None:
    bench.plugin(
        "Echo",
        ECHO,
        displayName="回声",
        communication={"protocol": "stdio", "timeout": 1500},
        maxRunning=2,
        eager=False,
        idempotent=True,
        webSocketPush={"enabled": True, "messageType": "m"},
        capabilities={"invocationCommands": [{"commandIdentifier": "Say", "command": "say", "description": "d"}]},
    )

    async def work(call: Caller) -> ToolSpec:
        return call.source.tools()["Echo"]

    assert bench.run(work) == ToolSpec(
        name="Echo",
        origin="local",
        display="回声",
        commands=(ToolCommand("Say", "say", "d"),),
        timeout=1.5,
        idempotent=True,
        eager=False,
        max_running=2,
        push=ToolPush("m"),
        labels=frozenset({"synchronous"}),
    )


def test_plugins_can_be_replaced_while_running(bench: Bench) -> None:
    bench.plugin("Old", ECHO)

    async def work(call: Caller) -> Any:
        old = call.source.tools()
        bench.plugin("New", printing('{"status":"success","result":"n"}'))
        (bench.home / "Plugin/Old/plugin-manifest.json").unlink()
        await call.source.replace(bench.found())
        assert list(old) == ["Old"]
        assert list(call.source.tools()) == ["New"]
        spec = old["Old"]
        from app.extend import CallContext, Door

        gone = await call.source.call(spec, ToolCall("1", "Old", {}), CallContext("t", Door.STREAM), lambda **_: None)
        assert gone.error_kind is ErrorKind.UNKNOWN_TOOL
        return await call("New")

    assert bench.run(work).structured == {"original_plugin_output": "n"}


def spec(*commands: ToolCommand) -> ToolSpec:
    return ToolSpec("X", "stdio", "X", commands)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("true", "true"),  # P10
        (True, "true"),
        (False, "false"),
        (5, "5"),
        (0.5, "0.5"),
        (1e21, "1e+21"),
        ([1, "汉", None], '[1,"汉",null]'),
        ({"a": {"b": True}}, '{"a":{"b":true}}'),
        ("", ""),
    ],
)
def test_untyped_plugins_get_strings(value: Any, text: str) -> None:  # D39
    data = stdin_bytes(spec(), ToolCall("1", "X", {"v": value}))
    assert json.loads(data) == {"v": text}


def test_the_original_text_wins_and_null_is_left_out() -> None:
    call = ToolCall("1", "X", {"v": 1, "n": None, "p": " 2 "}, texts={"v": "1.0"})
    assert stdin_bytes(spec(), call) == b'{"v":"1.0","p":" 2 "}'
    assert stdin_bytes(spec(), ToolCall("1", "X", {"n": None})) == b""


SAY = ToolCommand("Say", "say", "d", typed=True)
SHOUT = ToolCommand("Shout", "shout", "d")


@pytest.mark.parametrize(
    ("commands", "arguments", "command", "expected"),
    [
        ((SAY,), {"v": 1, "n": None}, None, {"v": 1, "n": None}),
        ((SAY, SHOUT), {"v": 1, "command": "say"}, None, {"v": 1, "command": "say"}),
        ((SAY, SHOUT), {"v": 1}, "Say", {"v": 1, "command": "Say"}),
        ((SAY, SHOUT), {"v": 1}, "Shout", {"v": "1", "command": "Shout"}),
        ((SAY, SHOUT), {"v": 1}, None, {"v": "1"}),
        ((SAY, SHOUT), {"v": 1, "command": ["x"]}, None, {"v": "1", "command": '["x"]'}),
    ],
)
def test_typed_commands_get_json_values(
    commands: tuple[ToolCommand, ...], arguments: dict[str, Any], command: str | None, expected: dict[str, Any]
) -> None:  # D5
    data = stdin_bytes(spec(*commands), ToolCall("1", "X", arguments, command=command))
    assert json.loads(data) == expected


def test_half_surrogates_travel_as_escapes() -> None:
    assert stdin_bytes(spec(), ToolCall("1", "X", {"v": "a\ud83d"})) == b'{"v":"a\\ud83d"}'


def test_an_argument_json_has_no_words_for_is_an_error_result(bench: Bench) -> None:
    bench.plugin("X", ECHO)
    result = bench.call("X", {"v": float("nan")})
    assert result.error_kind is ErrorKind.EXECUTION
    assert "could not be run" in result.message


def test_numbered_fields_reach_the_plugin_under_their_own_names(bench: Bench) -> None:  # P11, spec 5.10
    bench.plugin("Echo", ECHO)
    arguments = {f"command{number}": str(number) for number in range(1, 11)}
    assert json.loads(bench.call("Echo", arguments).structured["stdin"]) == arguments


def test_variables_too_long_for_a_process_are_left_out(bench: Bench) -> None:
    bench.plugin("Echo", ECHO)
    bench.environ |= {"TarHuge": "x" * 200_000, "Nul": "a\0b", "TarOk": "y"}
    env = bench.call("Echo").structured["env"]
    assert "TarHuge" not in env
    assert "Nul" not in env
    assert env["TarOk"] == "y"


def test_the_plugins_own_python_environment_comes_first(bench: Bench) -> None:  # D38
    folder = bench.plugin(
        "Own", printing('{"status":"success","result":"x"}'), entryPoint={"command": "python main.py"}
    )
    own = folder / ".venv/bin/python"
    own.parent.mkdir(parents=True)
    own.write_text('#!/bin/sh\nprintf \'{"status":"success","result":"own %s"}\' "$1"\n')
    own.chmod(0o755)
    assert bench.call("Own").structured == {"original_plugin_output": "own main.py"}


def test_python_falls_back_to_the_servers_interpreter(bench: Bench, tmp_path: Path) -> None:  # D11
    bench.plugin("X", printing('{"status":"success","result":"x"}'), entryPoint={"command": "python main.py"})
    bench.environ["PATH"] = str(tmp_path / "empty")
    assert bench.call("X").ok
    assert Path(sys.executable).exists()
    assert os.environ["PATH"] != bench.environ["PATH"]


def test_whoever_asked_is_told_that_the_tools_have_changed(bench: Bench) -> None:
    told: list[list[str]] = []

    async def work(call: Caller) -> None:
        call.source.changed(lambda: told.append(list(call.source.tools())))
        bench.plugin("Echo", ECHO)
        await call.source.replace(bench.found())

    bench.run(work)
    assert told == [["Echo"]]
