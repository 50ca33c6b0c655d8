"""Manifests are read tolerantly and complained about precisely (spec 5.2, P45, P47)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ManifestError
from app.extend import ToolPush
from app.plugins.manifest import MANIFEST_BYTES_LIMIT, Manifest, read_manifest

MINIMAL = {"name": "Echo", "pluginType": "synchronous", "entryPoint": {"command": "python main.py"}}


def read(tmp_path: Path, **fields: Any) -> Manifest:
    path = tmp_path / "plugin-manifest.json"
    path.write_text(json.dumps({**MINIMAL, **fields}), encoding="utf-8")
    return read_manifest(path)


def read_text(tmp_path: Path, text: str | bytes) -> Manifest:
    path = tmp_path / "plugin-manifest.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_manifest(path)


def test_a_minimal_manifest_has_the_documented_defaults(tmp_path: Path) -> None:
    manifest = read(tmp_path)
    assert (manifest.name, manifest.display, manifest.protocol) == ("Echo", "Echo", "stdio")
    assert manifest.timeout == 60.0
    assert manifest.eager
    assert not manifest.idempotent
    assert manifest.inherit_env is True
    assert manifest.max_running is None
    assert manifest.complaints == ()
    assert manifest.callable_over_stdio


def test_every_field_is_read(tmp_path: Path) -> None:
    manifest = read(
        tmp_path,
        displayName="回声",
        version="1.0",
        author="me",
        description="d",
        communication={"protocol": "stdio", "timeout": 1500},
        refreshIntervalCron="0 8 * * 0",
        requiresAdmin=True,
        hasApiRoutes=True,
        eager=False,
        idempotent=True,
        maxRunning=3,
        inheritEnv=["PORT"],
        webSocketPush={"enabled": True, "messageType": "m", "targetClientType": "VCPLog"},
        capabilities={
            "systemPromptPlaceholders": [{"placeholder": "{{X}}", "description": "x"}],
            "invocationCommands": [
                {
                    "commandIdentifier": "Say",
                    "command": "say",
                    "description": "two\nlines",
                    "example": "e",
                    "parameters": {"type": "object"},
                    "typed": True,
                    "toolName": "echo_say",
                    "title": "说",
                    "outputSchema": {"type": "object"},
                    "annotations": {"readOnlyHint": True},
                },
                {"command": "plain", "description": "p"},
            ],
        },
        somethingNew={"kept": [1]},
    )
    say, plain = manifest.commands
    assert (say.id, say.command, say.description, say.example) == ("Say", "say", "two\nlines", "e")
    assert (say.parameters, say.typed, say.tool_name) == ({"type": "object"}, True, "echo_say")
    assert (say.title, say.output_schema, say.annotations) == ("说", {"type": "object"}, {"readOnlyHint": True})
    assert (plain.id, plain.parameters, plain.typed, plain.tool_name) == ("plain", None, False, None)
    assert (plain.title, plain.output_schema, plain.annotations) == ("", None, None)
    assert manifest.display == "回声"
    assert manifest.timeout == 1.5
    assert manifest.cron == "0 8 * * 0"
    assert manifest.requires_admin
    assert manifest.has_routes
    assert not manifest.eager
    assert manifest.idempotent
    assert manifest.max_running == 3
    assert manifest.inherit_env == frozenset({"PORT"})
    assert manifest.push == ToolPush("m", "VCPLog")
    assert manifest.placeholders[0].placeholder == "{{X}}"
    assert manifest.raw["somethingNew"] == {"kept": [1]}
    assert manifest.complaints == ()


def test_byte_order_mark_crlf_and_repeated_comment_keys_are_accepted(tmp_path: Path) -> None:
    text = json.dumps(MINIMAL, indent=1).replace("\n", "\r\n")
    text = '{"//": "one",\r\n"//": "two",' + text[1:]
    manifest = read_text(tmp_path, b"\xef\xbb\xbf" + text.encode())
    assert manifest.name == "Echo"
    assert manifest.command_line == "python main.py"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{\n "name": "A",\n oops\n}', "line 3, column 2"),
        ("", "line 1, column 1"),
        ("[]", "must hold a JSON object, not a list"),
        ('{"pluginType":"static","entryPoint":{"command":"x"}}', "field name: missing"),
        ('{"name":5,"pluginType":"static","entryPoint":{}}', "field name: must be a string with text, is a number"),
        ('{"name":" ","pluginType":"static","entryPoint":{}}', "field name"),
        ('{"name":"A","entryPoint":{"command":"x"}}', "field pluginType: missing"),
        ('{"name":"A","pluginType":"static"}', "field entryPoint: must be an object, is null"),
        ('{"name":"A","pluginType":"static","entryPoint":"x"}', "field entryPoint: must be an object, is a string"),
        ('{"name":"A","x":NaN}', "NaN is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        (b'{\n"name": "\xff"}', "line 2: not UTF-8"),
        (b" " * (MANIFEST_BYTES_LIMIT + 1), "larger than"),
    ],
)
def test_an_unusable_manifest_is_refused_with_file_and_place(tmp_path: Path, text: str | bytes, words: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read_text(tmp_path, text)
    assert str(tmp_path / "plugin-manifest.json") in caught.value.message
    assert words in caught.value.message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"nothing\.json: cannot be read"):
        read_manifest(tmp_path / "nothing.json")


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"displayName": ["x"]}, "field displayName: must be a string, is a list"),
        ({"communication": "stdio"}, "field communication: must be an object"),
        ({"communication": {"timeout": "soon"}}, "field communication.timeout"),
        ({"communication": {"timeout": -1}}, "field communication.timeout"),
        ({"communication": {"timeout": True}}, "field communication.timeout"),
        ({"capabilities": {"invocationCommands": {}}}, "field capabilities.invocationCommands: must be a list"),
        ({"capabilities": {"invocationCommands": ["x"]}}, "field capabilities.invocationCommands[0]: must be an obj"),
        (
            {"capabilities": {"invocationCommands": [{"command": "a"}, {"description": []}]}},
            "field capabilities.invocationCommands[1].description",
        ),
        (
            {"capabilities": {"invocationCommands": [{"command": "a", "outputSchema": "x", "annotations": {}}]}},
            "field capabilities.invocationCommands[0].outputSchema: must be an object",
        ),
        (
            {"capabilities": {"invocationCommands": [{"command": "a", "annotations": [1], "outputSchema": None}]}},
            "field capabilities.invocationCommands[0].annotations: must be an object",
        ),
        ({"capabilities": {"systemPromptPlaceholders": [{}]}}, "field capabilities.systemPromptPlaceholders[0]"),
        ({"configSchema": {"A": 5}}, "field configSchema.A"),
        ({"maxRunning": 0}, "field maxRunning"),
        ({"groups": 7}, "field groups"),
        ({"groups": ["good", "{bad}"]}, "field groups"),
        ({"groups": [None]}, "field groups"),
        ({"groups": [f"g{number}" for number in range(21)]}, "field groups"),
        ({"eager": "maybe"}, "field eager"),
        ({"pluginType": "newKind"}, "field pluginType: unknown type 'newKind'"),
        ({"inheritEnv": "no"}, "field inheritEnv"),
        ({"entryPoint": {"type": "python"}}, "field entryPoint.command: missing"),
    ],
)
def test_an_odd_field_costs_itself_and_is_complained_about(
    tmp_path: Path, fields: dict[str, Any], complaint: str
) -> None:
    manifest = read(tmp_path, **fields)
    assert manifest.name == "Echo"
    assert manifest.timeout == 60.0
    assert len(manifest.complaints) == 1
    assert complaint in manifest.complaints[0]
    assert "plugin-manifest.json" in manifest.complaints[0]


def test_the_time_limit_inside_the_entry_point_is_ignored(tmp_path: Path) -> None:
    assert read(tmp_path, entryPoint={"command": "x", "timeout": 5}).timeout == 60.0


def test_asynchronous_plugins_have_thirty_minutes(tmp_path: Path) -> None:
    assert read(tmp_path, pluginType="asynchronous").timeout == 1800.0


@pytest.mark.parametrize("value", [True, "true", "yes", 1, "false", []])
def test_anything_but_a_plain_no_makes_a_plugin_an_administrators(tmp_path: Path, value: Any) -> None:
    assert read(tmp_path, requiresAdmin=value).requires_admin


@pytest.mark.parametrize("value", [None, False])
def test_a_plain_no_does_not(tmp_path: Path, value: Any) -> None:
    assert not read(tmp_path, requiresAdmin=value).requires_admin


def test_an_unreadable_wish_for_less_environment_gives_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, inheritEnv="no").inherit_env is False


def test_the_list_form_of_the_settings_schema_is_ignored(tmp_path: Path) -> None:
    manifest = read(tmp_path, configSchema=[{"key": "A"}])
    assert manifest.settings == {}
    assert manifest.complaints == ()


def test_a_node_module_is_known_as_such(tmp_path: Path) -> None:
    manifest = read(tmp_path, pluginType="service", entryPoint={"type": "nodejs", "script": "x.js"})
    assert manifest.protocol == "direct"
    assert manifest.runs_in_node
    assert not manifest.callable_over_stdio


TEXTS = st.sampled_from(["", "x", "true", "stdio", "static", "type", "enabled", "timeout", "汉"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from([0.5, -1.0, 1e308]) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    [
        *("name", "pluginType", "entryPoint", "displayName", "communication", "configSchema", "capabilities"),
        *(
            "webSocketPush",
            "eager",
            "idempotent",
            "maxRunning",
            "inheritEnv",
            "requiresAdmin",
            "hasApiRoutes",
            "groups",
        ),
        "refreshIntervalCron",
    ]
)


@given(st.dictionaries(FIELDS, JSON))
def test_no_json_makes_the_reader_fall_over(tmp_path_factory: pytest.TempPathFactory, fields: dict[str, Any]) -> None:
    path = tmp_path_factory.getbasetemp() / "any-manifest.json"
    path.write_text(json.dumps({**MINIMAL, **fields}), encoding="utf-8")
    try:
        manifest = read_manifest(path)
    except ManifestError as error:
        assert "field" in error.message
    else:
        assert manifest.timeout > 0


@pytest.mark.parametrize("kind", ["synchronous", "static", "asynchronous"])
def test_a_type_that_cannot_run_inside_the_server_is_told_so(tmp_path: Path, kind: str) -> None:
    direct = {"entryPoint": {"script": "x.py"}, "communication": {"protocol": "direct"}}
    (complaint,) = read(tmp_path, pluginType=kind, **direct).complaints
    assert f"pluginType: {kind} cannot be a module of the server" in complaint
    assert read(tmp_path, pluginType="service", **direct).complaints == ()


@pytest.mark.parametrize(
    ("written", "groups"),
    [
        ("maths", {"maths"}),
        (["maths", " 图像 "], {"maths", "图像"}),
        ([], set()),
        (None, set()),
        (["a\nb", "good"], {"good"}),
    ],
)
def test_a_plugin_may_be_in_groups(tmp_path: Path, written: Any, groups: set[str]) -> None:
    assert read(tmp_path, groups=written).groups == groups
