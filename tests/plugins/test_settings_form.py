"""A plugin's settings as a form: what holds, and that only what was changed is written (D84)."""

from __future__ import annotations

from typing import Any

from app.plugins.manifest import manifest_of
from app.plugins.settings_form import MAX_FIELDS, filled_in, setting_fields


def manifest(schema: Any) -> Any:
    raw = {"name": "P", "pluginType": "synchronous", "entryPoint": {"command": "x"}, "configSchema": schema}
    return manifest_of(raw, "P")


def test_a_field_tells_what_is_set_what_else_holds_and_what_is_secret() -> None:
    schema = {"My_Token": "string", "Size": {"type": "integer", "default": 7, "description": "d"}, "bad key": "string"}
    token, size = setting_fields(manifest(schema), "My_Token=x\nOther=1", {"Size": "9", "My_Token": " "})
    assert (token.value, token.secret, token.inherited) == ("x", True, False)
    assert (size.value, size.default, size.description, size.inherited) == (None, "7", "d", True)


def test_only_what_differs_is_written() -> None:
    text = "# top\r\nA=1 # note\r\nB='two words'\r\nC=3\r\n"
    fields = setting_fields(manifest({"A": "string", "B": "string", "C": "string", "D": "string"}), text, {})
    assert filled_in(fields, text, {"A": "1", "B": "two words", "Unknown": "x"}) == text
    changed = filled_in(fields, text, {"A": "2", "C": "", "D": "line\r\nline"})
    assert changed.startswith("# top\r\nA=2 # note\r\nB='two words'\r\n") and "C=" not in changed
    assert {
        field.key: field.value for field in setting_fields(manifest({"A": "string", "D": "string"}), changed, {})
    } == {
        "A": "2",
        "D": "line\nline",
    }


def test_fields_are_limited() -> None:
    many = manifest({f"K{number}": "string" for number in range(MAX_FIELDS + 5)})
    assert len(setting_fields(many, "", {})) == MAX_FIELDS
