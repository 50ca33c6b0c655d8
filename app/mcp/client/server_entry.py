"""One server of ``mcp_servers.json``: what its entry says, in whatever dialect it is written (MOD-6, P84, P95)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from app.errors import both
from app.mcp.client.entry_reader import Complain, EntryError, EntryReader

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}", re.ASCII)
_BAD_VALUE = re.compile(r"[\x00\r\n]")


class ServerKind(StrEnum):
    """How a server is reached."""

    STDIO = "stdio"
    HTTP = "http"  # streamable HTTP, with the old SSE where a server has only that
    SSE = "sse"


KINDS: Mapping[str, ServerKind] = MappingProxyType(
    {
        "stdio": ServerKind.STDIO,
        "local": ServerKind.STDIO,
        "http": ServerKind.HTTP,
        "https": ServerKind.HTTP,
        "remote": ServerKind.HTTP,
        "streamable": ServerKind.HTTP,
        "streamablehttp": ServerKind.HTTP,
        "sse": ServerKind.SSE,
    }
)
"""What ``type`` may say, without hyphens, blanks and capitals."""

ALIASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "type": ("type", "transport", "transportType"),
        "url": ("url", "serverUrl", "httpUrl", "baseUrl"),
        "env": ("env", "environment"),
        "headers": ("headers", "http_headers"),
        "disabled": ("disabled",),
        "enabled": ("enabled", "isActive"),
        "inheritEnv": ("inheritEnv",),
        "allow": ("includeTools", "enabledTools"),
        "deny": ("excludeTools", "disabledTools"),
        "timeout": ("timeout",),
        "timeoutMs": ("timeoutMs",),
        **{
            key: (key,)
            for key in (
                "description",
                "command",
                "args",
                "cwd",
                "tools",
                "sampling",
                "samplingModel",
                "roots",
                "autoStart",
                "idleSeconds",
                "connectSeconds",
                "maxRunning",
                "oauth",
            )
        },
    }
)
"""What each of our keys may be called; the first is ours."""

_KNOWN: Mapping[str, str] = MappingProxyType({alias: key for key, names in ALIASES.items() for alias in names})

_OF_STDIO = ("command", "args", "env", "cwd", "inheritEnv")
_OF_HTTP = ("url", "headers", "oauth")


@dataclass(frozen=True, slots=True)
class OAuthEntry:
    """What an entry says about signing in: a client that is registered already, and the scopes to ask for (MCP-76)."""

    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """One server. Equal entries need no new connection.

    Seconds are None where the settings decide; ``timeout`` and ``tool_timeouts`` are limits as they stand, whether
    progress is told or not (D74). ``allow`` and ``deny`` are patterns of tool names. ``cwd`` and ``roots`` are paths,
    relative ones to the home. ``missing`` names variables of ``${NAME}`` that are not set.
    """

    name: str
    kind: ServerKind
    description: str = ""
    disabled: bool = False
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    inherit_env: bool = False
    cwd: str = ""
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    oauth: OAuthEntry | None = None
    timeout: float | None = None
    tool_timeouts: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    connect_seconds: float | None = None
    idle_seconds: float | None = None
    max_running: int | None = None
    auto_start: bool = False
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    sampling: bool = False
    sampling_model: str = ""
    roots: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """Where the server is, for people, without anything that may be secret."""
        if self.kind is ServerKind.STDIO:
            return self.command
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def read_entry(name: str, raw: Any, environ: Mapping[str, str], complain: Complain) -> ServerEntry:
    """The server that ``raw`` describes; ``complain(key, reason)`` is told what is odd. Raises EntryError."""
    if not isinstance(raw, dict):
        raise EntryError(both("应是一个 JSON 对象", "should be a JSON object"), "")
    written = _written(raw)

    def told(key: str, reason: str) -> None:
        complain(_as_written(key, written), reason)

    try:
        return _entry(name, raw, EntryReader(_renamed(raw, complain), environ, told), told)
    except EntryError as error:
        raise EntryError(error.message, _as_written(error.key, written)) from error


def _entry(name: str, raw: Mapping[str, Any], reader: EntryReader, complain: Complain) -> ServerEntry:
    kind = _kind(reader, raw)
    for key in _OF_HTTP if kind is ServerKind.STDIO else _OF_STDIO:
        if key in reader.values:
            complain(
                key, both(f"对 {kind} 服务器无意义，已忽略", f"means nothing for a server of type {kind}: ignored")
            )
    command, args = "", tuple[str, ...]()
    if kind is ServerKind.STDIO:
        command, args = _command(reader)
    tools = reader.mapping("tools") if not isinstance(reader.values.get("tools"), list) else {}
    listed = reader.texts("tools") if isinstance(reader.values.get("tools"), list) else ()
    allow, deny, timeouts = _tools(tools, complain)
    stdio = kind is ServerKind.STDIO
    return ServerEntry(
        name=name,
        kind=kind,
        description=reader.text("description"),
        disabled=reader.switch("disabled") or not reader.switch("enabled", True),
        command=command,
        args=args,
        env=reader.filled("env") if stdio else MappingProxyType({}),
        inherit_env=stdio and reader.switch("inheritEnv"),
        cwd=reader.text("cwd") if stdio else "",
        url="" if stdio else _url(reader),
        headers=MappingProxyType({}) if stdio else _headers(reader),
        oauth=None if stdio else _oauth(reader),
        timeout=reader.seconds("timeout") or reader.seconds("timeoutMs", 0.001),
        tool_timeouts=timeouts,
        connect_seconds=reader.seconds("connectSeconds"),
        idle_seconds=reader.seconds("idleSeconds"),
        max_running=reader.count("maxRunning"),
        auto_start=reader.switch("autoStart"),
        allow=(*allow, *listed, *reader.texts("allow")),
        deny=(*deny, *reader.texts("deny")),
        sampling=reader.switch("sampling"),
        sampling_model=reader.text("samplingModel"),
        roots=reader.texts("roots"),
        missing=tuple(reader.missing),
    )


def _written(raw: Mapping[str, Any]) -> Mapping[str, str]:
    """How the entry writes our keys, so that people are told of the words that they wrote (P95)."""
    written: dict[str, str] = {}
    for name in raw:
        if name in _KNOWN:
            written.setdefault(_KNOWN[name], name)
    return written


def _as_written(key: str, written: Mapping[str, str]) -> str:
    own = key.partition(".")[0]
    return written.get(own, own) + key[len(own) :]


def _renamed(raw: Mapping[str, Any], complain: Complain) -> dict[str, Any]:
    """The entry under our names of the keys; those nobody knows are told and left out (P95)."""
    values: dict[str, Any] = {}
    for written, value in raw.items():
        key = _KNOWN.get(written)
        if key is None:
            if not written.startswith(("//", "#")):
                complain(written, both("未知的键，已忽略", "is not known and ignored"))
        elif key in values:
            complain(written, both(f"与 {key} 重复，已忽略", f"says the same as {key} and is ignored"))
        else:
            values[key] = value
    return values


def _kind(reader: EntryReader, raw: Mapping[str, Any]) -> ServerKind:
    written = reader.values.get("type")
    if written is None:
        if "command" in reader.values:
            return ServerKind.STDIO
        if "url" in reader.values:
            sse = "httpUrl" not in raw and urlsplit(str(reader.values["url"])).path.rstrip("/").endswith("/sse")
            return ServerKind.SSE if sse else ServerKind.HTTP
        raise EntryError(both("既没有 command 也没有 url", "has neither command nor url"), "")
    if not isinstance(written, str):
        raise EntryError(both("应是文本", "should be a text"), "type")
    kind = KINDS.get(re.sub(r"[-_ ]", "", written).lower())
    if kind is None:
        shown = written[:40]
        raise EntryError(
            both(f"{shown} 不受支持；应为 stdio、http 或 sse", f"{shown} is not supported; stdio, http and sse are"),
            "type",
        )
    return kind


def _command(reader: EntryReader) -> tuple[str, tuple[str, ...]]:
    written = reader.values.get("command")
    args = reader.texts("args")
    if isinstance(written, list):  # some clients keep the whole command line in one list
        words = reader.texts("command")
        written, args = (words[0] if words else ""), (*words[1:], *args)
    if not isinstance(written, str) or not written.strip() or _BAD_VALUE.search(written):
        raise EntryError(both("应是一个程序的名称或路径", "should be the name or path of a program"), "command")
    if any("\0" in text for text in args):
        raise EntryError(both("不能含 NUL 字符", "cannot hold a NUL character"), "args")
    return written, tuple(reader.fill("args", text) for text in args)


def _url(reader: EntryReader) -> str:
    written = reader.values.get("url")
    url = reader.fill("url", written).strip() if isinstance(written, str) else ""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good or re.search(r"[\x00-\x20]", url):
        raise EntryError(both("应是 http:// 或 https:// 地址", "should be an address with http:// or https://"), "url")
    return url


def _headers(reader: EntryReader) -> Mapping[str, str]:
    headers = {}
    for name, value in reader.filled("headers").items():
        if _HEADER.fullmatch(name) and not _BAD_VALUE.search(value) and value.isprintable():
            headers[name] = value.strip()
        else:
            reader.complain(f"headers.{name}", both("不是 HTTP 头，已忽略", "is no HTTP header and ignored"))
    return MappingProxyType(headers)


def _oauth(reader: EntryReader) -> OAuthEntry | None:
    if reader.values.get("oauth") is None:
        return None
    given = reader.mapping("oauth")
    inner = EntryReader(given, reader.environ, lambda key, reason: reader.complain(f"oauth.{key}", reason))
    for key in given:
        if key not in ("clientId", "clientSecret", "scopes"):
            inner.complain(key, both("未知的键，已忽略", "is not known and ignored"))
    scopes = given.get("scopes")
    entry = OAuthEntry(
        inner.fill("clientId", inner.text("clientId")),
        inner.fill("clientSecret", inner.text("clientSecret")),
        tuple(scopes.split()) if isinstance(scopes, str) else inner.texts("scopes"),
    )
    reader.missing.update(inner.missing)
    return entry


def _tools(
    given: Mapping[str, Any], complain: Complain
) -> tuple[tuple[str, ...], tuple[str, ...], Mapping[str, float]]:
    reader = EntryReader(given, {}, lambda key, reason: complain(f"tools.{key}", reason))
    for key in given:
        if key not in ("allow", "deny", "timeouts"):
            reader.complain(key, both("未知的键，已忽略", "is not known and ignored"))
    limits = EntryReader(reader.mapping("timeouts"), {}, lambda key, reason: complain(f"tools.timeouts.{key}", reason))
    seconds = {tool: limit for tool in limits.values if (limit := limits.seconds(tool)) is not None}
    return reader.texts("allow"), reader.texts("deny"), MappingProxyType(seconds)
