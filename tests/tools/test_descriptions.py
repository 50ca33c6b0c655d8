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
