"""From an ordinary client's configuration to one of ``vcp modular`` (MOD-15 to MOD-19)."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from app.config.durable import create_atomic, write_atomic
from app.config.small_file import read_small
from app.errors import VcpError, both
from app.extend import Json
from app.mcp.client.servers_file import CONTAINERS, MAX_FILE_BYTES
from app.protocol.json_text import pretty_json
from app.protocol.tolerant_json import Oddity, tolerant_json

OUTPUT_NAME = "modular-mcp.json"
SERVER_NAME = "modular-mcp"
SCHEMA_URL = "https://raw.githubusercontent.com/d-kimuson/modular-mcp/refs/heads/main/config-schema.json"
"""Which editors know as the schema of such files."""

MAX_BACKUPS = 1_000


class MigrationError(VcpError):
    """A configuration cannot be migrated; nothing was changed unless the message says so."""

    code = "migration"


@dataclass(frozen=True, slots=True)
class Found:
    """One server of the client's file; ``shown`` is its command or address."""

    name: str
    kind: str
    shown: str
    description: str
    entry: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class ClientFile:
    """An ordinary client's configuration: all of it, and the key under which its servers are."""

    path: Path
    value: Mapping[str, Json]
    container: str
    servers: tuple[Found, ...]
    oddities: tuple[Oddity, ...]


