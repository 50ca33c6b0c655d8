"""What names mean and what a door lists (D68, D69, STD-33, MCP-15)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.extend import ToolCommand, ToolSpec
from app.tools.catalogue import Catalogue, command_named
from app.tools.descriptions import describe
from tests.fixed_tools import FixedTools


def catalogue(*sources: FixedTools) -> Catalogue:
    return Catalogue([(source, source.tools()) for source in sources])


def tool(name: str, *commands: ToolCommand, origin: str = "local", callable: bool = True) -> ToolSpec:
    return ToolSpec(name, origin, name, commands, callable=callable)


def command(id: str, own: str | None = None, word: str = "") -> ToolCommand:
    return ToolCommand(id, word, "d", tool_name=own)


def means(found: Catalogue, name: str) -> tuple[str, str, str | None] | None:
    what = found.find(name)
    return what and (what.spec.origin, what.spec.name, what.command)


NOVEL = tool("Novel", command("Read", "novel_read", "read"), command("Write", "novel_write"), command("Rest"))


def test_a_command_is_found_by_its_own_name_beside_all_others() -> None:
    found = catalogue(FixedTools(NOVEL))
    assert means(found, "novel_read") == ("local", "Novel", "read")
    assert means(found, "novel_write") == ("local", "Novel", "Write")
    assert means(found, "Novel") == ("local", "Novel", None)
    assert means(found, "Novel.read") == ("local", "Novel", "read")
    assert means(found, "Novel.Read") == ("local", "Novel", "Read")
    assert means(found, "Novel.novel_read") is None
    assert means(found, "read") is None


def test_a_tool_that_can_do_one_thing_is_not_told_which() -> None:
    found = catalogue(FixedTools(tool("Dice", command("roll", "roll_dice"))))
    assert means(found, "roll_dice") == ("local", "Dice", None)


def test_the_word_for_a_command_means_no_other() -> None:
    spec = tool("T", command("a", "own_a", "same"), command("b", "own_b", "same"), command("x", "own_c", "a"))
    found = catalogue(FixedTools(spec))
    for name, index in (("own_a", 0), ("own_b", 1), ("own_c", 2)):
        what = found.find(name)
        assert what is not None
        assert what.command is not None
        assert command_named(what.spec, what.command) is spec.commands[index]


def test_no_name_on_this_machine_is_shadowed_whatever_the_order_of_the_sources() -> None:
    far = FixedTools(
        tool("novel_read", command("x"), origin="far"),
        tool("Novel.Rest", origin="far"),
        tool("Novel", origin="far"),
        tool("Other", command("a", "novel_write"), command("b", "Novel"), command("c", "c_of_other"), origin="far"),
    )
    for found in (catalogue(FixedTools(NOVEL), far), catalogue(far, FixedTools(NOVEL))):
        assert means(found, "Novel") == ("local", "Novel", None)
        assert means(found, "novel_read") == ("local", "Novel", "read")
        assert means(found, "novel_write") == ("local", "Novel", "Write")
        assert means(found, "Novel.Rest") == ("local", "Novel", "Rest")
        assert means(found, "c_of_other") == ("far", "Other", "c")
        assert means(found, "novel_read.x") is None
        assert set(found.specs) == {"Novel", "Other"}
        assert len(found.complaints) == 4, "two tools and two names of commands"


def test_names_that_are_not_in_force_are_told_and_not_shown() -> None:
    found = catalogue(FixedTools(tool("A", command("a", "go"), command("b", "stop")), tool("B", command("c", "go"))))
    assert means(found, "go") == ("local", "A", "a")
    assert [one.tool_name for one in found.specs["B"].commands] == [None]
    assert found.complaints == ("toolName go of B is not used: it is already a name of A",)
    assert describe(found.specs["B"]) == "- B (B) - 命令: N/A:\n    d"
    assert describe(found.specs["A"]) == "- A (go) - 命令: N/A:\n    d\n\n- A (stop) - 命令: N/A:\n    d"


def test_lists_go_by_tool_and_keep_the_order_of_commands() -> None:
    found = catalogue(
        FixedTools(
            tool("Zeta", command("only", word="w")),
            tool("Static", command("c"), callable=False),
            NOVEL,
            tool("Bare"),
            tool("Odd", command("x", word="y"), command("", word="x"), command("")),
            tool("Alone", command("c", "own")),
        ),
        FixedTools(tool("Far", command("b"), command("a"), origin="far")),
    )
    assert [(one.name, one.spec.name, one.command and one.command.id) for one in found.listed()] == [
        ("own", "Alone", "c"),
        ("Bare", "Bare", None),
        ("Far.b", "Far", "b"),
        ("Far.a", "Far", "a"),
        ("novel_read", "Novel", "Read"),
        ("novel_write", "Novel", "Write"),
        ("Novel.Rest", "Novel", "Rest"),
        ("Odd.x", "Odd", "x"),
        ("Odd", "Odd", None),
        ("Zeta", "Zeta", "only"),
    ]
    for one in found.listed():
        what = found.find(one.name)
        assert what is not None
        assert what.spec is one.spec
        assert what.command is None or command_named(what.spec, what.command) is one.command


WORDS = st.sampled_from(["", "x", "y", "go"])
COMMANDS = st.builds(
    ToolCommand,
    id=WORDS,
    command=WORDS,
    description=st.just("d"),
    tool_name=st.sampled_from([None, None, "go", "n", "A", "x", "a.b"]),
)
SPECS = st.builds(
    ToolSpec,
    name=st.sampled_from(["A", "B", "A.x", "x", "y", "A.B", "B.y", "n", "go"]),
    origin=st.sampled_from(["local", "far"]),
    display=st.just("d"),
    commands=st.lists(COMMANDS, max_size=3).map(tuple),
)


@given(st.lists(st.lists(SPECS, max_size=4), max_size=3))
def test_whatever_is_offered_local_names_are_local_and_each_listed_name_leads_to_what_it_was_listed_for(
    offered: list[list[ToolSpec]],
) -> None:
    sources = [FixedTools(*specs) for specs in offered]
    found = catalogue(*sources)
    local = {name for source in sources for name, spec in source.tools().items() if spec.origin == "local"}
    for name in local:
        what = found.find(name)
        assert what is not None
        assert (what.spec.origin, what.spec.name, what.command) == ("local", name, None)
        for one in what.spec.commands:
            for said in (f"{name}.{one.id}" if one.id else name, one.tool_name or name):
                behind = found.find(said)
                assert behind is not None
                assert behind.spec.origin == "local"
    listed = list(found.listed())
    assert len({one.name for one in listed}) == len(listed)
    for entry in listed:
        what = found.find(entry.name)
        assert what is not None
        assert what.spec is entry.spec
        assert what.command is None or command_named(what.spec, what.command) is entry.command
