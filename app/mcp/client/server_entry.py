"""One server of ``mcp_servers.json``: what its entry says, in whatever dialect it is written (MOD-6, P84, P95)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from app.errors import VcpError, both

MAX_ITEMS = 1_000
"""Most arguments, variables, headers, patterns or roots of one server."""

MAX_TEXT = 32_000
"""Longest text of an entry, in characters."""

DAY = 86_400.0

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}", re.ASCII)
_BAD_VALUE = re.compile(r"[\x00\r\n]")


class ServerKind(StrEnum):
    """How a server is reached."""

    STDIO = "stdio"
    HTTP = "http"  # streamable HTTP, with the old SSE where a server has only that
    SSE = "sse"


_KINDS: Mapping[str, ServerKind] = MappingProxyType(
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

_ALIASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
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

_OF_STDIO = ("command", "args", "env", "cwd", "inheritEnv")
_OF_HTTP = ("url", "headers", "oauth")

Complain = Callable[[str, str], None]


class EntryError(VcpError):
    """An entry cannot be used; ``key`` is what is wrong."""

    code = "mcp_server_entry"

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


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
        raise EntryError("", both("应是一个 JSON 对象", "should be a JSON object"))
    reader = _Reader(_renamed(raw, complain), environ, complain)
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


def _renamed(raw: Mapping[str, Any], complain: Complain) -> dict[str, Any]:
    """The entry under our names of the keys; those nobody knows are told and left out (P95)."""
    values: dict[str, Any] = {}
    known = {alias: key for key, aliases in _ALIASES.items() for alias in aliases}
    for written, value in raw.items():
        key = known.get(written)
        if key is None:
            if not written.startswith(("//", "#")):
                complain(written, both("未知的键，已忽略", "is not known and ignored"))
        elif key in values:
            complain(written, both(f"与 {key} 重复，已忽略", f"says the same as {key} and is ignored"))
        else:
            values[key] = value
    return values


def _kind(reader: _Reader, raw: Mapping[str, Any]) -> ServerKind:
    written = reader.values.get("type")
    if written is None:
        if "command" in reader.values:
            return ServerKind.STDIO
        if "url" in reader.values:
            sse = "httpUrl" not in raw and urlsplit(str(reader.values["url"])).path.rstrip("/").endswith("/sse")
            return ServerKind.SSE if sse else ServerKind.HTTP
        raise EntryError("", both("既没有 command 也没有 url", "has neither command nor url"))
    kind = _KINDS.get(re.sub(r"[-_ ]", "", written).lower()) if isinstance(written, str) else None
    if kind is None:
        shown = str(written)[:40]
        raise EntryError(
            "type",
            both(f"{shown} 不受支持；应为 stdio、http 或 sse", f"{shown} is not supported; stdio, http and sse are"),
        )
    return kind


def _command(reader: _Reader) -> tuple[str, tuple[str, ...]]:
    written = reader.values.get("command")
    args = reader.texts("args")
    if isinstance(written, list):  # some clients keep the whole command line in one list
        words = reader.texts("command")
        written, args = (words[0] if words else ""), (*words[1:], *args)
    if not isinstance(written, str) or not written.strip() or _BAD_VALUE.search(written):
        raise EntryError("command", both("应是一个程序的名称或路径", "should be the name or path of a program"))
    if any("\0" in text for text in args):
        raise EntryError("args", both("不能含 NUL 字符", "cannot hold a NUL character"))
    return written, tuple(reader.fill("args", text) for text in args)


def _url(reader: _Reader) -> str:
    written = reader.text("url")
    url = reader.fill("url", written).strip()
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good or re.search(r"[\x00-\x20]", url):
        raise EntryError("url", both("应是 http:// 或 https:// 地址", "should be an address with http:// or https://"))
    return url


def _headers(reader: _Reader) -> Mapping[str, str]:
    headers = {}
    for name, value in reader.filled("headers").items():
        if _HEADER.fullmatch(name) and not _BAD_VALUE.search(value) and value.isprintable():
            headers[name] = value.strip()
        else:
            reader.complain(f"headers.{name}", both("不是 HTTP 头，已忽略", "is no HTTP header and ignored"))
    return MappingProxyType(headers)


def _oauth(reader: _Reader) -> OAuthEntry | None:
    if reader.values.get("oauth") is None:
        return None
    given = reader.mapping("oauth")
    inner = _Reader(given, reader.environ, lambda key, reason: reader.complain(f"oauth.{key}", reason))
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
    reader = _Reader(given, {}, lambda key, reason: complain(f"tools.{key}", reason))
    for key in given:
        if key not in ("allow", "deny", "timeouts"):
            reader.complain(key, both("未知的键，已忽略", "is not known and ignored"))
    limits = _Reader(reader.mapping("timeouts"), {}, lambda key, reason: complain(f"tools.timeouts.{key}", reason))
    seconds = {tool: limit for tool in limits.values if (limit := limits.seconds(tool)) is not None}
    return reader.texts("allow"), reader.texts("deny"), MappingProxyType(seconds)


class _Reader:
    """Reads values of an entry by kind; what has the wrong one is told and passed over."""

    def __init__(self, values: Mapping[str, Any], environ: Mapping[str, str], complain: Complain) -> None:
        self.values = values
        self.environ = environ
        self.complain = complain
        self.missing: dict[str, None] = {}

    def text(self, key: str) -> str:
        value = self.values.get(key)
        if isinstance(value, str) and len(value) <= MAX_TEXT and "\0" not in value:
            return value
        if value is not None:
            self.complain(key, both("应是文本，已忽略", "should be a text and is ignored"))
        return ""

    def switch(self, key: str, default: bool = False) -> bool:
        value = self.values.get(key)
        if isinstance(value, bool):
            return value
        if value is not None:
            self.complain(key, both("应为 true 或 false，已忽略", "should be true or false and is ignored"))
        return default

    def seconds(self, key: str, unit: float = 1.0) -> float | None:
        value = self.values.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e12:
            if value * unit > DAY:
                self.complain(
                    key,
                    both("单位是秒；这超过一天", "counts seconds, and these are more than a day"),
                )
            return float(value * unit)
        if value is not None:
            self.complain(key, both("应是大于 0 的秒数，已忽略", "should be seconds above 0 and is ignored"))
        return None

    def count(self, key: str) -> int | None:
        value = self.values.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 10_000:
            return value
        if value is not None:
            self.complain(key, both("应是 1 到 10000 的整数，已忽略", "should be 1 to 10000 and is ignored"))
        return None

    def mapping(self, key: str) -> Mapping[str, Any]:
        value = self.values.get(key)
        if isinstance(value, dict):
            return value
        if value is not None:
            self.complain(key, both("应是一个 JSON 对象，已忽略", "should be a JSON object and is ignored"))
        return {}

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; numbers and switches in it become texts, as every client does."""
        value = self.values.get(key)
        if isinstance(value, str):
            value = [value]
        if value is None:
            return ()
        if not isinstance(value, list) or len(value) > MAX_ITEMS:
            raise EntryError(
                key, both(f"应是至多 {MAX_ITEMS} 个文本的列表", f"should be a list of at most {MAX_ITEMS} texts")
            )
        return tuple(self._word(key, item) for item in value)

    def filled(self, key: str) -> Mapping[str, str]:
        """Texts by name, with ``${NAME}`` filled in."""
        given = self.mapping(key)
        if len(given) > MAX_ITEMS:
            raise EntryError(key, both(f"至多 {MAX_ITEMS} 项", f"has at most {MAX_ITEMS} items"))
        return MappingProxyType(
            {
                name: self.fill(key, self._word(f"{key}.{name}", value))
                for name, value in given.items()
                if value is not None
            }
        )

    def fill(self, key: str, text: str) -> str:
        """``text`` with each ``${NAME}`` that is set in place of its name; one pass, everything else stays (P84)."""

        def value_of(found: re.Match[str]) -> str:
            value = self.environ.get(found[1])
            if value is None:
                if found[1] not in self.missing:
                    self.missing[found[1]] = None
                    self.complain(key, both(f"变量 {found[1]} 未设置", f"the variable {found[1]} is not set"))
                return found[0]
            return value

        return _VARIABLE.sub(value_of, text)

    def _word(self, key: str, value: Any) -> str:
        if isinstance(value, bool):
            value = "true" if value else "false"
        elif isinstance(value, int | float):
            value = str(value)
        if not isinstance(value, str) or len(value) > MAX_TEXT:
            raise EntryError(key, both("应是文本", "should be a text"))
        return value
