from __future__ import annotations

import pytest

from app.extend import ToolCommand, ToolSpec
from app.tools.descriptions import describe


def tool(*commands: ToolCommand, name: str = "Echo", display: str = "回声") -> ToolSpec:
    return ToolSpec(name, "local", display, commands)


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        pytest.param(
            (ToolCommand("id", "say", "Repeats text.\nArgs: text", "E1"),),
            "- 回声 (Echo) - 命令: say:\n    Repeats text.\n    Args: text\n  调用示例:\n    E1",
            id="the example of the spec",
        ),
        pytest.param(
            (ToolCommand("id", "", "d"),), "- 回声 (Echo) - 命令: N/A:\n    d", id="a command without name is N/A"
        ),
        pytest.param(
            (ToolCommand("a", "a", "one\n\ntwo", "x\n  y"), ToolCommand("b", "b", ""), ToolCommand("c", "c", "three")),
            "- 回声 (Echo) - 命令: a:\n    one\n    \n    two\n  调用示例:\n    x\n      y"
            "\n\n- 回声 (Echo) - 命令: c:\n    three",
            id="commands are joined by a blank line, those without description left out",
        ),
        pytest.param((ToolCommand("a", "a", ""),), None, id="nothing described"),
        pytest.param((), None, id="no commands"),
    ],
)
def test_a_tool_is_described_by_its_commands(commands: tuple[ToolCommand, ...], expected: str | None) -> None:
    assert describe(tool(*commands)) == expected


def test_a_tool_from_elsewhere_that_brings_a_schema_alone_is_described_from_it() -> None:
    """Issue part 2: the text for marked calls is made from the JSON Schema; no description is no reason to hide it."""
    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    search = ToolCommand("search", "", "Searches.\nQuickly.", parameters=schema, typed=True)
    expected = (
        "- 搜索 (docs.search) - 命令: N/A:\n"
        "    {about}\n"
        "    参数： / Parameters:\n"
        "    - q (string，必需 / , required)\n"
        "  调用示例:\n"
        "    <<<[TOOL_REQUEST]>>>\n"
        "    tool_name:「始」docs.search「末」,\n"
        "    q:「始」<string>「末」\n"
        "    <<<[END_TOOL_REQUEST]>>>"
    )
    for _ in range(2):
        spec = ToolSpec("docs.search", "mcp:docs", "搜索", (search,))
        assert describe(spec) == expected.format(about="Searches.\n    Quickly.")
    silent = ToolSpec("docs.search", "mcp:docs", "搜索", (ToolCommand("s", "", "", parameters=schema),))
    assert describe(silent) == expected.format(about="搜索")


def test_a_tool_without_arguments_is_described_with_its_call() -> None:
    """P86: inputSchema is missing or empty."""
    spec = ToolSpec("srv.now", "mcp:srv", "now", (ToolCommand("now", "", "The time.", parameters={}, typed=True),))
    assert describe(spec) == (
        "- now (srv.now) - 命令: N/A:\n    The time.\n  调用示例:\n"
        "    <<<[TOOL_REQUEST]>>>\n    tool_name:「始」srv.now「末」\n    <<<[END_TOOL_REQUEST]>>>"
    )


def test_the_example_of_one_of_several_commands_says_the_command() -> None:
    command = ToolCommand("a", "look", "Looks.", parameters={"properties": {"x": {}}, "required": ["x"]})
    text = describe(ToolSpec("Eye", "node", "Eye", (command, ToolCommand("b", "blink", "Blinks.")))) or ""
    assert "command:「始」look「末」,\n    x:「始」<any>「末」" in text


def test_what_a_plugin_of_this_machine_says_of_itself_stands_as_it_is() -> None:
    """D70, spec 3.5."""
    command = ToolCommand("a", "a", "Words.", parameters={"properties": {"x": {}}}, typed=True)
    assert describe(tool(command)) == "- 回声 (Echo) - 命令: a:\n    Words."
    nameless = ToolCommand("a", "a", "", parameters={"properties": {"x": {}}})
    assert describe(tool(nameless)) is None
