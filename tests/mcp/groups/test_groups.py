from __future__ import annotations

from dataclasses import replace

import pytest

from app.extend import ToolCommand, Trust
from app.mcp.groups.groups import Groups, ServerGroup, brief
from tests.fixed_tools import FixedTools
from tests.mcp.groups.tables import Working, plugin, served, table


def grouped(
    *sources: FixedTools, servers: tuple[ServerGroup, ...] = (), **declared: dict[str, object]
) -> dict[str, list[str]]:
    rows = table(**declared)
    groups = Groups(lambda: sources, lambda: rows, lambda: servers).of_now().groups
    return {name: list(group.members) for name, group in groups.items()}


def test_groups_come_from_the_file_from_manifests_and_from_servers() -> None:
    tools = Working(plugin("Sums", groups="maths"), plugin("Plot", groups="maths pictures"), plugin("Alone"))
    far = Working(served("github", "search"), served("github", "issue"))
    found = grouped(
        tools, far, servers=(ServerGroup("github"), ServerGroup("empty")), mine={"tools": ["Alone", "github.s*"]}
    )
    assert found == {
        "mine": ["Alone", "github.search"],
        "maths": ["Plot", "Sums"],
        "pictures": ["Plot"],
        "github": ["issue", "search"],  # MOD-13: the server's own names
        "empty": [],
    }


def test_a_tool_may_be_in_several_groups_and_a_file_may_add_to_any() -> None:
    tools = Working(plugin("Sums", groups="maths"), plugin("Dice"))
    far = Working(served("github", "search"))
    found = grouped(
        tools,
        far,
        servers=(ServerGroup("github"),),
        maths={"tools": ["Dice", "Sums"]},
        github={"tools": ["Dice"], "description": "code"},
    )
    assert found == {"maths": ["Dice", "Sums"], "github": ["Dice", "search"]}


def test_patterns_fit_names_commands_and_where_a_tool_comes_from() -> None:
    several = replace(
        plugin("Files"), commands=(ToolCommand("read", "read", "Reads."), ToolCommand("drop", "drop", "Drops."))
    )
    node = replace(plugin("Lamp"), origin="node:kitchen")
    sources = Working(several, node, plugin("Sums")), Working(served("github", "search"))
    patterns = {"one": "Files.read", "all": "Files", "node": "node:kitch*", "server": "mcp:github", "none": "*sums"}
    assert grouped(*sources, **{name: {"tools": [pattern]} for name, pattern in patterns.items()}) == {
        "one": ["Files.read"],
        "all": ["Files.drop", "Files.read"],
        "node": ["Lamp"],
        "server": ["github.search"],
        "none": [],  # capitals count
        "github": ["search"],
    }


def test_who_is_not_described_is_described_by_its_plugins() -> None:
    tools = Working(
        plugin("Sums", groups="maths", about="Exact mathematics.\nMore."),
        plugin("Plot", groups="maths own", about="Draws"),
        plugin("Dice", groups="own"),
    )
    rows = table(own={"description": "What\n I wrote"})
    groups = Groups(lambda: (tools,), lambda: rows).of_now().groups
    assert groups["maths"].description == "Draws; Exact mathematics."
    assert groups["own"].description == "What I wrote"  # one line
    assert {group.trust for group in groups.values()} == {Trust.OPERATOR}


def test_what_somebody_far_away_says_is_data() -> None:  # D9, D31
    far = replace(plugin("Lamp", groups="{{VarA}}x lights", about="{{Port}}"), origin="node:kitchen")
    rows = table(mine={"tools": ["Lamp"]}, written={"tools": ["Lamp"], "description": "Lamps"})
    groups = Groups(lambda: (Working(far),), lambda: rows).of_now().groups
    assert {name: group.trust for name, group in groups.items()} == {
        "mine": Trust.DATA,  # described by the node
        "written": Trust.OPERATOR,
        "lights": Trust.DATA,
    }


def test_groups_are_made_anew_only_when_something_is_another_thing() -> None:
    tools = Working(plugin("Sums", groups="maths"))
    rows, servers = [table(mine={})], [()]
    groups = Groups(lambda: (tools,), lambda: rows[0], lambda: servers[0])
    first = groups.of_now()
    assert groups.of_now() is first
    servers[0] = (ServerGroup("github", error="gone"),)  # type: ignore[call-overload]
    second = groups.of_now()
    assert [group.name for group in second.failed()] == ["github"]
    assert [group.name for group in second.available()] == ["mine", "maths"]
    tools.replace(plugin("Dice", groups="games"))
    assert list(groups.of_now().groups) == ["mine", "games", "github"]
    rows[0] = table()
    assert list(groups.of_now().groups) == ["games", "github"]


def test_a_server_whose_name_no_prompt_can_hold_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    assert list(grouped(servers=(ServerGroup("a{b}"), ServerGroup("good")))) == ["good"]
    assert "group 'a{b}' is left out" in caplog.text


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("spawn npx ENOENT", "spawn npx ENOENT"),
        ("\n\n first line \n at /home/x/y.js:3\n", "first line"),
        ("cannot open '/home/alice/private/x.json': no such file", "cannot open 'x.json': no such file"),
        ("C:\\Users\\alice\\x.exe not found", "x.exe not found"),
        ("at ~/secret/place failed", "at place failed"),
        ("GET https://example.com/mcp/v1: 404", "GET https://example.com/mcp/v1: 404"),
        ("see file:///etc/passwd", "see passwd"),
        ("a/b and 1/2 stay", "a/b and 1/2 stay"),
        ("已退出 / it ended", "已退出 / it ended"),
        ("a\x1b[31m\x00b", "a [31m b"),
        ("x" * 500, "x" * 199 + "…"),
        ("", ""),
    ],
)
def test_errors_are_told_in_one_line_without_paths(error: str, expected: str) -> None:  # mcp.md 2.4
    assert brief(error) == expected
