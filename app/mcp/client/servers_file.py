"""``mcp_servers.json``: MCP servers whose tools we use, in the format of ordinary clients (D73, P84, P89, P93, P95).

No part of the SDK is imported here, so that every command may read the file.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from app.config.json_file import JsonFileError, parsed, whole_file
from app.config.live_file import LiveFile
from app.config.problem import Problem
from app.errors import both
from app.extend import Json
from app.mcp.client.entry_reader import Complain, EntryError
from app.mcp.client.server_entry import ServerEntry, read_entry

log = logging.getLogger(__name__)

FILE_NAME = "mcp_servers.json"
MAX_FILE_BYTES = 1024 * 1024
MAX_SERVERS = 500
MAX_PROBLEMS = 100
"""Most complaints about one file."""

MAX_NAME_CHARS = 64
GONE_SECONDS = 5.0
"""How long the servers of a file that vanished stay: some editors put another file in its place."""

CONTAINERS = ("mcpServers", "servers", "mcp_servers", "context_servers")
"""Keys under which clients keep their servers; VS Code has ``servers`` under ``mcp``."""

_IGNORED = ("$schema", "inputs")
_NO_NAME = re.compile(r"[\x00-\x1f\x7f-\x9f#「」\u2028\u2029\ud800-\udfff]")
_LISTED_NAMES = ("name", "id")


class ServersFileError(JsonFileError):
    """The file cannot be used at all; ``line`` says where, if it is known."""

    code = "mcp_servers_file"


@dataclass(frozen=True, slots=True)
class ServerTable:
    """The servers of a file by name, in its order, disabled ones among them.

    ``further`` holds those root keys that whoever read the file said that it knows itself. ``lost`` are the keys of
    those problems that cost a server.
    """

    entries: Mapping[str, ServerEntry] = field(default_factory=lambda: MappingProxyType({}))
    further: Mapping[str, Json] = field(default_factory=lambda: MappingProxyType({}))
    lost: tuple[str, ...] = ()


NO_SERVERS = ServerTable()


def name_fault(name: str) -> str:
    """Why a server cannot have this name, in both languages; empty when it can.

    A name may hold any letters and dots. ``#`` stands between nodes and tools, the corner brackets mark calls.
    """
    if not name or name != name.strip() or len(name) > MAX_NAME_CHARS or _NO_NAME.search(name):
        return both(
            f"名称应为 1 到 {MAX_NAME_CHARS} 个字符，首尾无空白，不含 #、「、」和控制字符",
            f"a name has 1 to {MAX_NAME_CHARS} characters, no blanks around it, and no #, 「, 」 or control characters",
        )
    return ""


def read_servers(
    data: bytes, environ: Mapping[str, str], file: str = FILE_NAME, *, further: frozenset[str] = frozenset()
) -> tuple[ServerTable, tuple[Problem, ...]]:
    """The servers of a file's content, and what is odd in it; a bad entry loses only itself.

    ``${NAME}`` stands for a variable of ``environ`` (MOD-6). ``further`` are root keys that the caller knows. Raises
    ServersFileError when nothing can be read.
    """
    value, problems = parsed(data, file, ServersFileError)
    lines = data.decode("utf-8", "replace").split("\n")

    lost: list[str] = []

    def complain(key: str, reason: str, below: str = "", *, loses: bool = False) -> None:
        """``below`` is the server whose entry has the key, so that the line is that of its own."""
        if len(problems) >= MAX_PROBLEMS:
            return
        shown = (f"{below}.{key}" if below and key else below or key)[:200]
        problems.append(Problem(file, _line(lines, key, below), shown, reason))
        if loses:
            lost.append(shown)

    found, others = _container(value, complain)
    for key in others:
        if key not in further and key not in _IGNORED and not key.startswith(("//", "#")):
            complain(key, both("未知的键，已忽略", "is not known and ignored"))
    entries: dict[str, ServerEntry] = {}
    for name, raw in found:
        fault = name_fault(name)
        if not fault and name in entries:
            fault = both("同名服务器已存在，已忽略", "there is a server of this name already; this one is ignored")
        if not fault and len(entries) >= MAX_SERVERS:
            fault = both(f"超过 {MAX_SERVERS} 个服务器，已忽略", f"is beyond {MAX_SERVERS} servers and ignored")
        if fault:
            complain("", fault, name[:MAX_NAME_CHARS] or "?", loses=True)
            continue

        def about(key: str, reason: str, name: str = name) -> None:
            complain(key, reason, name)

        try:
            entries[name] = read_entry(name, raw, environ, about)
        except EntryError as error:
            chinese, _, english = error.message.partition(" / ")
            left_out = both(f"{chinese}；此服务器未加载", f"{english}; this server is left out")
            complain(error.key, left_out, name, loses=True)
    kept = {key: others[key] for key in others if key in further}
    return ServerTable(MappingProxyType(entries), MappingProxyType(kept), tuple(lost)), tuple(problems)


def read_servers_file(
    path: Path, environ: Mapping[str, str], file: str = FILE_NAME, *, further: frozenset[str] = frozenset()
) -> tuple[ServerTable, tuple[Problem, ...]]:
    """The same of a file on the disk. Raises FileNotFoundError, and ServersFileError for all else."""
    data = whole_file(path, MAX_FILE_BYTES, ServersFileError)
    if data is None:
        raise FileNotFoundError(path)
    return read_servers(data, environ, file, further=further)


def _container(value: Any, complain: Complain) -> tuple[list[tuple[str, Any]], Mapping[str, Any]]:
    """Names and entries as written, and the other root keys."""
    if isinstance(value, list):
        return _listed(value, complain), {}
    if not isinstance(value, dict):
        raise ServersFileError(both("应是一个 JSON 对象", "must be a JSON object"))
    others = dict(value)
    inner = others.get("mcp")
    if isinstance(inner, dict) and any(key in inner for key in CONTAINERS):
        others.pop("mcp")
        others = {**inner, **others}
    found: list[tuple[str, Any]] = []
    for key in CONTAINERS:
        servers = others.pop(key, None)
        if isinstance(servers, dict):
            found += servers.items()
        elif isinstance(servers, list):
            found += _listed(servers, complain)
        elif servers is not None:
            complain(key, both("应是名称到服务器的 JSON 对象", "should be a JSON object of servers by name"))
    return found, others


def _listed(servers: list[Any], complain: Complain) -> list[tuple[str, Any]]:
    """Servers that come as a list, each with its name among its keys."""
    found = []
    for number, raw in enumerate(servers):
        name = next((raw[key] for key in _LISTED_NAMES if isinstance(raw.get(key), str)), "") if _is_map(raw) else ""
        if not name:
            complain("", both(f"列表中第 {number + 1} 项没有 name", f"item {number + 1} of the list has no name"))
            continue
        found.append((name, {key: item for key, item in raw.items() if key not in _LISTED_NAMES}))
    return found


def _is_map(value: Any) -> bool:
    return isinstance(value, dict)


def _line(lines: list[str], key: str, below: str) -> int | None:
    """The line of a key, looked for below that of its server; None when it is written with escapes."""
    start = 0
    if below:
        start = next((place for place, text in enumerate(lines) if f'"{below}"' in text), -1)
        if start < 0:
            return None
    word = key.split(".")[0].split("[")[0] or below
    return next((place for place in range(start, len(lines)) if f'"{word}"' in lines[place]), start) + 1


class ServersFile:
    """The servers of now. The file may be edited or replaced while the server runs (P93).

    A broken file leaves the last good one in force. ``environ`` gives the variables of now; ``clock`` seconds of a
    steady clock. Problems are logged when the content is new.
    """

    def __init__(
        self,
        path: Path,
        environ: Callable[[], Mapping[str, str]],
        clock: Callable[[], float],
        *,
        further: frozenset[str] = frozenset(),
    ) -> None:
        self.path = path
        self._file = LiveFile(path, MAX_FILE_BYTES, clock)
        self._environ = environ
        self._clock = clock
        self._further = further
        self._data: bytes | None = None
        self._read_with: Mapping[str, str] | None = None
        self._gone_since: float | None = None
        self._table = NO_SERVERS

    def table(self, *, at_once: bool = False) -> ServerTable:
        """What holds now; the same object while nothing changed. Looks at the file at most once a second."""
        content = self._file.changed(at_once=at_once)
        environ = self._environ()
        if content is not None:
            self._gone_since = None
            if content.error:
                self._broken(both("无法读取", "cannot be read") + f": {content.error}", None)
            elif content.data is None:
                self._gone_since = self._clock() if self._data is not None else None
            else:
                self._take(content.data, environ)
        elif self._data is not None and environ is not self._read_with and environ != self._read_with:
            self._take(self._data, environ)
        if self._gone_since is not None and self._clock() - self._gone_since >= GONE_SECONDS:
            self._gone_since, self._data, self._table = None, None, NO_SERVERS
            log.warning("%s is gone, and so are its servers", self.path)
        return self._table

    def _take(self, data: bytes, environ: Mapping[str, str]) -> None:
        try:
            table, problems = read_servers(data, environ, str(self.path), further=self._further)
        except ServersFileError as error:
            self._broken(error.message, error.line)
            return
        told = data != self._data
        self._data, self._read_with = data, environ
        if table != self._table:
            self._table = table
        if told:
            for problem in problems:
                log.warning("%s", problem)

    def _broken(self, reason: str, line: int | None) -> None:
        log.error("%s; the servers stay as they were", Problem(str(self.path), line, "", reason))