def read_client_file(path: Path) -> ClientFile:
    """Read a client's file as tolerantly as all configurations (D73); raises MigrationError, which says why not."""
    try:
        data = read_small(path, MAX_FILE_BYTES + 1)
    except OSError as error:
        raise MigrationError(
            both(f"无法读取 {path}", f"{path} cannot be read") + f": {error.strerror or error}"
        ) from error
    if len(data) > MAX_FILE_BYTES:
        raise MigrationError(
            both(f"{path} 超过 {MAX_FILE_BYTES} 字节", f"{path} is larger than {MAX_FILE_BYTES} bytes")
        )
    try:
        value, oddities = tolerant_json(data.decode("utf-8"))
    except json.JSONDecodeError as error:
        place = f"{path}:{error.lineno}:{error.colno}"
        raise MigrationError(both(f"{place} 不是有效的 JSON", f"{place} is no JSON") + f": {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise MigrationError(both(f"{path} 不是可用的 JSON", f"{path} is no usable JSON")) from error
    container = next((key for key in CONTAINERS if isinstance(value, dict) and isinstance(value.get(key), dict)), "")
    if not container:
        raise MigrationError(both(f"{path} 没有对象 mcpServers", f"{path} has no object mcpServers"))
    servers = tuple(_found(name, entry, path) for name, entry in value[container].items())
    if not servers:
        raise MigrationError(both(f"{path} 没有服务器可迁移", f"{path} has no servers to migrate"))
    return ClientFile(path, value, container, servers, oddities)


def _found(name: str, entry: Any, path: Path) -> Found:
    if not isinstance(entry, dict):
        raise MigrationError(both(f"{path}：服务器 {name} 不是对象", f"{path}: server {name} is no object"))
    url = next(
        (entry[key] for key in ("url", "serverUrl", "httpUrl", "baseUrl") if isinstance(entry.get(key), str)), ""
    )
    command = entry.get("command")
    if isinstance(command, list):  # some clients keep the whole command line in one list
        command = " ".join(str(word) for word in command)
    if not url and not (isinstance(command, str) and command):
        raise MigrationError(
            both(f"{path}：服务器 {name} 既无 command 也无 url", f"{path}: server {name} has neither command nor url")
        )
    given = entry.get("type")
    kind = given if isinstance(given, str) and given else ("http" if url else "stdio")
    args = entry.get("args")
    words = [str(word) for word in args] if isinstance(args, list) else []
    description = entry.get("description")
    return Found(
        name,
        kind,
        url or " ".join((str(command), *words)),
        " ".join(description.split()) if isinstance(description, str) else "",
        entry,
    )


def migrated(servers: Sequence[Found], descriptions: Mapping[str, str]) -> dict[str, Json]:
    """The configuration of the proxy (MOD-16): each server with its description first, then ``type``, then the rest.

    Further fields of a server are kept, since the proxy knows them (``disabled``, ``timeout``, …).
    """
    entries: dict[str, Json] = {}
    for server in servers:
        rest = {key: value for key, value in server.entry.items() if key not in ("description", "type")}
        entries[server.name] = {"description": descriptions[server.name], "type": server.kind, **rest}
    return {"$schema": SCHEMA_URL, "mcpServers": entries}


def client_after(
    file: ClientFile, command: Sequence[str], output: Path, environment: Mapping[str, str]
) -> dict[str, Json]:
    """The client's configuration afterwards (MOD-17): our proxy as its only server; other root keys are kept.

    ``command`` with the output behind it is the command line, ``environment`` what it needs.
    """
    program, *words = command
    proxy = {"type": "stdio", "command": program, "args": [*words, str(output)], "env": dict(environment)}
    return {key: {SERVER_NAME: proxy} if key == file.container else value for key, value in file.value.items()}


def check_output(file: ClientFile, output: Path, *, force: bool) -> None:
    """Raise MigrationError for an output that would overwrite something, or that a server of the client starts.

    The latter was migrated before: the proxy would start itself without end, and what it has would be lost.
    """
    place = os.path.realpath(output)
    if place == os.path.realpath(file.path):
        raise MigrationError(both(f"{output} 就是输入文件", f"{output} is the input itself"))
    for server in file.servers:
        args = server.entry.get("args")
        if isinstance(args, list) and any(_leads_to(word, place) for word in args):
            raise MigrationError(
                both(
                    f"{file.path} 已迁移：服务器 {server.name} 使用 {output}",
                    f"{file.path} was migrated before: its server {server.name} uses {output}",
                )
            )
    if os.path.lexists(output) and not force:
        raise MigrationError(both(f"{output} 已存在；用 --force 覆盖", f"{output} exists; --force overwrites it"))


def _leads_to(word: Json, place: str) -> bool:
    if not isinstance(word, str) or "\0" in word or not Path(word).is_absolute():
        return False
    return os.path.realpath(word) == place


def write_migration(file: ClientFile, output: Path, new: Json, after: Json, *, force: bool) -> Path:
    """Keep the original as ``.bak``, write the new file, then the client's own; returns the path of the copy.

    Every file is written whole or not at all. Raises MigrationError, which says what was written by then.
    """
    check_output(file, output, force=force)
    try:
        original = read_small(file.path, MAX_FILE_BYTES)
        mode = file.path.stat().st_mode & 0o777
        copy = _kept(file.path, original, mode)
    except OSError as error:
        raise MigrationError(_not_written(f"{file.path}.bak", error)) from error
    data = _written(new)
    try:
        if force:
            write_atomic(output, data, mode)
        elif not create_atomic(output, data, mode):
            raise MigrationError(both(f"{output} 已存在；用 --force 覆盖", f"{output} exists; --force overwrites it"))
    except OSError as error:
        raise MigrationError(_not_written(output, error)) from error
    try:
        write_atomic(file.path, _written(after), mode)
    except OSError as error:
        told = "; ".join((_not_written(file.path, error), both(f"{output} 已写好", f"{output} is written")))
        raise MigrationError(told) from error
    return copy


def _written(value: Json) -> bytes:
    return (pretty_json(value) + "\n").encode("utf-8", "backslashreplace")  # lone halves as JSON escapes them


def _kept(path: Path, data: bytes, mode: int) -> Path:
    for number in count():
        copy = path.with_name(f"{path.name}.bak" + (f".{number}" if number else ""))
        if create_atomic(copy, data, mode):
            return copy
        with contextlib.suppress(OSError):
            if read_small(copy, MAX_FILE_BYTES) == data:
                return copy  # an attempt that failed later has kept it already
        if number >= MAX_BACKUPS:
            raise FileExistsError(f"{path.name}.bak.{number}")
    raise AssertionError("unreachable")


def _not_written(path: Path | str, error: OSError) -> str:
    return both(f"无法写入 {path}", f"{path} cannot be written") + f": {error.strerror or error}"
