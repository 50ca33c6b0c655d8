"""Ordinary configurations become those of the proxy (MOD-15 to MOD-19)."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from app.config import durable
from app.mcp.client.servers_file import read_servers
from app.mcp.groups.migration import (
    SCHEMA_URL,
    MigrationError,
    check_output,
    client_after,
    migrated,
    read_client_file,
    write_migration,
)

STDIO = {"command": "npx", "args": ["-y", "x@1", "${HOME_X}"], "env": {"A": "pa$$word"}, "disabled": True}
HTTP = {"url": "https://example.com/mcp", "headers": {"A": "B"}, "description": " Old\n one "}


def written(tmp_path: Path, value: Any = None, name: str = "client.json") -> Path:
    path = tmp_path / name
    value = {"theme": "dark", "mcpServers": {"one": STDIO, "two": HTTP}, "more": [1]} if value is None else value
    path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return path


def test_the_new_file_has_descriptions_first_then_types_then_the_rest(tmp_path: Path) -> None:  # MOD-16
    file = read_client_file(written(tmp_path))
    new = migrated(file.servers, {"one": "First", "two": "Second"})
    assert list(new) == ["$schema", "mcpServers"]
    assert new["$schema"] == SCHEMA_URL
    one, two = new["mcpServers"]["one"], new["mcpServers"]["two"]
    assert list(one) == ["description", "type", "command", "args", "env", "disabled"]
    assert (one["description"], one["type"], two["type"]) == ("First", "stdio", "http")
    assert one["args"] == STDIO["args"]  # nothing is put in for variables
    assert one["env"] == {"A": "pa$$word"}
    assert two == {"description": "Second", "type": "http", "url": HTTP["url"], "headers": HTTP["headers"]}
    table, problems = read_servers(json.dumps(new).encode(), {"HOME_X": "x"})
    assert not problems
    assert list(table.entries) == ["one", "two"]
    assert table.entries["one"].disabled


def test_what_is_shown_of_each_server(tmp_path: Path) -> None:  # MOD-15
    one, two = read_client_file(written(tmp_path)).servers
    assert (one.name, one.kind, one.shown, one.description) == ("one", "stdio", "npx -y x@1 ${HOME_X}", "")
    assert (two.name, two.kind, two.shown, two.description) == ("two", "http", "https://example.com/mcp", "Old one")


def test_the_client_keeps_everything_but_its_servers(tmp_path: Path) -> None:  # MOD-17, MOD-19
    file = read_client_file(written(tmp_path))
    after = client_after(file, ("/opt/vcp", "modular"), tmp_path / "new.json", {})
    proxy = {"type": "stdio", "command": "/opt/vcp", "args": ["modular", str(tmp_path / "new.json")], "env": {}}
    assert after == {"theme": "dark", "mcpServers": {"modular-mcp": proxy}, "more": [1]}
    assert list(after) == ["theme", "mcpServers", "more"]


def migrate(tmp_path: Path, path: Path, output: Path, *, force: bool = False) -> Path:
    file = read_client_file(path)
    new = migrated(file.servers, {server.name: "d" for server in file.servers})
    return write_migration(file, output, new, client_after(file, ("vcp", "modular"), output, {}), force=force)


def test_the_original_is_kept_and_files_are_written_whole(tmp_path: Path) -> None:  # MOD-18, MOD-19
    path, output = written(tmp_path), tmp_path / "new.json"
    path.chmod(0o600)
    before = path.read_bytes()
    copy = migrate(tmp_path, path, output)
    assert copy.name == "client.json.bak"
    assert copy.read_bytes() == before
    assert output.read_text("utf-8").endswith("}\n")
    assert output.read_text("utf-8").startswith('{\n  "$schema"')
    assert json.loads(path.read_text("utf-8"))["mcpServers"]["modular-mcp"]["args"] == ["modular", str(output)]
    assert {oct(one.stat().st_mode & 0o777) for one in (path, output, copy)} == {"0o600"}
    assert sorted(one.name for one in tmp_path.iterdir()) == ["client.json", "client.json.bak", "new.json"]
    path.write_text(json.dumps({"mcpServers": {"three": HTTP}}), "utf-8")
    assert migrate(tmp_path, path, output, force=True).name == "client.json.bak.1"  # no copy is ever overwritten
    assert copy.read_bytes() == before


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:  # MOD-19
    path, output = written(tmp_path), written(tmp_path, {"mine": 1}, "new.json")
    before = path.read_bytes()
    with pytest.raises(MigrationError, match="--force"):
        migrate(tmp_path, path, output)
    assert path.read_bytes() == before
    assert json.loads(output.read_text("utf-8")) == {"mine": 1}
    assert not (tmp_path / "client.json.bak").exists()
    link = tmp_path / "link.json"
    link.symlink_to(path)
    with pytest.raises(MigrationError, match="is the input"):
        check_output(read_client_file(path), link, force=True)


def test_what_was_migrated_is_not_migrated_into_itself(tmp_path: Path) -> None:
    """MOD-19: not even with --force; the proxy would start itself, and its servers would be lost."""
    path, output = written(tmp_path), tmp_path / "new.json"
    migrate(tmp_path, path, output)
    before = path.read_bytes(), output.read_bytes()
    with pytest.raises(MigrationError, match="migrated before: its server modular-mcp"):
        migrate(tmp_path, path, output, force=True)
    assert (path.read_bytes(), output.read_bytes()) == before
    check_output(read_client_file(path), tmp_path / "other.json", force=True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{oops", "client.json:1:2 is no JSON"),
        ("[]", "no object mcpServers"),
        ("{}", "no object mcpServers"),
        ('{"mcpServers": []}', "no object mcpServers"),
        ('{"mcpServers": {}}', "no servers to migrate"),
        ('{"mcpServers": {"a": 7}}', "server a is no object"),
        ('{"mcpServers": {"a": {"args": []}}}', "neither command nor url"),
        ("[" * 100_000, "JSON"),
        (" " * 1_100_000, "larger than"),
    ],
)
def test_what_cannot_be_migrated_says_why(tmp_path: Path, text: str, reason: str) -> None:  # MOD-18
    with pytest.raises(MigrationError, match=reason):
        read_client_file(written(tmp_path, text))


def test_a_file_that_is_missing_or_no_file_says_so(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(MigrationError, match="cannot be read"):
            read_client_file(path)
    (tmp_path / "latin.json").write_bytes(b'{"mcpServers": {"\xff": {}}}')
    with pytest.raises(MigrationError, match="no usable JSON"):
        read_client_file(tmp_path / "latin.json")


def test_servers_under_the_keys_of_other_clients_are_found(tmp_path: Path) -> None:  # P95
    others = {"a": {"type": "local", "command": ["x", "y"]}, "b": {"baseUrl": "https://b.example"}}
    shown = [server.shown for server in read_client_file(written(tmp_path, {"mcpServers": others})).servers]
    assert shown == ["x y", "https://b.example"]
    path = written(tmp_path, '\ufeff{"servers": {"a": {"serverUrl": "https://a.example", "type": "sse"},}} // VS Code')
    file = read_client_file(path)
    assert [(server.kind, server.shown) for server in file.servers] == [("sse", "https://a.example")]
    assert list(client_after(file, ("vcp",), tmp_path / "x", {})) == ["servers"]
    assert len(file.oddities) == 3


def test_a_full_disk_leaves_every_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, output = written(tmp_path), tmp_path / "new.json"
    before = path.read_bytes()
    written_before = os.fsync
    left = [1]  # the copy has room, the new file has not

    def full(descriptor: int) -> None:
        if left[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        left[0] -= 1
        written_before(descriptor)

    monkeypatch.setattr(durable.os, "fsync", full)
    monkeypatch.setattr(durable, "sync_folder", lambda folder: None)
    with pytest.raises(MigrationError, match=r"new.json cannot be written.*No space left"):
        migrate(tmp_path, path, output)
    assert path.read_bytes() == before
    assert not output.exists()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["client.json", "client.json.bak"]
    monkeypatch.undo()
    assert migrate(tmp_path, path, output).name == "client.json.bak"  # the same copy serves the next attempt
