"""Settings and environment of child processes (spec 5.4, B9, P65, P66)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.plugins.environment import ServerFacts, child_environment, resolve_settings
from app.plugins.manifest import Manifest, read_manifest


@pytest.fixture
def make(tmp_path: Path) -> Any:
    def manifest(**fields: Any) -> Manifest:
        path = tmp_path / "plugin-manifest.json"
        base = {"name": "X", "pluginType": "synchronous", "entryPoint": {"command": "x"}}
        path.write_text(json.dumps({**base, **fields}), encoding="utf-8")
        return read_manifest(path)

    return manifest


@pytest.mark.parametrize(
    ("schema", "own", "environ", "value"),
    [
        ("string", "own", "global", "own"),
        ("string", None, "global", "global"),
        ("string", None, None, None),
        ("string", "", "global", ""),
        ("string", " x ", None, " x "),
        ("integer", "42", None, "42"),
        ("integer", " 007px", None, "7"),
        ("integer", "-5", None, "-5"),
        ("integer", "-0", None, "0"),
        ("integer", "+5", None, "5"),
        ("integer", "0", None, "0"),
        ("integer", "abc", "5", None),
        ("integer", "", None, None),
        ("integer", "9" * 5000, None, "9" * 5000),
        ("boolean", "TRUE", None, "true"),
        ("boolean", "1", None, "false"),
        ("boolean", None, None, None),
        ("number", "0.5", None, "0.5"),
        ({"type": "integer", "default": 5}, None, None, "5"),  # P66
        ({"type": "integer", "default": 5}, "", " ", "5"),
        ({"type": "integer", "default": 5}, "abc", None, "5"),
        ({"type": "integer", "default": 5}, "7", "8", "7"),
        ({"type": "integer", "default": 5}, "", "8", "8"),
        ({"type": "integer", "default": "6"}, None, None, "6"),
        ({"type": "boolean", "default": True}, None, None, "true"),
        ({"type": "boolean", "default": True}, "False", None, "false"),
        ({"type": "number", "default": 0.5}, None, None, "0.5"),
        ({"type": "array", "default": ["汉", 1]}, None, None, '["汉",1]'),
        ({"type": "string", "default": ""}, None, None, None),
        ({"type": "string", "default": None}, "", None, None),
        ({"type": "string"}, "v", None, "v"),
        ({"default": "d"}, None, None, "d"),
    ],
)
def test_settings_are_resolved_by_the_rules_of_their_form(
    make: Any, schema: Any, own: str | None, environ: str | None, value: str | None
) -> None:
    manifest = make(configSchema={"K": schema})
    got = resolve_settings(manifest, {} if own is None else {"K": own}, {} if environ is None else {"K": environ})
    assert got.get("K") == value


def test_keys_outside_the_schema_do_not_reach_the_child(make: Any) -> None:
    assert resolve_settings(make(), {"SECRET": "x"}, {}) == {"DebugMode": "false"}


@pytest.mark.parametrize(
    ("own", "environ", "value"),
    [({}, {}, "false"), ({}, {"DebugMode": "True"}, "true"), ({"DebugMode": "false"}, {"DebugMode": "True"}, "false")],
)
def test_debug_mode_is_always_resolved(make: Any, own: dict[str, str], environ: dict[str, str], value: str) -> None:
    assert resolve_settings(make(), own, environ)["DebugMode"] == value


FACTS = ServerFacts(Path("/srv/home"), port="6005")
ENVIRON = {
    "PATH": "/bin",
    "LC_ALL": "C",
    "Key": "secret",
    "File_Key": "file",
    "https_proxy": "p",
    "VCP_REQUEST_IP": "old",
}


@pytest.mark.parametrize(
    ("wish", "names"),
    [
        (None, {"PATH", "LC_ALL", "Key", "File_Key", "https_proxy"}),
        (True, {"PATH", "LC_ALL", "Key", "File_Key", "https_proxy"}),
        (False, {"PATH", "LC_ALL", "https_proxy"}),
        (["File_Key"], {"PATH", "LC_ALL", "File_Key", "https_proxy"}),
        ("garbage", {"PATH", "LC_ALL", "https_proxy"}),
    ],
)
def test_a_manifest_can_ask_for_less_of_the_servers_environment(make: Any, wish: Any, names: set[str]) -> None:  # B9
    environment, left_out = child_environment(make(inheritEnv=wish), {}, ENVIRON, FACTS)
    own = {"DebugMode", "PROJECT_BASE_PATH", "SERVER_PORT", "PYTHONIOENCODING", "VCP_CALL_DEPTH"}
    assert set(environment) == names | own
    assert left_out == ()


def test_settings_of_the_plugin_win_over_the_servers(make: Any) -> None:
    environment, _ = child_environment(make(configSchema={"Key": "string"}), {"Key": "own"}, ENVIRON, FACTS)
    assert environment["Key"] == "own"


@pytest.mark.parametrize(
    ("admin", "code", "expected"), [(True, "123456", "123456"), (True, None, None), (False, "1", None)]
)
def test_the_auth_code_reaches_administrators_plugins_only(
    make: Any, admin: bool, code: str | None, expected: str | None
) -> None:
    environ = {**ENVIRON, "DECRYPTED_AUTH_CODE": "inherited"}
    environment, _ = child_environment(make(requiresAdmin=admin), {}, environ, FACTS, auth_code=code)
    assert environment.get("DECRYPTED_AUTH_CODE") == expected


def test_variables_that_no_process_can_take_are_left_out_and_named(make: Any) -> None:
    environ = {"BIG": "汉" * 50_000, "NUL": "a\0", "A=B": "x", "": "x", "HALF": "\ud800", "OK": "y"}
    environment, left_out = child_environment(make(), {}, environ, FACTS)
    assert set(left_out) == {"BIG", "NUL", "A=B", "", "HALF"}
    assert environment["OK"] == "y"


@pytest.mark.parametrize("inherit", [True, False])
def test_a_child_is_told_the_depth_of_its_own_requests_whatever_it_would_inherit(make: Any, inherit: bool) -> None:
    manifest = make(inheritEnv=inherit, configSchema={"VCP_CALL_DEPTH": "string"})
    environment, _ = child_environment(
        manifest, {"VCP_CALL_DEPTH": "0"}, {"VCP_CALL_DEPTH": "0", **ENVIRON}, FACTS, depth=2
    )
    assert environment["VCP_CALL_DEPTH"] == "3"
    assert child_environment(manifest, {}, {}, FACTS)[0]["VCP_CALL_DEPTH"] == "1"
