"""``mcp_servers.json`` in every dialect (D73, MOD-6, P84, P89, P93, P95)."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from app.mcp.client.server_entry import OAuthEntry, ServerEntry, ServerKind
from app.mcp.client.servers_file import GONE_SECONDS, ServersFile, ServersFileError, name_fault, read_servers
from tests.mcp.client.clock import SetClock

FILE = "mcp_servers.json"


def read(value: Any, environ: Mapping[str, str] | None = None, **options: Any) -> tuple[Any, list[str]]:
    """The table, and the problems as text."""
    data = value if isinstance(value, bytes) else (value if isinstance(value, str) else json.dumps(value)).encode()
    table, problems = read_servers(data, environ or {}, **options)
    return table, [str(problem) for problem in problems]


def one(entry: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> tuple[ServerEntry, list[str]]:
    """The only server, and the problems."""
    table, problems = read({"mcpServers": {"s": entry}}, environ)
    assert list(table.entries) == ["s"], problems
    return table.entries["s"], problems


def lost(entry: Any) -> list[str]:
    """The problems of a server that is left out."""
    table, problems = read({"mcpServers": {"s": entry, "good": {"command": "sh"}}})
    assert list(table.entries) == ["good"]
    return problems


def test_a_stdio_server_of_an_ordinary_client_is_read() -> None:
    entry, problems = one({"command": "npx", "args": ["-y", "thing"], "env": {"A": "b"}})
    assert (entry.kind, entry.command, entry.args, dict(entry.env)) == (
        ServerKind.STDIO,
        "npx",
        ("-y", "thing"),
        {"A": "b"},
    )
    assert problems == [] and not entry.disabled and not entry.sampling and not entry.inherit_env


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        ({"url": "https://x.org/mcp"}, "http"),
        ({"serverUrl": "https://x.org/mcp"}, "http"),
        ({"httpUrl": "https://x.org/sse"}, "http"),
        ({"baseUrl": "https://x.org/mcp", "type": "streamableHttp"}, "http"),
        ({"url": "https://x.org/sse"}, "sse"),
        ({"url": "https://x.org/mcp", "type": "streamable-http"}, "http"),
        ({"url": "https://x.org/mcp", "type": "streamable_http"}, "http"),
        ({"url": "https://x.org/mcp", "transport": "sse"}, "sse"),
        ({"url": "https://x.org/mcp", "type": "remote"}, "http"),
        ({"command": "sh", "type": "stdio"}, "stdio"),
        ({"command": ["sh", "-c", "x"], "type": "local", "environment": {"A": "1"}}, "stdio"),
    ],
)
def test_p95_each_dialect_of_kind_and_address_is_understood(entry: dict[str, Any], kind: str) -> None:
    found, problems = one(entry)
    assert found.kind == kind and problems == []
    assert found.url.startswith("https://x.org/") if kind != "stdio" else found.command == "sh"


@pytest.mark.parametrize(
    "value",
    [
        {"mcpServers": {"a": {"command": "sh"}}},
        {"servers": {"a": {"command": "sh"}}},
        {"mcp": {"servers": {"a": {"command": "sh"}}}},
        {"context_servers": {"a": {"command": "sh"}}},
        {"mcpServers": [{"name": "a", "command": "sh"}]},
        [{"id": "a", "command": "sh"}],
        {"$schema": "https://x", "inputs": [], "servers": {"a": {"command": "sh"}}},
    ],
)
def test_p95_each_dialect_of_the_root_is_understood(value: Any) -> None:
    table, problems = read(value)
    assert list(table.entries) == ["a"] and problems == []


@pytest.mark.parametrize(
    "entry", [{"disabled": True}, {"enabled": False}, {"isActive": False}, {"enabled": True, "disabled": True}]
)
def test_p95_a_server_can_be_switched_off_in_each_dialect(entry: dict[str, Any]) -> None:
    found, problems = one({"command": "sh", **entry})
    assert found.disabled and problems == []


def test_p95_an_unknown_key_or_kind_is_refused_by_name_and_never_dropped_silently() -> None:
    """MOD-4."""
    _, problems = one({"command": "sh", "autoApprove": ["x"], "//": "a note"})
    assert len(problems) == 1 and "s.autoApprove" in problems[0]
    assert "s.type" in lost({"type": "websocket", "url": "ws://x"})[0]
    table, problems = read({"mcpServers": {}, "servrs": {"a": {}}})
    assert not table.entries and "servrs" in problems[0]


def test_p84_only_braced_names_are_variables_and_dollars_stay() -> None:
    environ = {"HOME_X": "/h", "A_B": "${HOME_X}", "EMPTY": ""}
    entry, problems = one(
        {
            "command": "sh${HOME_X}",
            "args": ["${HOME_X}/${A_B}", "$HOME_X", "${HOME_X:-b}", "${1X}", "[${EMPTY}]"],
            "env": {"A": "${HOME_X}", "B": "pa$$word"},
            "description": "${HOME_X}",
        },
        environ,
    )
    assert entry.args == ("/h/${HOME_X}", "$HOME_X", "${HOME_X:-b}", "${1X}", "[]")
    assert dict(entry.env) == {"A": "/h", "B": "pa$$word"}
    assert entry.command == "sh${HOME_X}" and entry.description == "${HOME_X}"  # MOD-6: not there
    assert len(problems) == 1 and "${HOME_X:…} stays as written" in problems[0]


def test_p95_variables_of_other_clients_stay_as_written_and_are_told_without_what_stands_in_them() -> None:
    headers = {"Authorization": "Bearer ${env:TOKEN}", "B": "${input:key} ${KEY:-a-secret}", "C": "${a.b:c} $env:X"}
    entry, problems = one({"url": "https://x.org", "headers": headers})
    assert dict(entry.headers) == headers
    assert [re.findall(r"\$\{\w+:…\} stays", problem) for problem in problems] == [
        ["${env:…} stays"],
        ["${input:…} stays"],
        ["${KEY:…} stays"],
    ]
    assert "secret" not in str(problems)


def test_p84_a_missing_variable_is_a_warning_for_that_server_and_stays_as_written() -> None:
    table, problems = read(
        {
            "mcpServers": {
                "a": {"url": "https://x.org/${KEY}", "headers": {"K": "${KEY} ${OTHER}"}},
                "b": {"command": "sh"},
            }
        }
    )
    entry = table.entries["a"]
    assert entry.url == "https://x.org/${KEY}" and entry.missing == ("KEY", "OTHER")
    assert len(problems) == 2 and "KEY" in problems[0] and "OTHER" in problems[1]
    assert list(table.entries) == ["a", "b"]


def test_d73_comments_commas_and_a_byte_order_mark_are_told_with_their_line() -> None:
    table, problems = read('\ufeff{ // mine\n"mcpServers": {"a": {"command": "sh"},}\n}')
    assert list(table.entries) == ["a"]
    assert [problem.split(":")[1] for problem in problems] == ["1", "1", "2"]


def test_d73_a_bad_entry_loses_only_itself_and_is_told_with_its_line() -> None:
    text = '{"mcpServers": {\n"a": {"command": "sh"},\n"b": {\n"args": 5},\n"c": {"url": "ftp://x"},\n"d": []}}'
    table, problems = read(text)
    assert list(table.entries) == ["a"]
    assert [problem.split(":")[1] for problem in problems] == ["3", "5", "6"]
    assert table.lost == ("b", "c.url", "d")


@pytest.mark.parametrize(
    ("data", "line"),
    [(b"", 1), (b'{\n"a" "b"}', 2), (b"\n\xff", 2), (b"5", None), (b"[" * 100_000, None), (b"{} x", 1)],
)
def test_what_cannot_be_read_at_all_is_one_error(data: bytes, line: int | None) -> None:
    with pytest.raises(ServersFileError) as caught:
        read_servers(data, {})
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ({}, "s"),
        ({"command": ""}, "s.command"),
        ({"command": "a\0b"}, "s.command"),
        ({"command": 5}, "s.command"),
        ({"command": "sh", "args": {"a": 1}}, "s.args"),
        ({"command": "sh", "args": [{}]}, "s.args"),
        ({"command": "sh", "args": ["a\0b"]}, "s.args"),
        ({"command": "sh", "args": ["x"] * 2000}, "s.args"),
        ({"command": "sh", "env": {"A": ["x"]}}, "s.env.A"),
        ({"url": "https://"}, "s.url"),
        ({"url": "https://x.org:99999/"}, "s.url"),
        ({"url": "https://x.org/a b"}, "s.url"),
        ({"url": "file:///etc/passwd"}, "s.url"),
        ({"type": "http", "command": "sh"}, "s.url"),
        ("sh", "s"),
        (None, "s"),
    ],
)
def test_entries_of_no_use_are_left_out_by_name(entry: Any, key: str) -> None:
    problems = lost(entry)
    assert any(f": {key}: " in problem for problem in problems), problems


def test_values_of_a_wrong_kind_are_told_and_passed_over() -> None:
    entry, problems = one(
        {
            "command": "sh",
            "timeout": "long",
            "disabled": "no",
            "description": 5,
            "maxRunning": 0,
            "idleSeconds": -1,
            "cwd": {},
            "tools": 5,
            "url": "x",
            "headers": {},
        }
    )
    assert entry == ServerEntry("s", ServerKind.STDIO, command="sh")
    told = {problem.split(": ")[1] for problem in problems}
    wrong = ("timeout", "disabled", "description", "maxRunning", "idleSeconds", "cwd", "tools", "url", "headers")
    assert told == {f"s.{key}" for key in wrong}


def test_numbers_and_switches_become_texts_where_texts_are_wanted() -> None:
    entry, _ = one({"command": "sh", "args": ["-p", 80, True], "env": {"N": 1, "Y": False, "GONE": None}})
    assert entry.args == ("-p", "80", "true") and dict(entry.env) == {"N": "1", "Y": "false"}


def test_everything_else_of_an_entry_is_read() -> None:
    entry, problems = one(
        {
            "url": "https://user:pass@x.org/mcp?token=t",
            "description": "Mine",
            "headers": {"Authorization": "Bearer ${T}", "bad name": "x", "X-Bad": "a\nb"},
            "timeout": 7,
            "connectSeconds": 3,
            "idleSeconds": 9.5,
            "maxRunning": 2,
            "autoStart": True,
            "sampling": True,
            "samplingModel": "m",
            "roots": ["docs", "client"],
            "tools": {"allow": ["a*"], "deny": ["ab"], "timeouts": {"a": 600, "b": -1}},
            "oauth": {"clientId": "id", "clientSecret": "s", "scopes": "x y"},
        },
        {"T": "tok"},
    )
    assert entry.headers == {"Authorization": "Bearer tok"}
    assert (entry.timeout, entry.connect_seconds, entry.idle_seconds, entry.max_running) == (7, 3, 9.5, 2)
    assert entry.auto_start and entry.sampling and entry.sampling_model == "m" and entry.roots == ("docs", "client")
    assert entry.allow == ("a*",) and entry.deny == ("ab",) and dict(entry.tool_timeouts) == {"a": 600}
    assert entry.oauth == OAuthEntry("id", "s", ("x", "y"))
    assert entry.shown == "https://x.org/mcp"
    assert len(problems) == 3
    for secret in ("tok", "pass", "token"):
        assert secret not in repr(entry)


def test_tools_may_be_a_list_and_lists_of_other_clients_count_too() -> None:
    entry, problems = one({"command": "sh", "tools": ["*"], "disabledTools": ["rm"], "includeTools": ["ls"]})
    assert entry.allow == ("*", "ls") and entry.deny == ("rm",) and problems == []


def test_d74_a_time_limit_is_not_capped_and_milliseconds_have_a_name_of_their_own() -> None:
    entry, problems = one({"command": "sh", "timeout": 600_000})
    assert entry.timeout == 600_000 and "s.timeout" in problems[0]  # told: these may be meant as milliseconds
    entry, problems = one({"command": "sh", "timeoutMs": 1500})
    assert entry.timeout == 1.5 and problems == []


@pytest.mark.parametrize("name", ["fs", "my server", "文件", "a.b", "x" * 64, "a/b"])
def test_server_names_are_free_text(name: str) -> None:
    assert name_fault(name) == ""


@pytest.mark.parametrize("name", ["", " a", "a#b", "a\nb", "x" * 65, "「a」", "a\x7f"])
def test_names_that_no_call_could_write_are_refused(name: str) -> None:
    assert " / " in name_fault(name)
    table, problems = read({"mcpServers": {name: {"command": "sh"}, "b": {"command": "sh"}}})
    assert list(table.entries) == ["b"] and len(problems) == 1


def test_there_is_an_end_to_servers_and_to_complaints() -> None:
    table, problems = read({"mcpServers": {f"s{number}": {"command": "sh"} for number in range(1_000)}})
    assert len(table.entries) == 500 and len(problems) == 100


def test_root_keys_of_the_caller_are_handed_on() -> None:
    table, problems = read({"mcpServers": {}, "expose": "flat", "x": 1}, further=frozenset({"expose"}))
    assert dict(table.further) == {"expose": "flat"} and len(problems) == 1


# --- while the server runs ------------------------------------------------------------------------------------------


def put(path: Path, **servers: str) -> None:
    path.write_text(json.dumps({"mcpServers": {name: {"command": command} for name, command in servers.items()}}))


def commands(file: ServersFile) -> dict[str, str]:
    return {name: entry.command for name, entry in file.table(at_once=True).entries.items()}


def test_p93_edits_and_a_replaced_link_are_noticed(tmp_path: Path) -> None:
    path, clock = tmp_path / FILE, SetClock()
    put(tmp_path / "first", a="one")
    put(tmp_path / "second", b="two")
    path.symlink_to(tmp_path / "first")
    file = ServersFile(path, dict, clock)
    assert commands(file) == {"a": "one"}
    path.unlink()
    path.symlink_to(tmp_path / "second")
    assert commands(file) == {"b": "two"}
    before = file.table()
    os.utime(tmp_path / "second", ns=(1, 1))
    assert file.table(at_once=True) is before  # the same content is the same table


def test_d73_a_broken_edit_leaves_the_servers_as_they_were(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / FILE
    put(path, a="one")
    file = ServersFile(path, dict, SetClock())
    assert commands(file) == {"a": "one"}
    path.write_text('{"mcpServers": {')
    with caplog.at_level(logging.ERROR):
        assert commands(file) == {"a": "one"}
    assert f"{path}:1" in caplog.text
    put(path, a="three")
    assert commands(file) == {"a": "three"}


def test_servers_of_a_file_that_is_gone_stay_for_a_moment(tmp_path: Path) -> None:
    path, clock = tmp_path / FILE, SetClock()
    put(path, a="one")
    file = ServersFile(path, dict, clock)
    assert commands(file) == {"a": "one"}
    path.unlink()
    assert commands(file) == {"a": "one"}
    clock.now += GONE_SECONDS
    assert commands(file) == {}


def test_a_reloaded_variable_makes_another_entry(tmp_path: Path) -> None:
    path, environ = tmp_path / FILE, {"V": "1"}
    path.write_text('{"mcpServers": {"a": {"command": "sh", "args": ["${V}"]}, "b": {"command": "sh"}}}')
    held: list[Mapping[str, str]] = [environ]
    file = ServersFile(path, lambda: held[0], SetClock())
    before = file.table(at_once=True)
    held[0] = {"V": "1", "OTHER": "x"}
    assert file.table(at_once=True) is before
    held[0] = {"V": "2"}
    after = file.table(at_once=True)
    assert after.entries["a"].args == ("2",) and after.entries["b"] == before.entries["b"]


def test_without_a_file_there_are_no_servers_and_no_complaint(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert commands(ServersFile(tmp_path / FILE, dict, SetClock())) == {}
    assert caplog.text == ""


def test_something_that_is_no_file_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FILE).mkdir()
    assert commands(ServersFile(tmp_path / FILE, dict, SetClock())) == {}
    assert FILE in caplog.text
