"""What one door offers (D5, D68, D69, D70; MCP-15, MCP-20)."""

from __future__ import annotations

from collections.abc import Mapping

from app.extend import LOCAL, Json, ToolCommand, ToolSpec
from app.tools.catalogue import Catalogue
from app.tools.offers import DESCRIPTION_BYTES, OPEN_OBJECT, DoorRules, Naming, Offers, mcp_naming, restricted_naming
from tests.fixed_tools import FixedTools


def command(word: str, parameters: Mapping[str, Json] | None = None, **more: str) -> ToolCommand:
    return ToolCommand(id=word, command=word, description=f"does {word}", parameters=parameters, **more)


def catalogue(*specs: ToolSpec) -> Catalogue:
    source = FixedTools(*specs)
    return Catalogue([(source, source.tools())])


def offers(*specs: ToolSpec, rules: DoorRules | None = None, naming: Naming = mcp_naming) -> Offers:
    made = catalogue(*specs)
    return Offers(lambda: made, lambda: rules or DoorRules(), naming)


def names(of: Offers) -> list[str]:
    return [offered.name for offered in of.all()]


def test_tools_come_by_name_and_commands_in_their_order_d69() -> None:
    two = ToolSpec("Two", LOCAL, "Two", (command("z"), command("a")))
    assert names(offers(two, ToolSpec("One", LOCAL, "One", (command("x"),)))) == ["One", "Two.z", "Two.a"]


def test_a_command_without_parameters_has_an_open_object_and_its_text_d70() -> None:
    (offered,) = offers(ToolSpec("One", LOCAL, "Eins", (command("x", example="call x"),))).all()
    assert offered.input_schema == OPEN_OBJECT
    assert offered.description == "does x\n\ncall x"
    assert offered.title == "Eins"


def test_declared_parameters_are_the_schema_as_they_were_written_d5() -> None:
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {"$x": {"type": "integer"}},
        "additionalProperties": False,
    }
    (offered,) = offers(ToolSpec("One", LOCAL, "One", (command("x", schema),))).all()
    assert offered.input_schema is schema


def test_the_root_of_a_schema_is_an_object_mcp_22() -> None:
    (offered,) = offers(ToolSpec("One", LOCAL, "One", (command("x", {"properties": {}}),))).all()
    assert offered.input_schema == {"properties": {}, "type": "object"}


def test_long_descriptions_are_cut_at_8_kib_mcp_20() -> None:
    (offered,) = offers(ToolSpec("One", LOCAL, "One", (ToolCommand("x", "x", "字" * 9000),))).all()
    assert len(offered.description.encode()) <= DESCRIPTION_BYTES + 3
    assert offered.description.endswith("字…")


def test_other_characters_become_underscores_and_collisions_get_a_number_mcp_20() -> None:
    assert mcp_naming(["日记", "日报", "a b", "a_b", "fine.name-1"]) == {
        "日记": "___2",
        "日报": "__",
        "a b": "a_b_2",
        "a_b": "a_b",
        "fine.name-1": "fine.name-1",
    }


def test_a_long_name_is_cut_and_stays_unique() -> None:
    named = mcp_naming(["x" * 200, "x" * 201])
    assert sorted(map(len, named.values())) == [128, 128]
    assert len(set(named.values())) == 2


def test_a_local_name_is_never_lost_to_one_from_elsewhere_d68() -> None:
    assert mcp_naming(["a b"], ["a_b"]) == {"a b": "a_b", "a_b": "a_b_2"}


def test_a_door_shows_what_is_allowed_and_not_denied() -> None:
    specs = [
        ToolSpec("files.read", "mcp:files", "read", (command("read"),), groups=frozenset({"files"})),
        ToolSpec("files.write", "mcp:files", "write", (command("write"),), groups=frozenset({"files"})),
        ToolSpec("Two", LOCAL, "Two", (command("a"), command("b"))),
    ]
    assert names(offers(*specs, rules=DoorRules(deny=("*.write",)))) == ["Two.a", "Two.b", "files.read"]
    assert names(offers(*specs, rules=DoorRules(allow=("Two",), deny=("Two.b",)))) == ["Two.a"]
    assert names(offers(*specs, rules=DoorRules(allow=("group:files",)))) == ["files.read", "files.write"]
    hidden = offers(*specs, rules=DoorRules(allow=("Two",)))
    assert hidden.get("files.read") is None and hidden.get("Two.a") is not None


def test_the_list_is_made_anew_only_when_something_has_changed() -> None:
    rules = DoorRules()
    made = catalogue(ToolSpec("One", LOCAL, "One", (command("x"),)))
    of = Offers(lambda: made, lambda: rules)
    first = of.all()
    assert of.all() is first
    rules = DoorRules(deny=("One",))
    assert of.all() == ()
    rules, made = DoorRules(), catalogue(ToolSpec("Other", LOCAL, "Other", (command("x"),)))
    assert names(of) == ["Other"]


def test_doors_of_few_characters_get_restricted_names_and_the_exact_way_back_d68() -> None:
    of = offers(ToolSpec("files.read", "mcp:files", "read", (command("read"),)), naming=restricted_naming)
    assert names(of) == ["files__read"]
    offered = of.get("files__read")
    assert offered is not None and offered.full_name == "files.read"
    assert of.get("files.read") is None
