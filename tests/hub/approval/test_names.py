"""No spelling of a name gets around a rule (spec 7.6; D4, D68, D69)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config.approval_rules import read_rules
from app.extend import LOCAL, ToolCall, ToolCommand, ToolSpec
from app.hub.approval.names import names_of

READ = ToolCommand("Read", "ReadFile", "", tool_name="novel_read")
WRITE = ToolCommand("Write", "WriteFile", "")
SERVER_TOOL = ToolSpec("files.write_file", "mcp:files", "Write", (ToolCommand("write_file", "", ""),))


def silent_if_held(rule: str, spec: ToolSpec, call: ToolCall) -> bool | None:
    """None when the rule is not about the call; else whether a rule for its command beats one for its tool."""
    rules, _ = read_rules(json.dumps({"enabled": True, "approvalList": [rule]}).encode())
    need = rules.need(*names_of(spec, call))
    if need is None:
        return None
    both, _ = read_rules(
        json.dumps({"enabled": True, "approvalList": [f"{rule}::SilentReject", spec.name.rpartition("#")[2]]}).encode()
    )
    beaten = both.need(*names_of(spec, call))
    assert beaten is not None
    return beaten.silent


def plugin(*commands: ToolCommand, name: str = "Files", origin: str = LOCAL) -> ToolSpec:
    return ToolSpec(name, origin, name, commands)


def call(tool: str = "Files", **arguments: Any) -> ToolCall:
    return ToolCall("c", tool, arguments)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Files", {"command": "WriteFile"}),
        ("Files", {"command": " writefile "}),
        ("Files", {"command": "Write_File"}),
        ("Files", {"Command": "Write"}),
        ("Files", {"COMMAND-2": "WriteFile", "command1": "ReadFile"}),
        ("Files", {"com_mand": "x", "command12": "WriteFile"}),
        ("Files", {"command": ["ReadFile", "WriteFile"]}),
        ("Files.Write", {}),
        ("Files.WriteFile", {}),
        ("Files.WriteFile", {"command": "ReadFile"}),
        ("Files", {"command": "\ufeffWriteFile\u3000"}),
        ("Files", {"command": "ＷｒｉｔｅＦｉｌｅ"}),
        ("Files", {"command": "Write\u200bFile"}),
        ("Files", {"command": "write file"}),
        ("Files", {"command": "WRITEF\u0131LE"}),
        ("Files", {"command": ["ReadFile", [["WriteFile"]]]}),
        ("Files", {"ｃｏｍｍａｎｄ２": "WriteFile"}),
        ("Files", {"command\u0663": "WriteFile"}),
        ("Files", {" Command ": "WriteFile"}),
        ("Files", {"command": None, "command1": "WriteFile"}),
    ],
)
@pytest.mark.parametrize("rule", ["Files:WriteFile", "Files:Write", "Files.WriteFile", "files:write-file"])
def test_a_command_is_known_by_all_its_names(rule: str, tool: str, arguments: Mapping[str, Any]) -> None:
    assert silent_if_held(rule, plugin(READ, WRITE), call(tool, **arguments)) is True


@pytest.mark.parametrize("rule", ["novel_read", "Novel-Read", "Files:novel_read", "Files:Read", "Files.ReadFile"])
@pytest.mark.parametrize(
    ("tool", "arguments"), [("novel_read", {}), ("Files", {"command": "Read"}), ("Files.ReadFile", {})]
)
def test_a_commands_own_name_is_the_same_command(rule: str, tool: str, arguments: Mapping[str, Any]) -> None:
    assert silent_if_held(rule, plugin(READ, WRITE), call(tool, **arguments)) is True


@pytest.mark.parametrize("tool", ["novel_read", "Files", "Files.Read"])
def test_a_rule_about_the_plugin_holds_for_all_its_names(tool: str) -> None:
    assert silent_if_held("Files", plugin(READ, WRITE), call(tool)) is not None


def test_the_only_command_needs_no_name() -> None:
    assert silent_if_held("Files:Read", plugin(READ), call()) is True
    assert silent_if_held("Files:other", plugin(READ), call(command="other")) is True


@pytest.mark.parametrize(
    ("rule", "arguments"),
    [
        ("Files:Write", {"command": "Read"}),
        ("Files:Write", {"commander": "Write"}),
        ("Files:Write", {"text": "command: Write"}),
        ("Files:Write", {}),
        ("Other", {"command": "Write"}),
        ("gpu#Files", {"command": "Write"}),
    ],
)
def test_other_calls_are_free(rule: str, arguments: Mapping[str, Any]) -> None:
    assert silent_if_held(rule, plugin(READ, WRITE), call(**arguments)) is None


@pytest.mark.parametrize("rule", ["Draw", "gpu#Draw", "other#Draw", "draw:Write", "gpu#Draw:Write", "Draw.Write"])
@pytest.mark.parametrize("spec_name", ["Draw", "gpu#Draw"])
@pytest.mark.parametrize("tool", ["Draw", "gpu#Draw", "label#Draw", "gpu#Draw.Write"])
def test_a_rule_about_a_node_holds_however_the_call_gets_there(rule: str, spec_name: str, tool: str) -> None:
    """A pool or a label may lead to any node, so a rule about one of them holds for all."""
    spec = plugin(WRITE, name=spec_name, origin="node")
    assert silent_if_held(rule, spec, call(tool, command="Write")) is not None


@given(st.recursive(st.none() | st.text(max_size=3) | st.floats(), st.lists, max_leaves=8), st.text(max_size=8))
def test_whatever_a_call_holds_its_tool_is_known(value: Any, name: str) -> None:
    assert silent_if_held("Files", plugin(READ, WRITE), call(**{name: value, "command": value})) is not None


@pytest.mark.parametrize("rule", ["gpu#novel_read", "other#Novel-Read", "novel_read"])
@pytest.mark.parametrize(("tool", "word"), [("novel_read", None), ("Files", "Read"), ("gpu#Files.ReadFile", None)])
def test_a_rule_about_a_nodes_command_by_its_own_name_holds_on_any_node(rule: str, tool: str, word: str | None) -> None:
    spec = plugin(READ, WRITE, origin="node")
    assert silent_if_held(rule, spec, call(tool, **({} if word is None else {"command": word}))) is True


def test_what_the_router_makes_of_a_name_counts_whatever_the_name() -> None:
    meant = ToolCall("c", "alias", {}, command="WriteFile")
    assert silent_if_held("Files:Write", plugin(READ, WRITE), meant) is True


def spelled(mark: str) -> st.SearchStrategy[str]:
    """One letter in the ways in which readers that are not strict take it for the same."""
    wide, bold = chr(ord(mark) + 0xFEE0), chr(0x1D400 + ord(mark.upper()) - ord("A"))
    forms = st.sampled_from([mark.lower(), mark.upper(), wide, bold])
    return st.tuples(forms, st.text(alphabet=" _-\t\u00a0\u200b\ufeff\u2011\u00ad", max_size=2)).map("".join)


@given(st.tuples(*map(spelled, "WriteFile")).map("".join), st.sampled_from(["command", "Command_1", "COMMAND-12"]))
def test_whatever_a_lenient_program_reads_as_the_command_is_the_command(word: str, key: str) -> None:
    assert silent_if_held("Files:WriteFile", plugin(READ, WRITE), call(**{key: word})) is True


def test_tools_of_servers_and_clients_have_dots_in_their_names() -> None:
    spec = ToolSpec("server.tool", "mcp", "t")
    assert silent_if_held("server.tool", spec, call("server.tool")) is not None
    assert silent_if_held("server.tool:go", spec, call("server.tool", command="go")) is True
    assert silent_if_held("server", spec, call("server.tool")) is None


@pytest.mark.parametrize(
    ("rule", "held"),
    [
        ("files", True),
        ("Files:write_file", True),
        ("files.writefile", True),
        ("files:read", False),
        ("write_file", False),
    ],
)
def test_rules_about_an_mcp_server_hold_for_its_tools(rule: str, held: bool) -> None:
    names = names_of(SERVER_TOOL, call("files.write_file"))
    rules, _ = read_rules(json.dumps({"enabled": True, "approvalList": [rule]}).encode())
    assert (rules.need(*names) is not None) is held


def test_a_rule_for_one_tool_of_an_mcp_server_beats_one_for_all_of_them() -> None:
    listed = ["files", "files:write_file::SilentReject"]
    rules, _ = read_rules(json.dumps({"enabled": True, "approvalList": listed}).encode())
    need = rules.need(*names_of(SERVER_TOOL, call("files.write_file")))
    assert need is not None
    assert need.silent
