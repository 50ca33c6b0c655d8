from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.extend import ToolCommand, Trust
from app.mcp.groups.groups import GroupSet, ServerGroup
from app.mcp.groups.placeholders import group_texts
from app.mcp.groups.texts import LISTED_CHARS, MAX_TEXT_CHARS
from app.prompt.settings import PromptSettings
from app.protocol.tool_blocks import scan
from tests.mcp.groups.tables import Bench, Working, plugin, served, table
from tests.prompt.installation import Home, static_source


def text(groups: GroupSet, name: str) -> str:
    pieces = group_texts(groups, name)
    assert pieces is not None
    return "".join(piece.text for piece in pieces)


@pytest.fixture
def bench() -> Bench:
    several = replace(
        plugin("Files", groups="disk"),
        commands=(ToolCommand("read", "read", "Reads {{Port}}."), ToolCommand("drop", "drop", "Drops.")),
    )
    far = Working(served("github", "search", "Searches {{Port}}"))
    servers = (ServerGroup("github", "Code at {{Port}}"), ServerGroup("dead", "", "refused {{Port}}"))
    return Bench(Working(several, plugin("Sums")), far, declared=table(some={"tools": ["Files.read"]}), servers=servers)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    path = tmp_path / "home"
    path.mkdir()
    return Home(path)


def test_the_list_has_names_and_descriptions_and_says_how_to_ask(bench: Bench) -> None:
    told = text(bench.groups.of_now(), "ToolGroups")
    listed = [line for line in told.split("\n") if line.startswith("- ")]
    assert listed == [
        "- some: Files 插件",
        "- disk: Files 插件",
        "- github: Code at {{Port}}",
        "- dead: refused {{Port}}",
    ]
    assert "Searches" not in told
    look, run = scan(told)
    assert (look.tool, dict(look.arguments)) == ("get-modular-tools", {"group": "组名"})
    assert run.tool == "call-modular-tool"
    assert list(run.arguments) == ["group", "name", "args"]


def test_without_groups_the_list_says_so() -> None:
    assert text(Bench(Working()).groups.of_now(), "ToolGroups") == "没有可用的工具组"


def test_a_group_is_described_in_full_with_those_commands_only_that_are_in_it(bench: Bench) -> None:
    groups = bench.groups.of_now()
    assert text(groups, "ToolGroup::some") == "- Files 插件 (Files) - 命令: read:\n    Reads {{Port}}."
    assert text(groups, "ToolGroup::disk").count("命令") == 2
    assert "Searches" in text(groups, "ToolGroup::github")
    assert text(groups, "github") == text(groups, "ToolGroup::github")  # {{VCPgithub}}
    assert text(groups, "dead") == "refused {{Port}}"
    for name in ("some", "nobody", "ToolGroup::nobody", "ToolGroup::", "Tavern::x", ""):
        assert group_texts(groups, name) is None


def test_text_of_the_operator_is_expanded_and_text_from_elsewhere_is_not(bench: Bench, home: Home) -> None:
    """D9, D31: descriptions of our files and manifests are operator text, those of servers' tools and errors data."""
    groups = bench.groups.of_now()

    def expanded(written: str) -> str:
        return home.text(written, PromptSettings(port=6005), further=lambda name: group_texts(groups, name))

    listed = expanded("{{VCPToolGroups}}")
    assert "- github: Code at 6005" in listed
    assert "- dead: refused {{Port}}" in listed
    assert "Reads 6005." in expanded("{{VCPToolGroup::disk}}")
    assert "Searches {{Port}}" in expanded("{{VCPgithub}}")
    assert expanded("{{VCPToolGroup::nobody}}") == "{{VCPToolGroup::nobody}}"


def test_only_system_text_is_expanded(bench: Bench, home: Home) -> None:
    groups = bench.groups.of_now()
    written = "{{VCPToolGroups}}"
    assert home.text(written, role="user", further=lambda name: group_texts(groups, name)) == written


def test_a_server_takes_no_placeholder_away(bench: Bench, home: Home) -> None:  # B16
    groups = bench.groups.of_now()
    tools = {"github": plugin("github", "Our own.")}
    further = {"further": lambda name: group_texts(groups, name)}
    assert "Our own." in home.text("{{VCPgithub}}", tools=tools, **further)
    static = static_source(VCPgithub="static text")
    assert home.text("{{VCPgithub}}", sources=[static], **further) == "static text"


def test_the_two_tools_are_not_in_the_list_of_all_tools(bench: Bench, home: Home) -> None:
    tools = bench.router.specs()
    assert "get-modular-tools" in tools
    listed = home.text("{{VCPAllTools}}", tools=tools)
    assert "Reads" in listed
    assert "modular" not in listed
    assert "get-modular-tools" in home.text("{{VCPget-modular-tools}}", tools=tools)


def test_texts_have_limits() -> None:
    servers = tuple(ServerGroup(f"s{number}", "d" * 2000) for number in range(300))
    many = Bench(Working(), servers=servers).groups.of_now()
    told = text(many, "ToolGroups")
    assert len(told) < MAX_TEXT_CHARS + 1000
    assert "…（另有" in told
    assert "call-modular-tool" in told
    assert max(map(len, told.split("\n"))) < LISTED_CHARS + 100
    tools = Working(*(served("big", f"t{number:04}", "w" * 1000) for number in range(500)))
    assert len(text(Bench(tools, servers=(ServerGroup("big"),)).groups.of_now(), "big")) < MAX_TEXT_CHARS + 1000


def test_the_pieces_know_where_they_come_from(bench: Bench) -> None:
    pieces = group_texts(bench.groups.of_now(), "ToolGroups")
    assert pieces is not None
    assert {piece.source: piece.trust for piece in pieces} == {
        "VCPToolGroups": Trust.OPERATOR,
        "tool_group:some": Trust.OPERATOR,
        "tool_group:disk": Trust.OPERATOR,
        "tool_group:github": Trust.OPERATOR,
        "tool_group:dead": Trust.DATA,
    }
