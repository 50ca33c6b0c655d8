"""Findings about nodes, their keys, and the port of tool clients (6.4, D63; B15)."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.home.checks.findings import Finding, Level, Topic
from app.hub.nodes.key_file import NODE_KEYS_FILE, make_node_key, revoke_node_key
from tests.home.checks.looked_at import looked_at, told
from tests.home.installations import write

GOOD = "a-good-key-of-its-own"
KEYS = NODE_KEYS_FILE.as_posix()


def found(home: Path, *lines: str, **environ: str) -> list[Finding]:
    """What is found about settings and keys, apart from notes on what every bare home lacks."""
    report = looked_at(home, f"Key={GOOD}", f"AdminPassword={GOOD}2", "API_URL=http://a", *lines, environ=environ)
    return [finding for finding in report.findings if finding.topic in (Topic.SETTINGS, Topic.KEYS)]


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("VCP_Key=short", "warning"),
        ("VCP_Key=please-change-me", "warning"),
        ("VCP_Key=undefined", "error"),
        (f"VCP_Key={GOOD}", "warning"),
        ("ToolSocketToken=short", "warning"),
    ],
)
def test_a_key_of_sockets_that_is_weak_or_equal_to_the_key_is_told(tmp_path: Path, line: str, level: str) -> None:
    assert told(found(tmp_path, line)) == [(level, "config.env", line.partition("=")[0])]


def test_good_settings_of_nodes_and_tool_clients_are_not_spoken_of(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    make_node_key(tmp_path, "a", 0, tools=("Echo",))
    assert (
        found(
            tmp_path,
            "VCP_Key=another-good-key-of-sockets",
            "NodeKeysOnly=true",
            "ToolSocketPort=5005",
            "Main_Server_URL=wss://chat.example.com/somewhere",
            "ServerName=工作站",
            "NodeFileRoots=shared",
        )
        == []
    )


# ---------------------------------------------------------------------- keys of nodes


def test_a_file_of_node_keys_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, KEYS, "{").chmod(0o600)
    (finding,) = found(tmp_path)
    assert (finding.level, finding.file) == (Level.ERROR, KEYS)
    assert "cannot be used" in finding.english and "无法使用" in finding.chinese


def test_a_faulty_entry_is_told_with_its_name_and_the_way_out(tmp_path: Path) -> None:
    make_node_key(tmp_path, "a", 0)
    path = tmp_path / KEYS
    path.write_text(path.read_text().replace("null", '"all"'))
    (finding,) = found(tmp_path)
    assert (finding.level, finding.file) == (Level.ERROR, KEYS)
    assert "'a' has no usable list of tools" in finding.english and "vcp keys node" in finding.english


def test_other_users_of_the_machine_must_not_write_or_read_the_digests(tmp_path: Path) -> None:
    make_node_key(tmp_path, "a", 0)
    (tmp_path / KEYS).chmod(0o644)
    (finding,) = found(tmp_path)
    assert (finding.level, KEYS in finding.english) == (Level.WARNING, True)


def test_node_keys_only_without_any_key_keeps_every_node_out_and_is_told(tmp_path: Path) -> None:
    assert told(found(tmp_path, "NodeKeysOnly=true")) == [("warning", "config.env", "NodeKeysOnly")]
    make_node_key(tmp_path, "a", 0)
    assert found(tmp_path, "NodeKeysOnly=true") == []
    revoke_node_key(tmp_path, "a")
    assert told(found(tmp_path, "NodeKeysOnly=true")) == [("warning", "config.env", "NodeKeysOnly")]


def test_a_node_that_may_bring_nothing_is_good_to_know(tmp_path: Path) -> None:
    make_node_key(tmp_path, "a", 0, tools=())
    assert told(found(tmp_path)) == [("note", KEYS, "a")]


# ---------------------------------------------------------------------- tool clients


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("ToolSocketPort=5005", "ToolSocketHost=0.0.0.0"), ("error", "ToolSocketHost")),
        (("ToolSocketPort=6005",), ("error", "ToolSocketPort")),
        (("ToolSocketPort=5005", "ToolSocketOrigins=*"), ("warning", "ToolSocketOrigins")),
        (("ToolSocketPort=5005", "ToolSocketHost=0.0.0.0", "ToolSocketToken=a-token-of-its-own-1"), None),
        (("ToolSocketHost=0.0.0.0", "ToolSocketOrigins=*"), None),
    ],
)
def test_a_port_of_tool_clients_that_is_open_to_others_needs_a_token(
    tmp_path: Path, lines: tuple[str, ...], expected: tuple[str, str] | None
) -> None:
    expected_findings = [] if expected is None else [(expected[0], "config.env", expected[1])]
    assert told(found(tmp_path, *lines)) == expected_findings


# ---------------------------------------------------------------------- this machine as a node


def test_a_main_server_without_a_key_for_it_is_told(tmp_path: Path) -> None:
    address = "Main_Server_URL=wss://chat.example.com"
    assert told(found(tmp_path, address)) == [("warning", "config.env", "Main_Server_URL")]
    assert found(tmp_path, address, VCP_KEY="a-key-of-this-node-1") == []
    assert found(tmp_path, address, "VCP_Key=a-key-of-this-node-1") == []
    assert found(tmp_path, f"{address}/vcp-distributed-server/VCP_Key=a-key-of-this-node-1") == []


@pytest.mark.parametrize(
    ("address", "level"),
    [
        ("ws://192.168.1.5:6005", "note"),
        ("http://chat.example.com", "note"),
        ("ws://127.0.0.1:6005", None),
        ("http://[::1]:6005", None),
        ("https://chat.example.com/path", None),
        ("chat.example.com:6005", "note"),
        ("localhost:6005", None),
        ("ftp://chat.example.com", "error"),
        ("ws://", "error"),
        ("ws://a:99999", "error"),
        ("ws://[::1", "error"),
    ],
)
def test_the_address_of_the_main_server_is_judged(tmp_path: Path, address: str, level: str | None) -> None:
    expected = [] if level is None else [(level, "config.env", "Main_Server_URL")]
    assert told(found(tmp_path, f"Main_Server_URL={address}", VCP_KEY="a-key-of-this-node-1")) == expected


@pytest.mark.parametrize("name", ["a#b", "-x", "n" * 65, "a b"])
def test_a_name_that_no_node_can_have_is_told(tmp_path: Path, name: str) -> None:
    assert told(found(tmp_path, f'ServerName="{name}"')) == [("warning", "config.env", "ServerName")]


def test_folders_that_give_away_keys_or_are_not_there_are_told(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "pictures").mkdir()
    (home / "round").symlink_to("/")
    (home / "loop").symlink_to("loop")
    write(home, "file", "x")
    judged = {
        "/": "error",
        "round": "error",
        ".": "error",
        str(tmp_path): "error",
        "missing": "warning",
        "file": "warning",
        "loop": "warning",
        "pictures": None,
    }
    for root, level in judged.items():
        expected = [] if level is None else [(level, "config.env", "NodeFileRoots")]
        assert told(found(home, f"NodeFileRoots={root}")) == expected, root
