"""What people see of a tool that is another one than before (MCP-55)."""

from __future__ import annotations

import random
from typing import Any

from app.mcp.client.changed_tool import MAX_COMPARED_LINES, MAX_DIFF_LINES, ChangedTool


def changed(old: str, new: str) -> ChangedTool:
    def tool(text: str) -> dict[str, Any]:
        return {"name": "a", "description": text, "inputSchema": {"type": "object"}}

    return ChangedTool("a", tool(old), tool(new))


def test_lines_that_are_new_and_gone_are_shown_with_what_is_around_them() -> None:
    lines = list(map(str, range(10_000)))
    other = [*lines[:9_000], "evil", *lines[9_001:]]
    shown = changed("\n".join(lines), "\n".join(other)).diff().splitlines()
    assert shown[3:] == ["   8998", "   8999", "-  9000", "+  evil", "   9001", "   9002"]
    shown = changed("same", "same\nmore").diff().splitlines()
    assert shown[3:] == [" description:", "   same", "+  more", " inputSchema:", "   {"]


def test_a_change_of_marks_that_end_lines_is_seen() -> None:
    assert "+  a\u2028b" in changed("a b", "a\u2028b").diff().split("\n")


def test_a_difference_without_end_is_cut_and_says_so() -> None:
    shown = changed("", "\n".join(map(str, range(5000)))).diff().splitlines()
    assert len(shown) == MAX_DIFF_LINES + 1
    assert "further lines" in shown[-1]


def test_comparing_takes_bounded_work_whatever_a_server_writes() -> None:
    """128,000 short lines, many of them alike, would take a minute; the panel asks for fifty such tools."""
    chance = random.Random(7)
    words = [chance.choice("abcdefghijklmnop") + chance.choice("abcdefghijkl") for _ in range(60_000)]
    other = words[:]
    chance.shuffle(other)
    shown = changed("\n".join(words), "\n".join(other)).diff().splitlines()
    assert len(shown) <= MAX_DIFF_LINES + 1 < MAX_COMPARED_LINES
    assert "further lines" in shown[-1]
