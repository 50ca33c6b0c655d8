"""Forms that try a tool: fields of a schema, rows of an example, and the call of a filled-in form (D5)."""

from __future__ import annotations

from typing import Any

import pytest

from app.errors import BadRequestError
from app.extend import ToolCommand, ToolSpec
from app.tools.catalogue import Listed
from app.tools.trial import FREE_ROWS, MAX_FIELDS, TrialField, free_rows, trial_call, trial_fields

COMMAND = ToolCommand("a", "a", "d")
WAY = Listed("Tool.a", ToolSpec("Tool", "local", "Tool", (COMMAND,)), COMMAND)


def call(*form: tuple[str, str], wanted: bool = True) -> Any:
    return trial_call(WAY, form, "c1", password_wanted=wanted)


def test_each_kind_of_schema_has_its_field() -> None:
    schema = {
        "required": ["s", 5],
        "properties": {
            "s": {"type": "string", "title": "T", "description": "D", "default": "x"},
            "n": {"type": ["null", "integer"], "default": 0},
            "b": {"type": "boolean", "default": False},
            "e": {"enum": ["one", 2, None]},
            "o": {"type": "object", "default": {"a": 1}},
            "l": {"type": "array"},
            "w": True,
            "u": {"anyOf": [{"type": "string"}]},
        },
    }
    fields = {field.name: field for field in trial_fields(schema)}
    assert fields["s"] == TrialField("s", "text", "T", "D", True, "x")
    assert {name: field.kind for name, field in fields.items()} == {
        "s": "text",
        "n": "number",
        "b": "boolean",
        "e": "choice",
        "o": "json",
        "l": "json",
        "w": "text",
        "u": "text",
    }
    assert (fields["n"].value, fields["b"].value, fields["e"].choices) == ("0", "false", ("one", "2", "null"))
    assert fields["o"].value == '{\n  "a": 1\n}'


@pytest.mark.parametrize("schema", [None, {}, {"properties": 5}, {"required": "x", "properties": {"a": {"enum": {}}}}])
def test_schemas_that_say_nothing_or_nonsense_hurt_nobody(schema: Any) -> None:
    assert [field.kind for field in trial_fields(schema)] in ([], ["text"])


def test_fields_are_limited() -> None:
    assert len(trial_fields({"properties": {f"f{number}": {} for number in range(MAX_FIELDS + 9)}})) == MAX_FIELDS


def test_rows_start_with_the_example_of_a_command_and_are_empty_without_one() -> None:
    fields = "tool_name:「始」T「末」,\nmaid:「始」Nova「末」,\na:「始」1「末」"
    block = f"<<<[TOOL_REQUEST]>>>\n{fields}\n<<<[END_TOOL_REQUEST]>>>"
    rows = free_rows(f"talk {block} more")
    assert rows[0] == ("a", "1") and len(rows) == FREE_ROWS and set(rows[1:]) == {("", "")}
    for example in ("", "no block", "<<<[TOOL_REQUEST]>>>"):
        assert free_rows(example) == (("", ""),) * FREE_ROWS


def test_a_call_has_the_texts_that_were_filled_in() -> None:
    made = call(
        ("way", "x"),
        ("arg:a", "1\r\n2"),
        ("arg:empty", "  "),
        ("name", " b "),
        ("value", "3"),
        ("name", ""),
        ("value", ""),
        ("tool_password", " 123 "),
        ("maid", "Nova"),
        ("arg:bad\ud800", "x\ud800"),
    )
    assert made.tool == "Tool.a" and made.id == "c1" and made.password == "123" and made.maid == "Nova"
    assert made.arguments == made.texts == {"a": "1\n2", "b": "3", "maid": "Nova", "bad\ufffd": "x\ufffd"}


def test_a_password_is_only_one_where_it_is_wanted_and_values_need_names() -> None:
    assert call(("tool_password", "123"), wanted=False).password is None
    with pytest.raises(BadRequestError, match="under no name"):
        call(("name", ""), ("value", "x"))
